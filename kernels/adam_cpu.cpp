#include <cmath>

#include "base/error.h"
#include "kernels/adam.h"
#include "kernels/clones.h"

namespace atl::kernels {

void adam(std::span<float> theta, std::span<float> m, std::span<float> v, std::span<const float> d,
          const AdamStep& step, Place place) {
  ATOLL_CHECK(theta.size() == d.size() && m.size() == d.size() && v.size() == d.size(), "theta ", theta.size(), ", m ",
              m.size(), ", v ", v.size(), ", d ", d.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::adam_cpu(theta.data(), m.data(), v.data(), d.data(), d.size(), step);
    case Place::Kind::cuda:
      return detail::adam_cuda(theta.data(), m.data(), v.data(), d.data(), d.size(), step, place);
  }
}

ATOLL_CLONES void detail::adam_cpu(float* theta, float* m, float* v, const float* d, std::size_t n,
                                   const AdamStep& step) {
  const float rest1 = 1 - step.beta1, rest2 = 1 - step.beta2;
  for (std::size_t i = 0; i < n; ++i) {
    const float mi = step.beta1 * m[i] + rest1 * d[i];
    const float vi = step.beta2 * v[i] + rest2 * d[i] * d[i];
    m[i] = mi;
    v[i] = vi;
    theta[i] -= step.lr * mi / (std::sqrt(vi) / step.root + step.eps);
  }
}

}  // namespace atl::kernels
