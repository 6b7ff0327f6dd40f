// The `keep` largest magnitudes of each block: 12-bit places, 2-bit values.  SparseLoCo, arXiv:2508.15706.
//
// A record is a table of 4 bf16 entries (kernels/codebook.h, over the kept values), the places, ascending, two in three
// bytes, and the codes, four a byte.  Layout and bounds: docs/wire_format.md.
#pragma once
#include <span>

#include "kernels/codebook.h"
#include "kernels/place.h"

namespace atl::kernels {

constexpr std::size_t kLargestTopkBlock = 4096;  // a place has 12 bits

struct TopkShape {
  std::size_t block = 4096, keep = 64;  // 0 < keep <= block <= kLargestTopkBlock
};

// Bytes of the records of n values.
std::size_t topk_bytes(TopkShape shape, std::size_t n);

// Bit-equal twins.  Equal magnitudes: the lower place first.  A block with a NaN or an infinity keeps its first places,
// with NaN.  in: [n], out: [topk_bytes(n)], both at `place`; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on a wrong length, and for cuda in a build without it.
void encode_topk(TopkShape shape, std::span<const float> in, std::span<std::byte> out, Place place);

// What is not kept is 0.  in: [topk_bytes(n)], out: [n], at `place`.  On the host: false when places are not ascending,
// or not below the block's size; out then holds defined floats.  On cuda: for bytes of encode_topk, always true.
bool decode_topk(TopkShape shape, std::span<const std::byte> in, std::span<float> out, Place place);

namespace detail {  // for both twins, and for nothing else

// Values kept of n, n <= block: their share, rounded up.
ATOLL_BOTH constexpr std::size_t kept(TopkShape shape, std::size_t n) {
  return (shape.keep * n + shape.block - 1) / shape.block;
}
constexpr std::size_t kTopkTable = 8;
ATOLL_BOTH constexpr std::size_t places_bytes(std::size_t k) { return (12 * k + 7) / 8; }
ATOLL_BOTH constexpr std::size_t topk_record_bytes(TopkShape shape, std::size_t n) {
  const std::size_t k = kept(shape, n);
  return kTopkTable + places_bytes(k) + packed_bytes(k, 2);
}

void encode_topk_cpu(TopkShape shape, const float* in, std::size_t n, unsigned char* out);
void encode_topk_cuda(TopkShape shape, const float* in, std::size_t n, unsigned char* out, const Place& place);
bool decode_topk_cpu(TopkShape shape, const unsigned char* in, float* out, std::size_t n);
void decode_topk_cuda(TopkShape shape, const unsigned char* in, float* out, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
