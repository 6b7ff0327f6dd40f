#include "kernels/cuda_check.h"
#include "kernels/finite.h"
#include "kernels/scratch.h"

namespace atl::kernels::detail {

__global__ void finite_kernel(const float* x, std::size_t n, int* bad) {
  ATOLL_CUDA_INDEX(i, n);
  if ((__float_as_uint(x[i]) & 0x7F800000U) == 0x7F800000U) *bad = 1;  // all that write, write the same
}

bool all_finite_cuda(const float* x, std::size_t n, const Place& place) {
  if (n == 0) return true;  // a launch of zero blocks is an error
  const OnDevice on(place);
  Scratch<int> bad(1, place);
  finite_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(x, n, bad.data());
  ATOLL_CUDA_CHECK(cudaGetLastError());
  return bad.to_host()[0] == 0;
}

}  // namespace atl::kernels::detail
