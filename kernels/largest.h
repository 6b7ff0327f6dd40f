// The largest magnitude of a block, for the CPU twins of the codecs.
#pragma once
#include "kernels/clones.h"
#include "kernels/float_bits.h"

namespace atl::kernels::detail {

// The bits of the largest |in[i]|, which are ordered as the floats are: kInfinity and above when one is not finite.
ATOLL_INLINE std::uint32_t largest(const float* in, std::size_t n) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t a = magnitude(in[i]);
    found = a > found ? a : found;
  }
  return found;
}

}  // namespace atl::kernels::detail
