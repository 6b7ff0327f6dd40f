#include <cstring>

#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/mix.h"

namespace atl::kernels {

void mix(std::span<float> local, std::span<const float> global, float alpha, Place place) {
  ATOLL_CHECK(local.size() == global.size(), "local ", local.size(), ", global ", global.size());
  ATOLL_CHECK(alpha >= 0 && alpha <= 1, "alpha is ", alpha);
  if (alpha == 1 || local.empty()) return;
  switch (place.kind) {
    case Place::Kind::host:
      return detail::mix_cpu(local.data(), global.data(), local.size(), alpha);
    case Place::Kind::cuda:
      return detail::mix_cuda(local.data(), global.data(), local.size(), alpha, place);
  }
}

ATOLL_CLONES void detail::mix_cpu(float* local, const float* global, std::size_t n, float alpha) {
  if (alpha == 0) {  // 0 * inf would be NaN
    std::memcpy(local, global, n * sizeof(float));
    return;
  }
  const float beta = 1 - alpha;
  for (std::size_t i = 0; i < n; ++i) local[i] = alpha * local[i] + beta * global[i];
}

}  // namespace atl::kernels
