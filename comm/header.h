// Header: the 128 bytes that every site sends to every other before a payload counts.  Layout: docs/wire_format.md.
//
// Decoding trusts nothing: length, magic, version and checksum are looked at before a field is.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/hash.h"

namespace atl {

struct Header {
  static constexpr std::size_t kBytes = 128;
  enum class Kind : std::uint8_t { data = 1, sync = 2, finish = 3 };

  Kind kind = Kind::data;
  bool finite = true;
  bool first_of_group = true;
  std::uint32_t generation = 0;
  std::uint64_t number = 0;  // data: the exchange's; sync: the last completed
  std::uint32_t slot = 0;
  std::uint32_t round = 0;
  std::uint64_t step = 0;
  std::uint64_t tokens = 0;
  std::uint64_t payload_bytes = 0;
  Hash128 layout_hash, settings_hash, global_hash;

  bool operator==(const Header&) const = default;
};

std::array<std::byte, Header::kBytes> encode(const Header& header);
// Throws LinkError that says which check failed, with what was found and expected.  `from` names the sender in the
// text.
Header decode_header(std::span<const std::byte> bytes, const std::string& from);

// The first field in which the two differ and must not, in words with both values and both names; nothing if they
// agree. step, tokens and finite may differ.
std::optional<std::string> disagreement(const Header& a, const std::string& a_name, const Header& b,
                                        const std::string& b_name);

}  // namespace atl
