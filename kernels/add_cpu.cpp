#include <algorithm>

#include "base/error.h"
#include "kernels/add.h"
#include "kernels/clones.h"

namespace atl::kernels {

void add_scaled(std::span<float> y, std::span<const float> x, float a, Place place) {
  ATOLL_CHECK(y.size() == x.size(), "y ", y.size(), ", x ", x.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::add_scaled_cpu(y.data(), x.data(), x.size(), a);
    case Place::Kind::cuda:
      return detail::add_scaled_cuda(y.data(), x.data(), x.size(), a, place);
  }
}

void set_zero(std::span<float> y, Place place) {
  if (!place.on_host()) return detail::set_zero_cuda(y.data(), y.size(), place);
  std::ranges::fill(y, 0.0F);
}

ATOLL_CLONES void detail::add_scaled_cpu(float* y, const float* x, std::size_t n, float a) {
  for (std::size_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace atl::kernels
