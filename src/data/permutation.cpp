#include "data/permutation.h"

#include "base/error.h"

namespace atl {

namespace {

constexpr std::uint64_t kStream = 0x7065726D75746174;  // "permutat": shares no numbers with other uses of a seed
constexpr std::uint32_t kRounds = 8;

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
    : n_(n), secret_(random_words(seed, kStream, epoch)) {
  ATOLL_CHECK(n > 0, "a permutation of nothing");
  while (half_bits_ < 32 && (std::uint64_t{1} << 2 * half_bits_) < n) ++half_bits_;
  half_mask_ = (std::uint64_t{1} << half_bits_) - 1;
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  ATOLL_CHECK(i < n_, "position ", i, " of ", n_);
  do i = shuffled(i);
  while (i >= n_);  // ends: the network is a bijection, and i itself is inside
  return i;
}

std::uint64_t Permutation::shuffled(std::uint64_t x) const {
  std::uint64_t left = x >> half_bits_, right = x & half_mask_;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const auto words =
        philox({static_cast<std::uint32_t>(right), round, secret_[2], secret_[3]}, {secret_[0], secret_[1]});
    const std::uint64_t mixed = left ^ (words[0] & half_mask_);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace atl
