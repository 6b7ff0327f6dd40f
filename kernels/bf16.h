// bf16: the upper half of an fp32, rounded to nearest even.  A bf16 is kept as its 16 bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/both.h"
#include "kernels/place.h"

namespace atl::kernels {

// Bit-equal twins: integer operations on the bits.  Ties go to the even neighbour; what is beyond the largest bf16 by
// half a step or more becomes infinite, infinities stay; a NaN stays a NaN with its sign and upper payload, made quiet.
// in, out: [n], at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void to_bf16(std::span<const float> in, std::span<std::uint16_t> out, Place place);
void from_bf16(std::span<const std::uint16_t> in, std::span<float> out, Place place);

namespace detail {  // called by the above and the twin test, by nothing else

// One value, for both twins.
ATOLL_BOTH constexpr std::uint16_t bf16_bits(std::uint32_t fp32) {
  const bool nan = (fp32 & 0x7FFFFFFFU) > 0x7F800000U;
  const std::uint32_t rounded = (fp32 + 0x7FFFU + (fp32 >> 16U & 1U)) >> 16U;
  const std::uint32_t quiet = fp32 >> 16U | 0x40U;
  return static_cast<std::uint16_t>(nan ? quiet : rounded);
}
ATOLL_BOTH constexpr std::uint32_t fp32_bits(std::uint16_t bf16) { return std::uint32_t{bf16} << 16U; }

void to_bf16_cpu(const float* in, std::uint16_t* out, std::size_t n);
void to_bf16_cuda(const float* in, std::uint16_t* out, std::size_t n, const Place& place);
void from_bf16_cpu(const std::uint16_t* in, float* out, std::size_t n);
void from_bf16_cuda(const std::uint16_t* in, float* out, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
