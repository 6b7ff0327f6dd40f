#include "comm/in_process.h"

#include <map>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "comm/average.h"
#include "comm/header.h"

namespace atl {
namespace {

// One exchange, from the first site's send until the last site has its answer.
struct Pending {
  int slot = 0;
  std::vector<std::optional<Header>> headers;  // a rank
  int sent = 0, taken = 0;
  bool done = false;
  std::string settings_error, link_error, bug;  // at most one is set: what every wait throws
  bool in_cluster = false;
  std::vector<std::uint64_t> tokens;  // a rank: the weights of the mean
};

struct SiteState {
  std::vector<std::vector<std::byte>> payloads;         // a slot
  std::vector<std::optional<std::uint64_t>> in_flight;  // a slot: the exchange's number
  std::uint64_t sends = 0;
  ExchangeTotals totals;
};

}  // namespace

struct InProcessHub::State {
  Config config;
  std::unique_ptr<Codec> codec, mean_codec;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<SiteState> sites;
  std::vector<std::vector<std::vector<float>>>
      means;  // a cluster, a slot; computed when the last site has sent.  [0]: all sites'
  std::map<std::uint64_t, Pending> pending;  // by number
  std::vector<std::uint64_t> weights;        // a rank; of the last exchange with a header
  std::vector<std::unique_ptr<InProcess>> endpoints;

