// The bits of floats, powers of two and rounding, in one text for both twins.  A byte is an unsigned char here: gcc
// vectorises loops over those.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/both.h"

namespace atl::kernels::detail {

constexpr std::uint32_t kInfinity = 0x7F800000U;
constexpr std::uint32_t kNan = 0x7FC00000U;  // what every value of a block with a non-finite value decodes to
constexpr std::uint16_t kBf16Nan = 0x7FC0U;

ATOLL_BOTH inline float as_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
ATOLL_BOTH inline std::uint32_t as_bits(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

ATOLL_BOTH inline std::uint32_t magnitude(float x) { return as_bits(x) & 0x7FFFFFFFU; }

// 2^exponent, exponent in [-126, 127].
ATOLL_BOTH inline float power_of_two(int exponent) {
  return as_float(static_cast<std::uint32_t>(exponent + 127) << 23U);
}

// x 2^exponent by two multiplications, for exponents that no single float holds.
struct TwoFactors {
  float first, second;
};
ATOLL_BOTH inline TwoFactors two_factors(int exponent) {
  const int first = exponent < -126 ? -126 : exponent > 127 ? 127 : exponent;
  return {power_of_two(first), power_of_two(exponent - first)};
}

// The nearest integer, ties to even, for |x| <= 2^22: in the low bits of x + 1.5 2^23.
constexpr float kRound = 12582912.0F;
ATOLL_BOTH inline float nearest_integer(float x) { return (x + kRound) - kRound; }
ATOLL_BOTH inline std::int32_t nearest_int(float x) {
  return static_cast<std::int32_t>(as_bits(x + kRound) - as_bits(kRound));
}

// Values of a block that lie n / per_byte apart share a byte: byte j has value j in its low bits, then j + h, j + 2 h ...
// with h = packed_bytes().  So loops over bytes are loops over neighbours.
ATOLL_BOTH constexpr std::size_t packed_bytes(std::size_t n, unsigned bits) {
  const std::size_t per_byte = 8 / bits;
  return (n + per_byte - 1) / per_byte;
}

}  // namespace atl::kernels::detail
