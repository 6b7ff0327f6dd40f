#include "kernels/block_codes.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

// One CUDA block a block of values.  A byte is written by one thread.
template <class C>
__global__ void encode_kernel(const float* in, std::size_t n, std::size_t block, unsigned char* out) {
  __shared__ std::uint32_t most;
  const std::size_t at = blockIdx.x * block, m = n - at < block ? n - at : block;
  in += at;
  out += blockIdx.x * record_bytes<C>(block);
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  std::uint32_t mine = 0;
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) mine = max(mine, magnitude(in[i]));
  atomicMax(&most, mine);
  __syncthreads();
  const bool finite = most < kInfinity;
  const std::uint32_t header = finite ? C::header(most) : C::kNanHeader;
  if (threadIdx.x < C::kHeader) out[threadIdx.x] = static_cast<unsigned char>(header >> (8U * threadIdx.x));
  out += C::kHeader;
  const auto s = C::scale(header);
  const auto code = [&](std::size_t i) { return finite && i < m ? C::code(in[i], s) : 0U; };
  const std::size_t bytes = record_bytes<C>(m) - C::kHeader;
  for (std::size_t j = threadIdx.x; j < bytes; j += blockDim.x) {
    if constexpr (C::kBits == 16)
      out[j] = static_cast<unsigned char>(code(j / 2) >> (8U * (j % 2)));
    else if constexpr (C::kBits == 8)
      out[j] = static_cast<unsigned char>(code(j));
    else
      out[j] = static_cast<unsigned char>(code(j) | code(j + bytes) << 4U);
  }
}

template <class C>
__global__ void decode_kernel(const unsigned char* in, float* out, std::size_t n, std::size_t block) {
  const std::size_t at = blockIdx.x * block, m = n - at < block ? n - at : block;
  in += blockIdx.x * record_bytes<C>(block);
  out += at;
  std::uint32_t header = 0;
  for (unsigned k = 0; k < C::kHeader; ++k) header |= static_cast<std::uint32_t>(in[k]) << (8U * k);
  in += C::kHeader;
  const bool nan = C::nan(header);
  const auto s = C::scale(header);
  const std::size_t h = packed_bytes(m, 4);
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) {
    std::uint32_t code = 0;
    if constexpr (C::kBits == 16)
      code = in[2 * i] | static_cast<std::uint32_t>(in[2 * i + 1]) << 8U;
    else if constexpr (C::kBits == 8)
      code = in[i];
    else
      code = i < h ? in[i] & 15U : static_cast<std::uint32_t>(in[i - h]) >> 4U;
    out[i] = nan ? as_float(kNan) : C::value(code, s);
  }
}

namespace {

template <class F>
void with_code(BlockCode code, F f) {
  switch (code) {
    case BlockCode::fp16:
      return f(Fp16{});
    case BlockCode::int8:
      return f(Int8{});
    case BlockCode::int4:
      return f(Int4{});
    case BlockCode::e3m0:
      return f(E3m0{});
  }
}

}  // namespace

void encode_blocks_cuda(BlockCode code, const float* in, std::size_t n, std::size_t block, unsigned char* out,
                        const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + block - 1) / block);
  with_code(code,
            [&](auto c) { encode_kernel<decltype(c)><<<blocks, kThreads, 0, stream_of(place)>>>(in, n, block, out); });
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

void decode_blocks_cuda(BlockCode code, const unsigned char* in, float* out, std::size_t n, std::size_t block,
                        const Place& place) {
  if (n == 0) return;
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + block - 1) / block);
  with_code(code,
            [&](auto c) { decode_kernel<decltype(c)><<<blocks, kThreads, 0, stream_of(place)>>>(in, out, n, block); });
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
