#include "kernels/cuda_check.h"
#include "kernels/sgd.h"

namespace atl::kernels::detail {

__global__ void sgd_kernel(float* theta, const float* d, std::size_t n, float lr) {
  ATOLL_CUDA_INDEX(i, n);
  theta[i] -= lr * d[i];
}

void sgd_cuda(float* theta, const float* d, std::size_t n, float lr, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  sgd_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(theta, d, n, lr);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
