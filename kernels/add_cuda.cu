#include "kernels/add.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

__global__ void add_scaled_kernel(float* y, const float* x, std::size_t n, float a) {
  ATOLL_CUDA_INDEX(i, n);
  y[i] += a * x[i];
}

void add_scaled_cuda(float* y, const float* x, std::size_t n, float a, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  add_scaled_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(y, x, n, a);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

void set_zero_cuda(float* y, std::size_t n, const Place& place) {
  if (n == 0) return;
  const OnDevice on(place);
  ATOLL_CUDA_CHECK(cudaMemsetAsync(y, 0, n * sizeof(float), stream_of(place)));
}

}  // namespace atl::kernels::detail
