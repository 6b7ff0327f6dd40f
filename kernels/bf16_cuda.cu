#include "kernels/bf16.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

__global__ void to_bf16_kernel(const float* in, std::uint16_t* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  out[i] = bf16_bits(__float_as_uint(in[i]));
}

__global__ void from_bf16_kernel(const std::uint16_t* in, float* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  out[i] = __uint_as_float(fp32_bits(in[i]));
}

void to_bf16_cuda(const float* in, std::uint16_t* out, std::size_t n, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  to_bf16_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(in, out, n);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

void from_bf16_cuda(const std::uint16_t* in, float* out, std::size_t n, const Place& place) {
  if (n == 0) return;
  const OnDevice on(place);
  from_bf16_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(in, out, n);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
