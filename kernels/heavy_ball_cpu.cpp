#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/heavy_ball.h"

namespace atl::kernels {

void heavy_ball(std::span<float> theta, std::span<float> v, std::span<const float> d, float lr, float mu, Place place) {
  ATOLL_CHECK(theta.size() == d.size() && v.size() == d.size(), "theta ", theta.size(), ", v ", v.size(), ", d ",
              d.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::heavy_ball_cpu(theta.data(), v.data(), d.data(), d.size(), lr, mu);
    case Place::Kind::cuda:
      return detail::heavy_ball_cuda(theta.data(), v.data(), d.data(), d.size(), lr, mu, place);
  }
}

ATOLL_CLONES void detail::heavy_ball_cpu(float* theta, float* v, const float* d, std::size_t n, float lr, float mu) {
  for (std::size_t i = 0; i < n; ++i) {
    const float vi = mu * v[i] + d[i];
    v[i] = vi;
    theta[i] -= lr * vi;
  }
}

}  // namespace atl::kernels
