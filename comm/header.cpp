#include "comm/header.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"

namespace atl {
namespace {

constexpr std::uint32_t kMagic = 0x484C5441;  // "ATLH"
constexpr std::uint16_t kVersion = 1;
constexpr std::uint8_t kFinite = 1, kFirstOfGroup = 2;
constexpr std::size_t kChecked = Header::kBytes - 8;  // the last 8 bytes are the checksum of those before

std::uint64_t checksum(std::span<const std::byte> bytes) { return hash_bytes(bytes.first(kChecked)).low; }

std::string shown(const Hash128& hash) { return hash.hex(); }
template <class T>
std::string shown(const T& value) {
  return text(value);
}

}  // namespace

std::array<std::byte, Header::kBytes> encode(const Header& header) {
  ByteWriter out;
  out.u32(kMagic).u16(kVersion).u8(static_cast<std::uint8_t>(header.kind));
  out.u8(static_cast<std::uint8_t>((header.finite ? kFinite : 0) | (header.first_of_group ? kFirstOfGroup : 0)));
  out.u32(header.generation)
      .u32(header.slot)
      .u64(header.number)
      .u64(header.step)
      .u64(header.tokens)
      .u64(header.payload_bytes);
  out.u32(header.round).u32(0);
  out.hash(header.layout_hash).hash(header.settings_hash).hash(header.global_hash).u64(0).u64(0);
  ATOLL_CHECK(out.size() == kChecked, out.size(), " bytes");
  out.u64(hash_bytes(out.view()).low);
  std::array<std::byte, Header::kBytes> bytes;
  std::copy(out.view().begin(), out.view().end(), bytes.begin());
  return bytes;
}

Header decode_header(std::span<const std::byte> bytes, const std::string& from) {
  ByteReader in(bytes, ByteSource::link("header from " + from));
  if (bytes.size() != Header::kBytes) in.fail(text("it has ", bytes.size(), " bytes, expected ", Header::kBytes));
  if (const auto magic = in.u32("magic"); magic != kMagic)
    in.fail(text("magic ", magic, ", expected ", kMagic, ": this is no atoll link"));
  if (const auto version = in.u16("version"); version != kVersion)
    in.fail(text("version ", version, ", expected ", kVersion, ": every site must run the same version of atoll"));
  const std::uint64_t found = ByteReader(bytes.subspan(kChecked), ByteSource::link(from)).u64("checksum");
  if (found != checksum(bytes))
    in.fail(text("checksum ", found, ", expected ", checksum(bytes), ": it was damaged on its way"));

  Header header;
  const std::uint8_t kind = in.u8("kind"), flags = in.u8("flags");
  if (kind < 1 || kind > 3) in.fail(text("kind ", int{kind}, ", expected 1 to 3"));
  if ((flags & ~(kFinite | kFirstOfGroup)) != 0) in.fail(text("flags ", int{flags}, ", expected at most 3"));
  header.kind = static_cast<Header::Kind>(kind);
  header.finite = (flags & kFinite) != 0;
  header.first_of_group = (flags & kFirstOfGroup) != 0;
  header.generation = in.u32("generation");
  header.slot = in.u32("slot");
  header.number = in.u64("number");
  header.step = in.u64("step");
  header.tokens = in.u64("tokens");
  header.payload_bytes = in.u64("payload bytes");
  header.round = in.u32("round");
  if (in.u32("reserved") != 0) in.fail("reserved bytes are not 0");
  header.layout_hash = in.hash("layout hash");
  header.settings_hash = in.hash("settings hash");
  header.global_hash = in.hash("global hash");
  if (in.u64("reserved") != 0 || in.u64("reserved") != 0) in.fail("reserved bytes are not 0");
  return header;
}

std::optional<std::string> disagreement(const Header& a, const std::string& a_name, const Header& b,
                                        const std::string& b_name) {
  std::optional<std::string> found;
  const auto compare = [&](const char* field, const auto& x, const auto& y) {
    if (!found && !(x == y)) found = text(field, " is ", shown(x), " at ", a_name, ", but ", shown(y), " at ", b_name);
  };
  compare("kind of message", static_cast<int>(a.kind), static_cast<int>(b.kind));
  compare("generation", a.generation, b.generation);
  compare("settings hash", a.settings_hash, b.settings_hash);
  compare("layout hash", a.layout_hash, b.layout_hash);
  compare("exchange number", a.number, b.number);
  compare("slot", a.slot, b.slot);
  compare("round", a.round, b.round);
  compare("payload size (bytes)", a.payload_bytes, b.payload_bytes);
  compare("first of its group", a.first_of_group, b.first_of_group);
  compare("hash of the shared parameters and outer state", a.global_hash, b.global_hash);
  return found;
}

}  // namespace atl
