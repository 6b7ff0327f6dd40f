// The sum of squares of a span, in double.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// sum of x_i^2.  The order is fixed, so that every processor gives the same bits, and the CUDA twin too: blocks of 4096
// values; in a block, lane j of 32 sums the squares of the values j, j + 32, j + 64 ... in that order; then lane j
// takes in lane j + 16, j + 8, j + 4, j + 2, j + 1; then the blocks' sums are added in rising order. Squares of floats
// are exact in double, so the relative error is at most (4096/32 + 5 + blocks) * 2^-53.  NaN if any is. x: [n] at
// `place`; n = 0 gives 0.  cuda: queued on place.stream and waited for.  Throws Bug for cuda in a build without it.
double sum_of_squares(std::span<const float> x, Place place);

namespace detail {  // called by the above and the tests, by nothing else
constexpr std::size_t kNormBlock = 4096, kNormLanes = 32;
double sum_of_squares_cpu(const float* x, std::size_t n);
double sum_of_squares_cuda(const float* x, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
