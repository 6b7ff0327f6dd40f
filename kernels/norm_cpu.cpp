#include <algorithm>

#include "kernels/clones.h"
#include "kernels/norm.h"

namespace atl::kernels {

double sum_of_squares(std::span<const float> x, Place place) {
  switch (place.kind) {
    case Place::Kind::host:
      return detail::sum_of_squares_cpu(x.data(), x.size());
    case Place::Kind::cuda:
      return detail::sum_of_squares_cuda(x.data(), x.size(), place);
  }
  return 0;
}

namespace detail {

namespace {

ATOLL_CLONES double block_sum(const float* x, std::size_t n) {
  double lane[kNormLanes] = {};
  std::size_t i = 0;
  for (; i + kNormLanes <= n; i += kNormLanes) {
    for (std::size_t j = 0; j < kNormLanes; ++j) {
      const double value = x[i + j];
      lane[j] += value * value;
    }
  }
  for (std::size_t j = 0; i + j < n; ++j) lane[j] += double{x[i + j]} * double{x[i + j]};
  for (std::size_t half = kNormLanes / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

}  // namespace

double sum_of_squares_cpu(const float* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; i += kNormBlock) sum += block_sum(x + i, std::min(kNormBlock, n - i));
  return sum;
}

}  // namespace detail

}  // namespace atl::kernels
