#include <vector>

#include "kernels/cuda_check.h"
#include "kernels/norm.h"
#include "kernels/scratch.h"

namespace atl::kernels::detail {

// One warp a block of kNormBlock values, one thread a lane, in the order that norm.h fixes.
__global__ void norm_kernel(const float* x, std::size_t n, double* sums) {
  const std::size_t begin = blockIdx.x * kNormBlock;
  const std::size_t end = begin + kNormBlock < n ? begin + kNormBlock : n;
  double lane = 0;
  for (std::size_t i = begin + threadIdx.x; i < end; i += kNormLanes) lane += double{x[i]} * double{x[i]};
  for (unsigned half = kNormLanes / 2; half > 0; half /= 2) lane += __shfl_down_sync(0xFFFFFFFFU, lane, half);
  if (threadIdx.x == 0) sums[blockIdx.x] = lane;
}

double sum_of_squares_cuda(const float* x, std::size_t n, const Place& place) {
  if (n == 0) return 0;  // a launch of zero blocks is an error
  const OnDevice on(place);
  const std::size_t blocks = (n + kNormBlock - 1) / kNormBlock;
  Scratch<double> scratch(blocks, place);
  norm_kernel<<<static_cast<unsigned>(blocks), kNormLanes, 0, stream_of(place)>>>(x, n, scratch.data());
  ATOLL_CUDA_CHECK(cudaGetLastError());
  double sum = 0;
  for (const double block : scratch.to_host()) sum += block;
  return sum;
}

}  // namespace atl::kernels::detail
