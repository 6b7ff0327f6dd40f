#include "base/hash.h"

#include <xxhash.h>

#include "base/error.h"

namespace atl {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

void append_hex(std::string& out, std::uint64_t word) {
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(word >> shift) & 15U];
}

}  // namespace

std::string Hash128::hex() const {
  std::string out;
  append_hex(out, high);
  append_hex(out, low);
  return out;
}

Hash128 Hash128::from_hex(std::string_view digits) {
  const auto refuse = [&] {
    throw ConfigError(
        text("\"", digits, "\" is not a hash: 32 hexadecimal digits expected, ", digits.size(), " characters found"));
  };
  if (digits.size() != 32) refuse();
  Hash128 hash;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i] >= 'A' && digits[i] <= 'F' ? static_cast<char>(digits[i] - 'A' + 'a') : digits[i];
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos) refuse();
    std::uint64_t& word = i < 16 ? hash.high : hash.low;
    word = word << 4U | value;
  }
  return hash;
}

Hash128 hash_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.high = hash.high64, .low = hash.low64};
}

Hash128 hash_text(std::string_view text) { return hash_bytes(std::as_bytes(std::span(text))); }

}  // namespace atl
