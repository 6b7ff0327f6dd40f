// Codes with a table of values a block: 2^bits uniform buckets over mean +- 6 sigma, a value's code is its bucket, the
// entry is the mean of the values in it.  int8_codebook (arXiv:2412.01152), stat4, stat2 (arXiv:2505.23725).
//
// A record is the 2^bits entries in bf16, little-endian, then the codes of the block's values.  Layout and bounds:
// docs/wire_format.md.  Sums are of integers: values are first rounded to multiples of 2^(e - 21), 2^e the power of two
// at or below the block's largest magnitude.  So no sum depends on an order.
#pragma once
#include <cmath>
#include <span>

#include "kernels/bf16.h"
#include "kernels/float_bits.h"
#include "kernels/place.h"

namespace atl::kernels {

constexpr std::size_t kLargestCodebookBlock = 65536;

// Bytes of the records of n values.  bits: 2, 4 or 8.
std::size_t codebook_bytes(unsigned bits, std::size_t n, std::size_t block);

// Bit-equal twins.  in: [n], out: [codebook_bytes(n)], both at `place`; n = 0 is allowed; 0 < block <=
// kLargestCodebookBlock.  A block with a NaN or an infinity is written as one whose values are all NaN (bits 7FC00000).
// cuda: queued on place.stream and not waited for.  Throws Bug on a wrong length, and for cuda in a build without it.
void encode_codebook(unsigned bits, std::span<const float> in, std::size_t block, std::span<std::byte> out,
                     Place place);
// Any bytes give defined floats.
void decode_codebook(unsigned bits, std::span<const std::byte> in, std::size_t block, std::span<float> out,
                     Place place);

namespace detail {  // for both twins and for topk, and for nothing else

// Values of a block as integers of at most 2^22: nearest_int(x * up).
struct Grid {
  int exponent;  // of the largest magnitude
  TwoFactors up;
};
ATOLL_BOTH inline Grid grid_of(std::uint32_t largest) {
  const int e = static_cast<int>(largest >> 23U > 1 ? largest >> 23U : 1) - 127;
  return {e, two_factors(21 - e)};
}
ATOLL_BOTH inline float on_grid(float x, Grid g) { return nearest_integer(x * g.up.first * g.up.second); }

// bucket = (integer - low) * inverse, cut to the buckets that exist.
struct Buckets {
  float low, inverse, last;
};
// sum and squares are those of n integers of at most 2^22.
ATOLL_BOTH inline Buckets buckets_of(std::int64_t sum, std::int64_t squares, std::size_t n, unsigned count) {
  const double mean = static_cast<double>(sum) / static_cast<double>(n);
  const double variance = static_cast<double>(squares) / static_cast<double>(n) - mean * mean;
  const double width = 12.0 * sqrt(variance > 0 ? variance : 0.0) / count;
  const bool flat = !(width > 0);  // all values equal: they fall into bucket 0
  return {static_cast<float>(mean - width * (count / 2)), flat ? 0.0F : static_cast<float>(1.0 / width),
          static_cast<float>(count - 1)};
}
ATOLL_BOTH inline std::uint32_t bucket_of(float integer, Buckets b) {
  const float at = (integer - b.low) * b.inverse, high = at < b.last ? at : b.last;
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(high > 0.0F ? high : 0.0F));
}

// Sum and number of the values of a bucket in one word, so that a value costs one addition.
constexpr std::int64_t kShift = std::int64_t{1} << 22U;
ATOLL_BOTH inline std::uint64_t counted(std::int32_t integer) {
  return (std::uint64_t{1} << 44U) + static_cast<std::uint64_t>(integer + kShift);
}
// The bf16 entry of a bucket; 0 for one without values.
ATOLL_BOTH inline std::uint16_t entry_of(std::uint64_t tally, Grid g) {
  const auto n = static_cast<std::int64_t>(tally >> 44U);
  if (n == 0) return 0;
  const std::int64_t sum = static_cast<std::int64_t>(tally & ((std::uint64_t{1} << 44U) - 1)) - n * kShift;
  const auto mean = static_cast<float>(static_cast<double>(sum) / static_cast<double>(n));
  const TwoFactors down = two_factors(g.exponent - 21);
  const auto half = bf16_bits(as_bits(mean * down.first * down.second));
  return (half & 0x7FFFU) == 0x7F80U ? static_cast<std::uint16_t>(half - 1) : half;  // the largest stay finite
}

ATOLL_BOTH constexpr std::size_t codebook_record_bytes(unsigned bits, std::size_t n) {
  return (std::size_t{2} << bits) + packed_bytes(n, bits);
}

void encode_codebook_cpu(unsigned bits, const float* in, std::size_t n, std::size_t block, unsigned char* out);
void encode_codebook_cuda(unsigned bits, const float* in, std::size_t n, std::size_t block, unsigned char* out,
                          const Place& place);
void decode_codebook_cpu(unsigned bits, const unsigned char* in, float* out, std::size_t n, std::size_t block);
void decode_codebook_cuda(unsigned bits, const unsigned char* in, float* out, std::size_t n, std::size_t block,
                          const Place& place);
}  // namespace detail

}  // namespace atl::kernels
