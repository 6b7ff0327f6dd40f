// 128-bit hashes of bytes (XXH3, libxxhash): layouts, configs, files.  Parameters have their own, kernels/hash.h.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace atl {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;                           // 32 lower-case digits, high first
  static Hash128 from_hex(std::string_view digits);  // throws ConfigError unless 32 hexadecimal digits
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_text(std::string_view text);

}  // namespace atl
