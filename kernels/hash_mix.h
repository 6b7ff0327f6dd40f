// The mixing of one value for kernels/hash.h, said once for both twins.
//
// word = position * odd + bits * odd, then xor-shifts and odd multiplications (the finalizer of SplitMix64, Steele et
// al., OOPSLA 2014; for the second word Stafford's variant 4).  For a fixed position every step is one to one on 64
// bits, so two different values never give the same word.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define ATOLL_BOTH __host__ __device__
#else
#define ATOLL_BOTH
#endif

namespace atl::kernels::detail {

struct HashWords {
  std::uint64_t high, low;
};

ATOLL_BOTH inline HashWords hash_words(std::uint64_t position, std::uint32_t bits) {
  std::uint64_t a = (position + 1) * 0x9E3779B97F4A7C15U + bits * std::uint64_t{0xD1342543DE82EF95U};
  a = (a ^ a >> 30U) * 0xBF58476D1CE4E5B9U;
  a = (a ^ a >> 27U) * 0x94D049BB133111EBU;
  std::uint64_t b = (position + 1) * 0xC2B2AE3D27D4EB4FU + bits * std::uint64_t{0xA0761D6478BD642FU};
  b = (b ^ b >> 33U) * 0x62A9D9ED799705F5U;
  b = (b ^ b >> 28U) * 0xCB24D0A5C88C35B3U;
  return {b ^ b >> 32U, a ^ a >> 31U};
}

}  // namespace atl::kernels::detail