  void complete(std::uint64_t number, Pending& exchange);
  void compare(std::uint64_t number, Pending& exchange);
  std::string absent(const Pending& exchange) const;
  std::string name(std::size_t rank) const {
    return config.names.empty() ? text("site ", rank) : config.names.at(rank);
  }
  std::size_t checked(int slot) const {
    ATOLL_CHECK(slot >= 0 && static_cast<std::size_t>(slot) < config.slots.size(), "slot ", slot, " of ",
                config.slots.size());
    return static_cast<std::size_t>(slot);
  }
  // The ranks that average together with `rank`.
  struct Members {
    int first = 0, count = 0;
    std::size_t means = 0;  // index of their means
  };
  Members members(int rank, bool in_cluster) const {
    const int count = config.sites / config.clusters, cluster = rank / count;
    if (!in_cluster) return {.first = 0, .count = config.sites, .means = 0};
    return {.first = cluster * count, .count = count, .means = static_cast<std::size_t>(cluster)};
  }
  std::uint64_t sent_bytes(int rank, int slot, bool in_cluster) const;
  // As a link does it (docs/link.md, "One exchange"): the first of a group, and all that travel inside their header.
  bool with_header(int slot, bool first_of_group) const {
    return first_of_group || travels_inline(codec->encoded_bytes(config.slots[checked(slot)].values));
  }
  std::uint64_t header_bytes(int slot, bool first_of_group) const {
    return with_header(slot, first_of_group) ? Header::kBytes * static_cast<std::uint64_t>(config.sites - 1) : 0;
  }
};

// Called by the site that sends last, with the lock held.  What goes wrong here goes wrong at every site.
void InProcessHub::State::complete(std::uint64_t number, Pending& exchange) {
  const auto slot = static_cast<std::size_t>(exchange.slot);
  try {
    compare(number, exchange);
    if (exchange.settings_error.empty() && exchange.link_error.empty()) {
      std::vector<std::span<const std::byte>> payloads;
      for (const SiteState& site : sites) payloads.emplace_back(site.payloads[slot]);
      for (int rank = 0; rank < config.sites;) {
        const Members of = members(rank, exchange.in_cluster);
        const auto first = static_cast<std::size_t>(of.first), count = static_cast<std::size_t>(of.count);
        exchange_mean(std::span(payloads).subspan(first, count), std::span(weights).subspan(first, count), *codec,
                      *mean_codec, means[of.means][slot]);
        rank += of.count;
      }
    }
  } catch (const std::exception& e) {
    exchange.bug = text("exchange ", number, ": ", e.what());
  }
  exchange.done = true;
  changed.notify_all();
}

// Finds what a wait must throw, and whose payload weighs what.
void InProcessHub::State::compare(std::uint64_t number, Pending& exchange) {
  const Header& first = *exchange.headers[0];
  for (std::size_t r = 1; r < exchange.headers.size(); ++r)
    if (const auto difference = disagreement(first, name(0), *exchange.headers[r], name(r))) {
      exchange.link_error = text("exchange ", number, ": ", *difference);
      return;
    }
  if (with_header(exchange.slot, first.first_of_group))
    for (std::size_t r = 0; r < exchange.headers.size(); ++r) {
      const Header& header = *exchange.headers[r];
      if (!header.finite && header.first_of_group && exchange.settings_error.empty())  // one vote a group
        exchange.settings_error =
            text("exchange ", number, ": the payload of ", name(r), " (round ", header.round, ", step ", header.step,
                 ") holds a NaN or an infinity: nobody applies it; try a lower inner.lr");
      weights[r] = header.tokens;
    }
  exchange.tokens = weights;
}

std::string InProcessHub::State::absent(const Pending& exchange) const {
  std::string ranks;
  for (std::size_t r = 0; r < exchange.headers.size(); ++r)
    if (!exchange.headers[r]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
  return ranks;
}

std::uint64_t InProcessHub::State::sent_bytes(int rank, int slot, bool in_cluster) const {
  const std::size_t values = config.slots[static_cast<std::size_t>(slot)].values;
  const bool with_header = travels_inline(codec->encoded_bytes(values));  // then all get it
  const Members of = members(rank, in_cluster && !with_header);
  return sent_payload_bytes(values, rank - of.first, of.count, *codec, *mean_codec);
}

InProcessHub::InProcessHub(Config config) : state_(std::make_unique<State>()) {
  ATOLL_CHECK(config.sites > 0, config.sites, " sites");
  ATOLL_CHECK(config.names.empty() || config.names.size() == static_cast<std::size_t>(config.sites),
              config.names.size(), " names, ", config.sites, " sites");
  State& s = *state_;
  s.config = std::move(config);
  s.codec = make_codec(s.config.codec);
  s.mean_codec = make_codec(s.config.mean_codec);
  s.sites.resize(static_cast<std::size_t>(s.config.sites));
  s.weights.assign(s.sites.size(), 1);
  for (SiteState& site : s.sites) {
    for (const SlotSpec& slot : s.config.slots) site.payloads.emplace_back(s.codec->encoded_bytes(slot.values));
    site.in_flight.resize(s.config.slots.size());
    site.totals.generations = 1;
  }
  ATOLL_CHECK(s.config.clusters > 0 && s.config.sites % s.config.clusters == 0, s.config.sites, " sites in ",
              s.config.clusters, " clusters");
  s.means.resize(static_cast<std::size_t>(s.config.clusters));
  for (auto& of_cluster : s.means)
    for (const SlotSpec& slot : s.config.slots) of_cluster.emplace_back(slot.values);
  for (int r = 0; r < s.config.sites; ++r) s.endpoints.push_back(std::make_unique<InProcess>(*this, r));
}

InProcessHub::~InProcessHub() = default;

InProcess& InProcessHub::site(int rank) {
  ATOLL_CHECK(rank >= 0 && rank < state_->config.sites, "site ", rank, " of ", state_->config.sites);
  return *state_->endpoints[static_cast<std::size_t>(rank)];
}

InProcess::InProcess(InProcessHub& hub, int rank) : hub_(hub), rank_(rank) {}
InProcess::~InProcess() = default;
int InProcess::rank() const { return rank_; }
int InProcess::sites() const { return hub_.state_->config.sites; }

std::span<std::byte> InProcess::payload(int slot) {
  return hub_.state_->sites[static_cast<std::size_t>(rank_)].payloads[hub_.state_->checked(slot)];
}

void InProcess::send(const Outgoing& out) {
  InProcessHub::State& s = *hub_.state_;
  const std::lock_guard lock(s.mutex);
  SiteState& me = s.sites[static_cast<std::size_t>(rank_)];
  const std::size_t slot = s.checked(out.slot);
  auto& in_flight = me.in_flight[slot];
  ATOLL_CHECK(!in_flight, "slot ", out.slot, " is in flight already, as exchange ", *in_flight);
  ATOLL_CHECK(out.tokens > 0, "slot ", out.slot, " is sent with 0 tokens: the weight in the mean must be above 0");
  const std::uint64_t number = ++me.sends;
  in_flight = number;
  Pending& exchange = s.pending[number];
  if (exchange.headers.empty()) {
    exchange.headers.resize(s.sites.size());
    exchange.tokens.resize(s.sites.size());
    exchange.slot = out.slot;
    exchange.in_cluster = out.in_cluster;
  }
  ATOLL_CHECK(exchange.in_cluster == out.in_cluster, "exchange ", number, " is within clusters at some sites only");
  const std::uint64_t bytes = s.sent_bytes(rank_, out.slot, out.in_cluster);
  exchange.headers[static_cast<std::size_t>(rank_)] = Header{.kind = Header::Kind::data,
                                                             .finite = out.finite,
                                                             .first_of_group = out.first_of_group,
                                                             .generation = 1,
                                                             .number = number,
                                                             .slot = static_cast<std::uint32_t>(out.slot),
                                                             .round = out.round,
                                                             .step = out.step,
                                                             .tokens = out.tokens,
                                                             .payload_bytes = me.payloads[slot].size(),
                                                             .layout_hash = {},
                                                             .settings_hash = {},
                                                             .global_hash = out.global_hash};
  ++me.totals.exchanges;
  me.totals.payload_bytes += bytes;
  me.totals.header_bytes += s.header_bytes(out.slot, out.first_of_group);
  if (++exchange.sent == s.config.sites) s.complete(number, exchange);
}

Answer InProcess::wait(int slot) {
  InProcessHub::State& s = *hub_.state_;
  const double start = steady_seconds();
  std::unique_lock lock(s.mutex);
  SiteState& me = s.sites[static_cast<std::size_t>(rank_)];
  auto& in_flight = me.in_flight[s.checked(slot)];
  ATOLL_CHECK(in_flight, "slot ", slot, " was not sent");
  const std::uint64_t number = *in_flight;
  Pending& exchange = s.pending.at(number);
  if (!s.changed.wait_for(lock, s.config.timeout, [&] { return exchange.done; }))
    throw LinkError(text("exchange ", number, " (slot ", slot, "): no payload from site ", s.absent(exchange), " of ",
                         s.config.sites, " for ", std::chrono::duration<double>(s.config.timeout).count(), " s"));
  const std::string settings_error = exchange.settings_error, link_error = exchange.link_error, bug = exchange.bug;
  const bool first_of_group = exchange.headers[static_cast<std::size_t>(rank_)]->first_of_group;
  const auto members = s.members(rank_, exchange.in_cluster);
  const auto weights = std::span(exchange.tokens).subspan(static_cast<std::size_t>(members.first));
  const auto tokens = std::accumulate(weights.begin(), weights.begin() + members.count, std::uint64_t{0});
  Answer answer{.mean = s.means[members.means][static_cast<std::size_t>(slot)],
                .number = number,
                .generation = 1,
                .tokens = tokens,
                .sites = members.count,
                .link_s = steady_seconds() - start,
                .payload_bytes = s.sent_bytes(rank_, slot, exchange.in_cluster),
                .header_bytes = s.header_bytes(slot, first_of_group),
                .wire_bytes = 0};
  in_flight.reset();
  if (++exchange.taken == s.config.sites) s.pending.erase(number);
  if (!settings_error.empty()) throw ConfigError(settings_error);
  if (!link_error.empty()) throw LinkError(link_error);
  if (!bug.empty()) throw Bug(bug);
  return answer;
}

// In lockstep (one thread) the others come later: nothing to wait for, since every answer was complete when it was
// taken.
void InProcess::finish() {
  InProcessHub::State& s = *hub_.state_;
  const std::lock_guard lock(s.mutex);
  for (std::size_t slot = 0; slot < s.config.slots.size(); ++slot)
    ATOLL_CHECK(!s.sites[static_cast<std::size_t>(rank_)].in_flight[slot], "finish with slot ", slot, " in flight");
}

ExchangeTotals InProcess::totals() {
  InProcessHub::State& s = *hub_.state_;
  const std::lock_guard lock(s.mutex);
  return s.sites[static_cast<std::size_t>(rank_)].totals;
}

}  // namespace atl
