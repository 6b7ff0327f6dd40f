#include "comm/formation.h"

#include <algorithm>
#include <random>

#include "base/bytes.h"
#include "base/error.h"

namespace atl::link {
namespace {

constexpr std::uint32_t kMagic = 0x534C5441;  // "ATLS"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kText = 16 * 1024, kMany = 8192;

ByteWriter record(std::uint8_t type) {
  ByteWriter out;
  out.u32(kMagic).u16(kVersion).u8(type);
  return out;
}

std::vector<std::byte> sealed(ByteWriter&& out) {
  out.u64(hash_bytes(out.view()).low);
  return out.take();
}

ByteReader opened(std::span<const std::byte> bytes, const std::string& name, std::uint8_t type) {
  const auto source = ByteSource::link("store, " + name);
  if (bytes.size() < 15) ByteReader(bytes, source).fail(text(bytes.size(), " bytes: no record of atoll"));
  const auto body = bytes.first(bytes.size() - 8);
  ByteReader in(body, source);
  if (ByteReader(bytes.last(8), source).u64("checksum") != hash_bytes(body).low) in.fail("its checksum is wrong");
  if (in.u32("magic") != kMagic) in.fail("no record of atoll");
  if (const auto version = in.u16("version"); version != kVersion)
    in.fail(text("version ", version, ", this program writes ", kVersion,
                 ": every site must run the same version of atoll"));
  if (in.u8("type") != type) in.fail("another kind of record");
  return in;
}

std::uint32_t count(ByteReader& in, const char* field) {
  const std::uint32_t n = in.u32(field);
  if (n > kMany) in.fail(text(n, " ", field));
  return n;
}

}  // namespace

std::string Generation::prefix() const { return text("gloo/", number, "-", random, "/"); }

std::vector<std::byte> encode(const JoinRecord& r) {
  ByteWriter out = record(1);
  out.u64(r.nonce).u32(r.after).u64(r.beat).hash(r.layout_hash).u32(static_cast<std::uint32_t>(r.slots.size()));
  for (const std::uint64_t values : r.slots) out.u64(values);
  out.u32(static_cast<std::uint32_t>(r.settings.size()));
  for (const auto& [key, value] : r.settings) out.string(key).string(value);
  return sealed(std::move(out));
}

JoinRecord decode_join(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in = opened(bytes, name, 1);
  JoinRecord r;
  r.nonce = in.u64("nonce");
  r.after = in.u32("after");
  r.beat = in.u64("beat");
  r.layout_hash = in.hash("layout");
  r.slots.resize(count(in, "slots"));
  for (std::uint64_t& values : r.slots) values = in.u64("slot");
  r.settings.resize(count(in, "settings"));
  for (auto& [key, value] : r.settings) {
    key = in.string("key", kText);
    value = in.string("value", kText);
  }
  in.expect_end();
  return r;
}

std::vector<std::byte> encode(const Generation& g) {
  ByteWriter out = record(2);
  out.u32(g.number).u64(g.random).u32(static_cast<std::uint32_t>(g.sites.size()));
  for (std::size_t i = 0; i < g.sites.size(); ++i) out.string(g.sites[i]).u64(g.nonces[i]);
  return sealed(std::move(out));
}

Generation decode_generation(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in = opened(bytes, name, 2);
  Generation g;
  g.number = in.u32("number");
  g.random = in.u64("random");
  const std::uint32_t sites = count(in, "sites");
  for (std::uint32_t i = 0; i < sites; ++i) {
    g.sites.push_back(in.string("site", kText));
    g.nonces.push_back(in.u64("nonce"));
  }
  in.expect_end();
  return g;
}

std::vector<std::byte> encode(const LeftRecord& r) {
  ByteWriter out = record(3);
  out.u64(r.nonce).u8(static_cast<std::uint8_t>(r.kind)).string(r.reason.substr(0, kText));
  return sealed(std::move(out));
}

LeftRecord decode_left(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in = opened(bytes, name, 3);
  LeftRecord r;
  r.nonce = in.u64("nonce");
  const std::uint8_t kind = in.u8("kind");
  if (kind < 1 || kind > 5) in.fail(text("kind ", int{kind}));
  r.kind = static_cast<Kind>(kind);
  r.reason = in.string("reason", kText);
  in.expect_end();
  return r;
}

std::string differences(const JoinRecord& mine, const std::string& my_name, const JoinRecord& other,
                        const std::string& other_name) {
  std::string all;
  const auto differ = [&](const std::string& key, const std::string& here, const std::string& there) {
    all += text("\n  ", key, " = ", here, " at ", my_name, ", but ", there, " at ", other_name);
  };
  std::map<std::string, std::string> theirs(other.settings.begin(), other.settings.end());
  for (const auto& [key, value] : mine.settings) {
    const auto found = theirs.find(key);
    if (found == theirs.end())
      differ(key, value, "not set");
    else if (found->second != value)
      differ(key, value, found->second);
    if (found != theirs.end()) theirs.erase(found);
  }
  for (const auto& [key, value] : theirs) differ(key, "not set", value);
  if (mine.layout_hash != other.layout_hash)
    differ("the model's layout (hash of names, shapes, order)", mine.layout_hash.hex(), other.layout_hash.hex());
  if (mine.slots != other.slots) {
    const auto first = std::mismatch(mine.slots.begin(), mine.slots.end(), other.slots.begin(), other.slots.end());
    const auto shown = [](const auto& at, const auto& end, std::size_t n) {
      return text(n, " messages", at == end ? std::string() : text(", the first that differs of ", *at, " values"));
    };
    differ("what is exchanged", shown(first.first, mine.slots.end(), mine.slots.size()),
           shown(first.second, other.slots.end(), other.slots.size()));
  }
  return all;
}

namespace {

// The trainer's settings, and what the sizes of messages follow from, unless the trainer has listed it.
std::vector<std::pair<std::string, std::string>> all_settings(const Hello& hello) {
  auto settings = hello.settings;
  const auto add = [&settings](const std::string& key, const std::string& value) {
    const auto is_key = [&key](const auto& each) { return each.first == key; };
    if (std::none_of(settings.begin(), settings.end(), is_key)) settings.emplace_back(key, value);
  };
  std::string names;
  for (const std::string& site : hello.sites) names += (names.empty() ? "" : ", ") + site;
  add("sites.names", names);
  add("comm.codec", hello.codec.name);
  add("comm.codec_block", text(hello.codec.block));
  add("comm.codec_keep", text(hello.codec.keep));
  add("comm.mean_codec", hello.mean_codec.name);
  add("comm.mean_block", text(hello.mean_codec.block));
  add("outer.clusters", text(hello.clusters));
  add("comm.streams", text(hello.streams));
  add("comm.piece_mib", text(static_cast<double>(hello.piece_bytes) / (1U << 20U)));
  return settings;
}

}  // namespace

Formation::Formation(FileStore& store, const Hello& hello) : store_(store), hello_(hello) {
  mine_ = {
      .nonce = hello.nonce, .layout_hash = hello.layout_hash, .slots = hello.slots, .settings = all_settings(hello)};
  for (const std::string& name : store_.list("gen"))
    mine_.after = std::max(mine_.after, static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10)));
}

