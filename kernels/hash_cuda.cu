#include "kernels/cuda_check.h"
#include "kernels/hash.h"
#include "kernels/hash_mix.h"
#include "kernels/scratch.h"

namespace atl::kernels::detail {

// A grid of fixed size strides over the values; each warp adds its words and then makes one atomic addition a word.
__global__ void hash_kernel(const float* values, std::size_t n, std::uint64_t offset, unsigned long long* sum) {
  unsigned long long high = 0, low = 0;
  const std::size_t stride = gridDim.x * std::size_t{blockDim.x};
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    const HashWords words = hash_words(offset + i, __float_as_uint(values[i]));
    high += words.high;
    low += words.low;
  }
  for (unsigned half = 16; half > 0; half /= 2) {
    high += __shfl_down_sync(0xFFFFFFFFU, high, half);
    low += __shfl_down_sync(0xFFFFFFFFU, low, half);
  }
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(&sum[0], high);
  atomicAdd(&sum[1], low);
}

Hash128 hash_values_cuda(const float* values, std::size_t n, std::uint64_t offset, const Place& place) {
  if (n == 0) return {};  // a launch of zero blocks is an error
  constexpr unsigned kMaxBlocks = 1024;
  const OnDevice on(place);
  Scratch<unsigned long long> sum(2, place);
  const std::size_t wanted = (n + kThreads - 1) / kThreads;
  const unsigned blocks = wanted < kMaxBlocks ? static_cast<unsigned>(wanted) : kMaxBlocks;
  hash_kernel<<<blocks, kThreads, 0, stream_of(place)>>>(values, n, offset, sum.data());
  ATOLL_CUDA_CHECK(cudaGetLastError());
  const auto words = sum.to_host();
  return {.high = words[0], .low = words[1]};
}

}  // namespace atl::kernels::detail
