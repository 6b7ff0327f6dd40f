#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/delta.h"

namespace atl::kernels {

void delta(std::span<const float> global, std::span<const float> local, std::span<float> out, Place place) {
  ATOLL_CHECK(global.size() == local.size() && out.size() == local.size(), "global ", global.size(), ", local ",
              local.size(), ", out ", out.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::delta_cpu(global.data(), local.data(), out.data(), out.size());
    case Place::Kind::cuda:
      return detail::delta_cuda(global.data(), local.data(), out.data(), out.size(), place);
  }
}

ATOLL_CLONES void detail::delta_cpu(const float* global, const float* local, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = global[i] - local[i];
}

}  // namespace atl::kernels
