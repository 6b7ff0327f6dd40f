#include "kernels/cuda_check.h"
#include "kernels/topk.h"

namespace atl::kernels::detail {

// One CUDA block a block of values: the same selection as topk_cpu.cpp.  What follows the selection is k values: thread
// 0 does it alone, except for the counting.
__global__ void encode_topk_kernel(TopkShape shape, const float* in, std::size_t n, unsigned char* out) {
  __shared__ std::uint32_t most, count, found;
  __shared__ std::uint16_t places[kLargestTopkBlock + 1];
  const std::size_t at = blockIdx.x * shape.block, m = n - at < shape.block ? n - at : shape.block;
  in += at;
  out += blockIdx.x * topk_record_bytes(shape, shape.block);
  const std::size_t k = kept(shape, m), h = packed_bytes(k, 2);
  if (threadIdx.x == 0) most = 0, found = 0;
  __syncthreads();
  std::uint32_t mine = 0;
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) mine = max(mine, magnitude(in[i]));
  atomicMax(&most, mine);
  __syncthreads();
  for (std::uint32_t bit = 1U << 30U; bit != 0; bit >>= 1U) {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const std::uint32_t trial = found | bit;
    std::uint32_t my_count = 0;
    for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) my_count += magnitude(in[i]) >= trial ? 1U : 0U;
    atomicAdd(&count, my_count);
    __syncthreads();
    if (threadIdx.x == 0 && count >= k) found = trial;
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const bool finite = most < kInfinity;
  std::size_t above = 0, taken = 0;
  for (std::size_t i = 0; i < m; ++i) above += magnitude(in[i]) > found ? 1 : 0;
  std::size_t equal = k - above;
  for (std::size_t i = 0; i < m && taken < k; ++i) {
    const std::uint32_t a = magnitude(in[i]);
    if (finite && (a < found || (a == found && equal == 0))) continue;
    if (finite && a == found) --equal;
    places[taken++] = static_cast<std::uint16_t>(i);
  }
  places[k] = 0;
  const Grid grid = grid_of(finite ? most : 0);
  std::int64_t sum = 0, squares = 0;
  for (std::size_t i = 0; finite && i < k; ++i) {
    const auto integer = static_cast<std::int32_t>(on_grid(in[places[i]], grid));
    sum += integer;
    squares += std::int64_t{integer} * integer;
  }
  const Buckets buckets = buckets_of(sum, squares, k, 4);
  std::uint64_t tally[4] = {};
  unsigned char* const codes = out + kTopkTable + places_bytes(k);
  for (std::size_t j = 0; j < h; ++j) codes[j] = 0;
  for (std::size_t i = 0; finite && i < k; ++i) {
    const float integer = on_grid(in[places[i]], grid);
    const std::uint32_t code = bucket_of(integer, buckets);
    tally[code] += counted(static_cast<std::int32_t>(integer));
    codes[i % h] = static_cast<unsigned char>(codes[i % h] | code << (2 * (i / h)));
  }
  for (unsigned c = 0; c < 4; ++c) {
    const std::uint16_t entry = finite ? entry_of(tally[c], grid) : kBf16Nan;
    out[2 * c] = static_cast<unsigned char>(entry & 0xFFU);
    out[2 * c + 1] = static_cast<unsigned char>(entry >> 8U);
  }
  out += kTopkTable;
  for (std::size_t i = 0; i < k; i += 2) {
    const unsigned pair = places[i] | static_cast<unsigned>(places[i + 1]) << 12U;
    *out++ = static_cast<unsigned char>(pair);
    *out++ = static_cast<unsigned char>(pair >> 8U);
    if (i + 1 < k) *out++ = static_cast<unsigned char>(pair >> 16U);
  }
}

__global__ void decode_topk_kernel(TopkShape shape, const unsigned char* in, float* out, std::size_t n) {
  const std::size_t at = blockIdx.x * shape.block, m = n - at < shape.block ? n - at : shape.block;
  in += blockIdx.x * topk_record_bytes(shape, shape.block);
  const std::size_t k = kept(shape, m), h = packed_bytes(k, 2);
  for (std::size_t i = threadIdx.x; i < m; i += blockDim.x) out[at + i] = 0;
  __syncthreads();
  const unsigned char* const codes = in + kTopkTable + places_bytes(k);
  for (std::size_t i = threadIdx.x; i < k; i += blockDim.x) {
    const unsigned char* const p = in + kTopkTable + i / 2 * 3;
    const unsigned place = i % 2 == 0 ? p[0] | (p[1] & 15U) << 8U : p[1] >> 4U | static_cast<unsigned>(p[2]) << 4U;
    const unsigned code = codes[i % h] >> (2 * (i / h)) & 3U;
    if (place < m) out[at + place] = as_float(static_cast<std::uint32_t>(in[2 * code] | in[2 * code + 1] << 8) << 16U);
  }
}

void encode_topk_cuda(TopkShape shape, const float* in, std::size_t n, unsigned char* out, const Place& place) {
  if (n == 0) return;  // a launch of zero blocks is an error
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + shape.block - 1) / shape.block);
  encode_topk_kernel<<<blocks, kThreads, 0, stream_of(place)>>>(shape, in, n, out);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

void decode_topk_cuda(TopkShape shape, const unsigned char* in, float* out, std::size_t n, const Place& place) {
  if (n == 0) return;
  const OnDevice on(place);
  const auto blocks = static_cast<unsigned>((n + shape.block - 1) / shape.block);
  decode_topk_kernel<<<blocks, kThreads, 0, stream_of(place)>>>(shape, in, out, n);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace atl::kernels::detail
