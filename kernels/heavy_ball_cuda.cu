#include "kernels/cuda_check.h"
#include "kernels/heavy_ball.h"

namespace atl::kernels::detail {

__global__ void heavy_ball_kernel(float* theta, float* v, const float* d, std::size_t n, float lr, float mu) {
  ATOLL_CUDA_INDEX(i, n);
  const float vi = mu * v[i] + d[i];
  v[i] = vi;
  theta[i] -= lr * vi;
}

void heavy_ball_cuda(float* theta, float* v, const float* d, std::size_t n, float lr, float mu, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  heavy_ball_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(theta, v, d, n, lr, mu);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
