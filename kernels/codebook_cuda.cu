#include "kernels/codebook.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

using Word = unsigned long long;  // what atomicAdd takes

// One CUDA block a block of values.  Sums are of integers, so that the order of the atomic additions does not matter.
template <unsigned kBits>
__global__ void encode_codebook_kernel(const float* in, std::size_t n, std::size_t block, unsigned char* out) {
  constexpr unsigned kEntries = 1U << kBits;
  __shared__ std::uint32_t most;
  __shared__ Word sum, squares, tally[kEntries];
  const std::size_t at = blockIdx.x * block, m = n - at < block ? n - at : block;
  in += at;
  out += blockIdx.x * codebook_record_bytes(kBits, block);
  if (threadIdx.x == 0) most = 0, sum = 0, squares = 0;
  for (unsigned c = threadIdx.x; c < kEntries; c += blockDim.x) tally[c] = 0;
  __syncthreads();
  std::uint32_t mine = 0;
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) mine = max(mine, magnitude(in[i]));
  atomicMax(&most, mine);
  __syncthreads();
  const bool finite = most < kInfinity;
  const Grid grid = grid_of(finite ? most : 0);
  std::int64_t my_sum = 0, my_squares = 0;
  for (std::size_t i = threadIdx.x; finite && i < m; i += blockDim.x) {
    const auto integer = static_cast<std::int32_t>(on_grid(in[i], grid));
    my_sum += integer;
    my_squares += std::int64_t{integer} * integer;
  }
  atomicAdd(&sum, static_cast<Word>(my_sum));
  atomicAdd(&squares, static_cast<Word>(my_squares));
  __syncthreads();
  const Buckets buckets = buckets_of(static_cast<std::int64_t>(sum), static_cast<std::int64_t>(squares), m, kEntries);
  unsigned char* const codes = out + 2 * kEntries;
  const std::size_t h = packed_bytes(m, kBits);
  for (std::size_t j = threadIdx.x; j < h; j += blockDim.x) {
    unsigned byte = 0;
    for (unsigned k = 0; finite && k < 8 / kBits; ++k) {
      const std::size_t i = j + k * h;
      if (i >= m) break;
      const float integer = on_grid(in[i], grid);
      const std::uint32_t code = bucket_of(integer, buckets);
      atomicAdd(&tally[code], static_cast<Word>(counted(static_cast<std::int32_t>(integer))));
      byte |= code << (k * kBits);
    }
    codes[j] = static_cast<unsigned char>(byte);
  }
  __syncthreads();
  for (unsigned c = threadIdx.x; c < kEntries; c += blockDim.x) {
    const std::uint16_t entry = finite ? entry_of(tally[c], grid) : kBf16Nan;
    out[2 * c] = static_cast<unsigned char>(entry & 0xFFU);
    out[2 * c + 1] = static_cast<unsigned char>(entry >> 8U);
  }
}

template <unsigned kBits>
__global__ void decode_codebook_kernel(const unsigned char* in, float* out, std::size_t n, std::size_t block) {
  constexpr unsigned kEntries = 1U << kBits;
  const std::size_t at = blockIdx.x * block, m = n - at < block ? n - at : block, h = packed_bytes(m, kBits);
  in += blockIdx.x * codebook_record_bytes(kBits, block);
  const unsigned char* const codes = in + 2 * kEntries;
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) {
    const unsigned k = static_cast<unsigned>(i / h);
    const unsigned code = static_cast<unsigned>(codes[i - k * h]) >> (k * kBits) & (kEntries - 1);
    out[at + i] = as_float(static_cast<std::uint32_t>(in[2 * code] | in[2 * code + 1] << 8) << 16U);
  }
}

void encode_codebook_cuda(unsigned bits, const float* in, std::size_t n, std::size_t block, unsigned char* out,
                          const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + block - 1) / block);
  const auto stream = stream_of(place);
  if (bits == 8) encode_codebook_kernel<8><<<blocks, kThreads, 0, stream>>>(in, n, block, out);
  if (bits == 4) encode_codebook_kernel<4><<<blocks, kThreads, 0, stream>>>(in, n, block, out);
  if (bits == 2) encode_codebook_kernel<2><<<blocks, kThreads, 0, stream>>>(in, n, block, out);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

void decode_codebook_cuda(unsigned bits, const unsigned char* in, float* out, std::size_t n, std::size_t block,
                          const Place& place) {
  if (n == 0) return;
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + block - 1) / block);
  const auto stream = stream_of(place);
  if (bits == 8) decode_codebook_kernel<8><<<blocks, kThreads, 0, stream>>>(in, out, n, block);
  if (bits == 4) decode_codebook_kernel<4><<<blocks, kThreads, 0, stream>>>(in, out, n, block);
  if (bits == 2) decode_codebook_kernel<2><<<blocks, kThreads, 0, stream>>>(in, out, n, block);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