void Formation::beat() {
  ++mine_.beat;
  store_.put("join/" + hello_.site, encode(mine_));
}

std::optional<JoinRecord> Formation::read_join(const std::string& site) const {
  const auto bytes = store_.get("join/" + site);
  if (!bytes) return std::nullopt;
  return decode_join(*bytes, "join/" + site);
}

void Formation::look(double now) {
  for (const std::string& site : hello_.sites) {
    if (site == hello_.site) continue;
    const auto record = read_join(site);
    if (!record) continue;
    const auto [at, first] = seen_.try_emplace(site, Seen{*record});
    Seen& seen = at->second;
    if (first) continue;
    if (seen.record.nonce == record->nonce && seen.record.beat == record->beat && seen.record.after == record->after)
      continue;
    seen = {*record, now, true};
  }
}

bool Formation::live(const std::string& site, double now) const {
  const auto found = seen_.find(site);
  return site == hello_.site || (found != seen_.end() && found->second.twice && now - found->second.changed <= kLive);
}

std::vector<std::string> Formation::absent(double now) const {
  std::vector<std::string> sites;
  for (const std::string& site : hello_.sites)
    if (!live(site, now)) sites.push_back(site);
  return sites;
}

Formation::Found Formation::poll(double now) {
  beat();
  look(now);
  for (std::size_t r = 0; r < hello_.sites.size(); ++r) {
    const std::string& site = hello_.sites[r];
    if (site == hello_.site || !live(site, now)) continue;
    const JoinRecord& other = seen_.at(site).record;
    if (!hello_.nonces.empty() && hello_.nonces[r] != other.nonce) {
      const std::string reason =
          site + " was started anew without its state: a lost site cannot come back into a run yet";
      leave(Kind::link, reason);
      return {.failed = Failed{Kind::link, reason}};
    }
    const std::string found = differences(mine_, hello_.site, other, site);
    if (!found.empty() && difference_.empty()) {
      difference_ =
          "the sites' settings differ:" + found + "\nall sites must be started with the same settings and data";
      difference_at_ = now;
    }
  }
  if (!difference_.empty()) {
    if (now - difference_at_ < kLinger) return {};  // so that the other finds it too
    leave(Kind::settings, difference_);
    return {.failed = Failed{Kind::settings, difference_}};
  }
  if (const auto gone = left(std::nullopt); gone && gone->record.kind != Kind::finished) {
    const Kind kind = gone->record.kind == Kind::user ? Kind::link : gone->record.kind;
    const std::string reason = gone->site + " left: " + gone->record.reason;
    leave(kind, reason);
    return {.failed = Failed{kind, reason}};
  }
  if (auto generation = adopt()) return {.generation = std::move(generation)};
  if (hello_.rank() == 0 && absent(now).empty()) create(now);
  return {};
}

