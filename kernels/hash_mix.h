// The mixing of one value for kernels/hash.h, said once for both twins.
//
// position and bits, times odd constants, then xor-shifts and odd multiplications: the low word by the finalizer of
// SplitMix64 (Steele et al., OOPSLA 2014), the high word leaves it after the first round for one of other constants.
// For a fixed position every step is one to one, so two different values never give the same words.
#pragma once
#include <cstdint>

#include "kernels/both.h"

namespace atl::kernels::detail {

struct HashWords {
  std::uint64_t high, low;
};

ATOLL_BOTH inline HashWords hash_words(std::uint64_t position, std::uint32_t bits) {
  std::uint64_t x = (position + 1) * 0x9E3779B97F4A7C15U + bits * std::uint64_t{0xD1342543DE82EF95U};
  x = (x ^ x >> 30U) * 0xBF58476D1CE4E5B9U;
  const std::uint64_t low = (x ^ x >> 27U) * 0x94D049BB133111EBU;
  const std::uint64_t high = (x ^ x >> 32U) * 0xC2B2AE3D27D4EB4FU;
  return {high ^ high >> 29U, low ^ low >> 31U};
}

}  // namespace atl::kernels::detail
