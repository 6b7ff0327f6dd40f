#include "kernels/cuda_check.h"
#include "kernels/mix.h"

namespace atl::kernels::detail {

__global__ void mix_kernel(float* local, const float* global, std::size_t n, float alpha, float beta) {
  ATOLL_CUDA_INDEX(i, n);
  local[i] = alpha * local[i] + beta * global[i];
}

void mix_cuda(float* local, const float* global, std::size_t n, float alpha, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  if (alpha == 0) {  // 0 * inf would be NaN
    ATOLL_CUDA_CHECK(cudaMemcpyAsync(local, global, n * sizeof(float), cudaMemcpyDeviceToDevice, stream_of(place)));
    return;
  }
  mix_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(local, global, n, alpha, 1 - alpha);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
