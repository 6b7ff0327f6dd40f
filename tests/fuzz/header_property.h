// What must hold for any bytes that claim to be a header.  Driven by libFuzzer (header_fuzz.cpp) and by random numbers
// (tests/comm/header_test.cpp).
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "comm/header.h"

namespace atl {

// The first 120 bytes with a checksum that is right (docs/wire_format.md): without it nothing random gets past the checksum.
inline std::array<std::byte, Header::kBytes> sealed(std::span<const std::byte> fields) {
  constexpr std::size_t kFields = Header::kBytes - 8;
  std::array<std::byte, Header::kBytes> bytes{};
  std::copy_n(fields.begin(), std::min(fields.size(), kFields), bytes.begin());
  const std::uint64_t low = hash_bytes(std::span(bytes).first(kFields)).low;
  std::memcpy(bytes.data() + kFields, &low, sizeof low);
  return bytes;
}

// True when it was taken for a header.  What is taken must be exactly what encode() writes: no byte without a meaning.
// Anything but a LinkError, or other bytes, is a fault of decode_header.
inline bool header_holds(std::span<const std::byte> bytes) {
  Header header;
  try {
    header = decode_header(bytes, "site-1");
  } catch (const LinkError&) {
    return false;
  }
  const auto again = encode(header);
  ATOLL_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()), "a header of other bytes was taken");
  return true;
}

}  // namespace atl
