// The 128-bit hash of parameters: does Θ at this site equal Θ at that one, bit for bit?
//
// Each value's 32 bits are mixed with its position into two 64-bit words, and the words are added up.  So the order of
// work does not matter: any chunking, any processor and the CUDA twin give the same bits, and hashes of parts add up to
// the hash of the whole.  Against accidents, not against an adversary.  A single changed value always changes the hash.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.h"
#include "kernels/place.h"

namespace atl::kernels {

// The hash of values that stand at offset, offset + 1 ... of the whole.  0.0 and -0.0 differ, so do NaNs of different
// bits. values: [n] at `place`; n = 0 gives zero. cuda: queued on place.stream and waited for.  Throws Bug for cuda in
// a build without it.
Hash128 hash_values(std::span<const float> values, std::uint64_t offset, Place place);

// The hash of two parts together, each hashed with its own offset: both words are added, mod 2^64.
constexpr Hash128 combine(const Hash128& a, const Hash128& b) {
  return {.high = a.high + b.high, .low = a.low + b.low};
}

namespace detail {  // called by the above and the tests, by nothing else
Hash128 hash_values_cpu(const float* values, std::size_t n, std::uint64_t offset);
Hash128 hash_values_cuda(const float* values, std::size_t n, std::uint64_t offset, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
