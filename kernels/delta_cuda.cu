#include "kernels/cuda_check.h"
#include "kernels/delta.h"

namespace atl::kernels::detail {

__global__ void delta_kernel(const float* global, const float* local, float* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  out[i] = global[i] - local[i];
}

void delta_cuda(const float* global, const float* local, float* out, std::size_t n, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  delta_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(global, local, out, n);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
