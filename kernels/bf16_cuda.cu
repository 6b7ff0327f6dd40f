#include "kernels/bf16.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

__global__ void to_bf16_kernel(const float* in, std::uint16_t* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  const std::uint32_t bits = __float_as_uint(in[i]);
  const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  out[i] = static_cast<std::uint16_t>(nan ? bits >> 16U | 0x40U : (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

__global__ void from_bf16_kernel(const std::uint16_t* in, float* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  out[i] = __uint_as_float(std::uint32_t{in[i]} << 16U);
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
