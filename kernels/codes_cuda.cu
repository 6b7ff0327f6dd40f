// One thread a block of values: the CPU's text, so the CPU's bits.  Not tuned: a fragment is encoded once a round.
#include "kernels/code_block.h"
#include "kernels/cuda_check.h"
#include "kernels/scratch.h"

namespace atl::kernels::detail {

__global__ void encode_kernel(Coding coding, const float* in, std::size_t n, std::uint8_t* out) {
  ATOLL_CUDA_INDEX(block, (n + coding.block - 1) / coding.block);
  const std::size_t from = block * coding.block, left = n - from;
  encode_block(coding, in + from, left < coding.block ? left : coding.block,
               out + block * bytes_of_block(coding, coding.block));
}

__global__ void decode_kernel(Coding coding, const std::uint8_t* bytes, float* out, std::size_t n, unsigned* damaged) {
  ATOLL_CUDA_INDEX(block, (n + coding.block - 1) / coding.block);
  const std::size_t from = block * coding.block, left = n - from;
  if (!decode_block(coding, bytes + block * bytes_of_block(coding, coding.block), out + from,
                    left < coding.block ? left : coding.block))
    atomicAdd(damaged, 1U);
}

void encode_cuda(const Coding& coding, const float* in, std::size_t n, std::uint8_t* out, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  encode_kernel<<<blocks_for((n + coding.block - 1) / coding.block), kThreads, 0, stream_of(place)>>>(coding, in, n,
                                                                                                      out);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

bool decode_cuda(const Coding& coding, const std::uint8_t* bytes, float* out, std::size_t n, const Place& place) {
  if (n == 0) return true;
  const OnDevice on(place);
  Scratch<unsigned> damaged(1, place);
  decode_kernel<<<blocks_for((n + coding.block - 1) / coding.block), kThreads, 0, stream_of(place)>>>(
      coding, bytes, out, n, damaged.data());
  ATOLL_CUDA_CHECK(cudaGetLastError());
  return damaged.to_host()[0] == 0;
}

}  // namespace atl::kernels::detail
