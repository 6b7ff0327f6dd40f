#include "kernels/adam.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

__global__ void adam_kernel(float* theta, float* m, float* v, const float* d, std::size_t n, AdamStep step) {
  ATOLL_CUDA_INDEX(i, n);
  const float rest1 = 1 - step.beta1, rest2 = 1 - step.beta2;
  const float mi = step.beta1 * m[i] + rest1 * d[i];
  const float vi = step.beta2 * v[i] + rest2 * d[i] * d[i];
  m[i] = mi;
  v[i] = vi;
  theta[i] -= step.lr * mi / (sqrtf(vi) / step.root + step.eps);
}

void adam_cuda(float* theta, float* m, float* v, const float* d, std::size_t n, const AdamStep& step,
               const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  adam_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(theta, m, v, d, n, step);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
