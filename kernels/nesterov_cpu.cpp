#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/nesterov.h"

namespace atl::kernels {

void nesterov(std::span<float> theta, std::span<float> v, std::span<const float> d, float lr, float mu, Place place) {
  ATOLL_CHECK(theta.size() == d.size() && v.size() == d.size(), "theta ", theta.size(), ", v ", v.size(), ", d ",
              d.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::nesterov_cpu(theta.data(), v.data(), d.data(), d.size(), lr, mu);
    case Place::Kind::cuda:
      return detail::nesterov_cuda(theta.data(), v.data(), d.data(), d.size(), lr, mu, place);
  }
}

ATOLL_CLONES void detail::nesterov_cpu(float* theta, float* v, const float* d, std::size_t n, float lr, float mu) {
  for (std::size_t i = 0; i < n; ++i) {
    const float vi = mu * v[i] + d[i];
    v[i] = vi;
    theta[i] -= lr * (d[i] + mu * vi);
  }
}

}  // namespace atl::kernels
