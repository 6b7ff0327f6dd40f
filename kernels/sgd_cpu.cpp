#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/sgd.h"

namespace atl::kernels {

void sgd(std::span<float> theta, std::span<const float> d, float lr, Place place) {
  ATOLL_CHECK(theta.size() == d.size(), "theta ", theta.size(), ", d ", d.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::sgd_cpu(theta.data(), d.data(), d.size(), lr);
    case Place::Kind::cuda:
      return detail::sgd_cuda(theta.data(), d.data(), d.size(), lr, place);
  }
}

ATOLL_CLONES void detail::sgd_cpu(float* theta, const float* d, std::size_t n, float lr) {
  for (std::size_t i = 0; i < n; ++i) theta[i] -= lr * d[i];
}

}  // namespace atl::kernels
