// Permutation: a bijection of [0, n) without a table, so that the order of samples is a pure function of (seed, epoch).
//
// A Feistel network of 8 rounds over the least even power of two that is at least n, walked until the value is inside
// [0, n) again (cycle walking: at most 4 tries on average).  Round function: Philox4x32-10 (base/random.h), with a key
// from (seed, epoch).  Integer operations only: the same on every machine.
//
// Sources: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (cycle walking, generalised
// Feistel); Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once
#include <cstdint>

#include "base/random.h"

namespace atl {

class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);  // n > 0
  std::uint64_t operator()(std::uint64_t i) const;                        // [0, n) onto [0, n); throws Bug for i >= n

 private:
  std::uint64_t shuffled(std::uint64_t x) const;  // one pass through the network

  std::uint64_t n_;
  unsigned half_bits_ = 1;  // 2^(2 half_bits_) >= n
  std::uint64_t half_mask_;
  PhiloxCounter secret_;  // from seed and epoch: key and upper half of the counter of the round function
};

}  // namespace atl