std::optional<Generation> Formation::adopt() const {
  std::optional<Generation> newest;
  for (const std::string& name : store_.list("gen")) {
    const auto number = static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10));
    if (number <= mine_.after || (newest && number <= newest->number)) continue;
    const auto bytes = store_.get("gen/" + name);
    if (!bytes) continue;
    Generation g = decode_generation(*bytes, "gen/" + name);
    const auto rank = static_cast<std::size_t>(hello_.rank());
    if (g.number == number && g.sites == hello_.sites && g.nonces[rank] == mine_.nonce) newest = std::move(g);
  }
  return newest;
}

void Formation::create(double now) {
  (void)now;
  Generation g{.number = mine_.after + 1, .random = std::random_device{}(), .sites = hello_.sites};
  for (const std::string& name : store_.list("gen"))
    g.number = std::max(g.number, static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10)) + 1);
  for (const std::string& site : hello_.sites)
    g.nonces.push_back(site == hello_.site ? mine_.nonce : seen_.at(site).record.nonce);
  store_.remove_all("gloo");  // keys of generations that are over; nobody connects now
  store_.create(text("gen/", g.number), encode(g));
}

bool Formation::dead(const Generation& g) const {
  for (std::size_t r = 0; r < g.sites.size(); ++r) {
    if (g.sites[r] == hello_.site) continue;
    const auto record = read_join(g.sites[r]);
    if (record && record->nonce == g.nonces[r] && record->after >= g.number) return true;
  }
  return false;
}

std::optional<Formation::Left> Formation::left(const std::optional<Generation>& generation) const {
  std::optional<Left> done;
  for (std::size_t r = 0; r < hello_.sites.size(); ++r) {
    const std::string& site = hello_.sites[r];
    if (site == hello_.site) continue;
    const auto bytes = store_.get("left/" + site);
    if (!bytes) continue;
    LeftRecord record = decode_left(*bytes, "left/" + site);
    const auto seen = seen_.find(site);
    const bool counts = (!hello_.nonces.empty() && hello_.nonces[r] == record.nonce) ||
                        (generation && generation->nonces[r] == record.nonce) ||
                        (seen != seen_.end() && seen->second.twice && seen->second.record.nonce == record.nonce);
    if (!counts) continue;
    if (record.kind != Kind::finished) return Left{site, std::move(record)};
    if (!done) done = Left{site, std::move(record)};
  }
  return done;
}

void Formation::leave(Kind kind, const std::string& reason) {
  store_.put("left/" + hello_.site, encode(LeftRecord{.nonce = mine_.nonce, .kind = kind, .reason = reason}));
}

}  // namespace atl::link
