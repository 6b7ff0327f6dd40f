// One block of each code, as one text for both twins.  On the CPU the loops are vectorised; on a GPU one thread does a
// block, which keeps the bits equal and is not tuned.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/both.h"
#include "kernels/codes.h"

#ifdef __CUDACC__
#define ATOLL_BLOCK __host__ __device__ __forceinline__
#else
#define ATOLL_BLOCK __attribute__((always_inline)) inline
#endif

namespace atl::kernels::detail {

constexpr std::uint32_t kInfinity = 0x7F800000U, kLargest = 0x7F7FFFFFU;
constexpr std::size_t kTile = 256;  // values that go through small arrays at a time

ATOLL_BLOCK std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
ATOLL_BLOCK float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

// An infinity becomes the largest float, a NaN becomes 0.
ATOLL_BLOCK std::uint32_t clean(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU, sign = bits & 0x80000000U;
  const std::uint32_t limited = magnitude > kLargest ? kLargest : magnitude;
  return magnitude > kInfinity ? 0 : sign | limited;
}
ATOLL_BLOCK float clean(float x) { return float_of(clean(bits_of(x))); }

// The bits of the largest magnitude; bits of non-negative floats are ordered as the floats.
ATOLL_BLOCK std::uint32_t largest_magnitude(const float* x, std::size_t n) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = clean(bits_of(x[i])) & 0x7FFFFFFFU;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

ATOLL_BLOCK std::uint16_t to_bf16_bits(float x) {
  const std::uint32_t b = clean(bits_of(x));
  const std::uint32_t rounded = (b + 0x7FFFU + (b >> 16U & 1U)) >> 16U;
  return static_cast<std::uint16_t>((rounded & 0x7FFFU) > 0x7F7FU ? (rounded & 0x8000U) | 0x7F7FU : rounded);
}
ATOLL_BLOCK void put16(std::uint8_t* out, std::uint32_t v) {
  out[0] = static_cast<std::uint8_t>(v);
  out[1] = static_cast<std::uint8_t>(v >> 8U);
}
ATOLL_BLOCK std::uint32_t get16(const std::uint8_t* in) { return in[0] | std::uint32_t{in[1]} << 8U; }
ATOLL_BLOCK void put32(std::uint8_t* out, std::uint32_t v) {
  put16(out, v & 0xFFFFU);
  put16(out + 2, v >> 16U);
}
ATOLL_BLOCK std::uint32_t get32(const std::uint8_t* in) { return get16(in) | get16(in + 2) << 16U; }

// Pairs of 4-bit codes, the first in the low half; and back.  n <= kTile; codes has room for kTile.
ATOLL_BLOCK void pack4(const std::uint8_t* codes, std::size_t n, std::uint8_t* out) {
  std::uint16_t pairs[kTile / 2];
  memcpy(pairs, codes, sizeof(pairs));
  for (std::size_t i = 0; i < n / 2; ++i) out[i] = static_cast<std::uint8_t>(pairs[i] | pairs[i] >> 4U);
  if (n % 2 != 0) out[n / 2] = codes[n - 1];
}
ATOLL_BLOCK void unpack4(const std::uint8_t* in, std::size_t n, std::uint8_t* codes) {
  std::uint16_t pairs[kTile / 2];
  for (std::size_t i = 0; i < (n + 1) / 2; ++i)
    pairs[i] = static_cast<std::uint16_t>((in[i] & 0x0FU) | (std::uint32_t{in[i]} & 0xF0U) << 4U);
  memcpy(codes, pairs, (n + 1) / 2 * 2);
}
// Four 2-bit codes a byte, the first lowest.
ATOLL_BLOCK void pack2(const std::uint8_t* codes, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = 0; i < (n + 3) / 4; ++i) {
    std::uint32_t byte = 0;
    for (std::size_t j = 0; j < 4 && 4 * i + j < n; ++j) byte |= std::uint32_t{codes[4 * i + j]} << (2 * j);
    out[i] = static_cast<std::uint8_t>(byte);
  }
}
ATOLL_BLOCK void unpack2(const std::uint8_t* in, std::size_t n, std::uint8_t* codes) {
  for (std::size_t i = 0; i < n; ++i) codes[i] = in[i / 4] >> (2 * (i % 4)) & 3U;
}

// ---------------------------------------------------------------------------------------------- fp16
// [exponent: 1 byte] [binary16: 2 bytes each].  value = binary16 * 2^(exponent - 141): the largest lies in [2^14, 2^15).

// 2^15, to which the largest may be rounded; of the highest exponent that is no float.
ATOLL_BLOCK std::uint32_t largest_half(std::uint32_t exponent) { return exponent == 254 ? 0x77FFU : 0x7800U; }

ATOLL_BLOCK void encode_fp16(const float* x, std::size_t n, std::uint8_t* out) {
  std::uint32_t exponent = largest_magnitude(x, n) >> 23U;
  exponent = exponent < 15 ? 15 : exponent;  // smaller blocks lose their smallest values
  out[0] = static_cast<std::uint8_t>(exponent);
  const float scale = float_of((127U + 141U - exponent) << 23U);
  const std::uint32_t most = largest_half(exponent);
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint16_t halves[kTile];
    for (std::size_t i = 0; i < count; ++i) {
      const float scaled = clean(x[from + i]) * scale;
      const std::uint32_t b = bits_of(scaled), magnitude = b & 0x7FFFFFFFU;
      const std::uint32_t normal = (magnitude + 0xFFFU + (magnitude >> 13U & 1U) - (112U << 23U)) >> 13U;
      const std::uint32_t small = bits_of(float_of(magnitude) + 0.5F) - 0x3F000000U;  // steps of 2^-24 above 0.5
      std::uint32_t half = magnitude >= (113U << 23U) ? normal : small;
      half = half > most ? most : half;
      halves[i] = static_cast<std::uint16_t>((b >> 16U & 0x8000U) | half);
    }
    memcpy(out + 1 + 2 * from, halves, 2 * count);
  }
}
ATOLL_BLOCK bool decode_fp16(const std::uint8_t* in, float* x, std::size_t n) {
  const std::uint32_t exponent = in[0];
  if (exponent < 15 || exponent > 254) return false;
  // binary16's exponent field in a binary32 means 2^-112 less; times 2^(exponent - 29) and 2^0: two exact factors
  const float up = float_of((127U + 112U) << 23U), scale = float_of((exponent - 14U) << 23U);
  bool finite = true;
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint16_t halves[kTile];
    memcpy(halves, in + 1 + 2 * from, 2 * count);
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t half = halves[i], magnitude = half & 0x7FFFU;
      largest = magnitude > largest ? magnitude : largest;
      x[from + i] = float_of((half & 0x8000U) << 16U | magnitude << 13U) * up * scale;
    }
    finite = finite && largest <= largest_half(exponent);
  }
  return finite;
}

// ---------------------------------------------------------------------------------------------- int8, int4
// int8: [absmax / 127: binary32] [code: 1 byte each, two's complement].
// int4: [absmax / 7: bf16] [code + 8: 4 bits each].

// Rounded to nearest even.  |x| < 2^22.
ATOLL_BLOCK std::int32_t nearest(float x) { return static_cast<std::int32_t>(bits_of(x + 12582912.0F) - 0x4B400000U); }
constexpr std::uint32_t kLargestScale8 = 0x7C010203U;  // the largest of which 127 times is a float
constexpr std::uint32_t kLargestScale4 = 0x7E12U;      // bf16: 7 times
constexpr float kLeastScale = 1.17549435e-38F;         // the smallest normal float: below it a block counts as zeros

ATOLL_BLOCK void encode_int8(const float* x, std::size_t n, std::uint8_t* out) {
  float scale = float_of(largest_magnitude(x, n)) / 127.0F;
  scale = scale < kLeastScale ? 0.0F : scale;
  scale = bits_of(scale) > kLargestScale8 ? float_of(kLargestScale8) : scale;
  put32(out, bits_of(scale));
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t code = nearest(clean(x[i]) * inverse);
    code = code > 127 ? 127 : code < -127 ? -127 : code;
    out[4 + i] = static_cast<std::uint8_t>(code);
  }
}
ATOLL_BLOCK bool decode_int8(const std::uint8_t* in, float* x, std::size_t n) {
  const std::uint32_t bits = get32(in);
  if (bits > kLargestScale8) return false;  // or negative
  const float scale = float_of(bits);
  for (std::size_t i = 0; i < n; ++i) {
    std::int32_t code = static_cast<std::int8_t>(in[4 + i]);
    code = code < -127 ? -127 : code;  // -128 is no code of the encoder's
    x[i] = static_cast<float>(code) * scale;
  }
  return true;
}

ATOLL_BLOCK void encode_int4(const float* x, std::size_t n, std::uint8_t* out) {
  const float wanted = float_of(largest_magnitude(x, n)) / 7.0F;
  std::uint32_t rounded = wanted < kLeastScale ? 0 : to_bf16_bits(wanted);
  rounded = rounded > kLargestScale4 ? kLargestScale4 : rounded;
  put16(out, rounded);
  const float inverse = rounded == 0 ? 0.0F : 1.0F / float_of(rounded << 16U);
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint8_t codes[kTile];
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t code = nearest(clean(x[from + i]) * inverse);
      code = code > 7 ? 7 : code < -7 ? -7 : code;
      codes[i] = static_cast<std::uint8_t>(code + 8);
    }
    pack4(codes, count, out + 2 + from / 2);
  }
}
ATOLL_BLOCK bool decode_int4(const std::uint8_t* in, float* x, std::size_t n) {
  const std::uint32_t bits = get16(in) << 16U;
  if (bits > kLargestScale4 << 16U) return false;  // or negative
  const float scale = float_of(bits);
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint8_t codes[kTile];
    unpack4(in + 2 + from / 2, count, codes);
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t code = static_cast<std::int32_t>(codes[i]) - 8;
      code = code < -7 ? -7 : code;  // 0 is no code of the encoder's
      x[from + i] = static_cast<float>(code) * scale;
    }
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- e3m0
// [exponent E: 1 byte] [sign and k: 4 bits each].  k = 0: zero; else +-2^(E - 127 - 7 + k).  Levels below 2^-126 do not exist.
// 2^(E - 127) is the power of two nearest to absmax.  Source: E3M0 of Streaming DiLoCo, arXiv:2501.18512, section 2.4.

constexpr std::uint32_t kHalfMantissa = 0x400000U;  // 1.5 * 2^e and above rounds to 2^(e + 1)

ATOLL_BLOCK void encode_e3m0(const float* x, std::size_t n, std::uint8_t* out) {
  std::uint32_t top = (largest_magnitude(x, n) + kHalfMantissa) >> 23U;
  top = top > 254 ? 254 : top;
  out[0] = static_cast<std::uint8_t>(top);
  const auto highest = static_cast<std::int32_t>(top);
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint8_t codes[kTile];
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t b = clean(bits_of(x[from + i])), magnitude = b & 0x7FFFFFFFU;
      std::int32_t level = static_cast<std::int32_t>((magnitude + kHalfMantissa) >> 23U);
      // half of the lowest level and above is nearer to it than to zero
      const std::int32_t floor = static_cast<std::int32_t>(magnitude >> 23U);
      level = floor == highest - 7 ? highest - 6 : level;
      level = level > highest ? highest : level;
      const std::int32_t k = level - (highest - 7);
      const bool zero = k < 1 || level < 1;
      codes[i] = static_cast<std::uint8_t>(zero ? 0 : static_cast<std::uint32_t>(k) | (b >> 28U & 8U));
    }
    pack4(codes, count, out + 1 + from / 2);
  }
}
ATOLL_BLOCK bool decode_e3m0(const std::uint8_t* in, float* x, std::size_t n) {
  const std::uint32_t top = in[0];
  if (top > 254) return false;
  const std::int32_t base = static_cast<std::int32_t>(top) - 7;
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint8_t codes[kTile];
    unpack4(in + 1 + from / 2, count, codes);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t code = codes[i], k = code & 7U;
      const std::int32_t level = base + static_cast<std::int32_t>(k);
      const std::uint32_t value = (code & 8U) << 28U | static_cast<std::uint32_t>(level) << 23U;
      x[from + i] = float_of(k == 0 || level < 1 ? 0 : value);
    }
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- codebooks
// [entries: bf16, 2^b of them] [code: b bits each].  K = 2^b buckets of equal width over mean +- 6 sigma of the block; what
// lies outside goes to the first or last.  Entry: the mean of the bucket's values, 0 for an empty one.
// Sources: INTELLECT-1, arXiv:2412.01152 (8 bits); MuLoCo, arXiv:2505.23725 (4 and 2 bits).
// Sums are made in a written order (lanes) or of integers, so that both twins give the same bits.

struct Spread {
  float lowest = 0;   // mean - 6 sigma
  float inverse = 0;  // steps a unit: 256 to a bucket; 0: all values are (nearly) equal
  float mean = 0;
};

ATOLL_BLOCK Spread spread_of(const float* x, std::size_t n, int buckets) {
  constexpr std::size_t kLanes = 32;
  double sum[kLanes] = {}, squares[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double v = static_cast<double>(clean(x[i + l]));
      sum[l] += v;
      squares[l] += v * v;
    }
  for (std::size_t l = 0; i + l < n; ++l) {
    const double v = static_cast<double>(clean(x[i + l]));
    sum[l] += v;
    squares[l] += v * v;
  }
  double total = 0, total_squares = 0;
  for (std::size_t l = 0; l < kLanes; ++l) {
    total += sum[l];
    total_squares += squares[l];
  }
  const double count = static_cast<double>(n), mean = total / count;
  const double variance = total_squares / count - mean * mean;
  const double sigma = variance > 0 ? sqrt(variance) : 0;
  Spread spread;
  spread.mean = static_cast<float>(mean);
  const double magnitude = mean < 0 ? -mean : mean;
  if (sigma <= magnitude * 0x1p-20 || sigma < 0x1p-120 || sigma > 0x1p124) {
    spread.lowest = spread.mean;  // no spread to speak of, or none that floats can hold
    return spread;
  }
  spread.lowest = static_cast<float>(mean - 6 * sigma);
  spread.inverse = static_cast<float>(256.0 * buckets / (12 * sigma));
  return spread;
}

// Of at most kTile values: how many 1/256 of a bucket above the lowest; far outliers are limited to +-2^30.
ATOLL_BLOCK void positions(const float* x, std::size_t n, const Spread& spread, std::int32_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    float steps = (clean(x[i]) - spread.lowest) * spread.inverse;
    steps = steps > 0x1p30F ? 0x1p30F : (steps >= -0x1p30F ? steps : -0x1p30F);  // a NaN goes to the lowest
    out[i] = static_cast<std::int32_t>(steps);
  }
}
ATOLL_BLOCK int bucket_of(std::int32_t position, int buckets) {
  const int bucket = position >> 8;
  return bucket < 0 ? 0 : bucket >= buckets ? buckets - 1 : bucket;
}
ATOLL_BLOCK std::uint32_t entry_of(const Spread& spread, std::int64_t sum, std::int64_t count) {
  if (count == 0) return 0;
  if (spread.inverse == 0) return to_bf16_bits(spread.mean);
  // positions are cut off towards zero: half a step more is right on average
  const double steps = static_cast<double>(sum) / static_cast<double>(count) + 0.5;
  return to_bf16_bits(
      static_cast<float>(static_cast<double>(spread.lowest) + steps / static_cast<double>(spread.inverse)));
}

template <int kBits>
ATOLL_BLOCK void encode_book(const float* x, std::size_t n, std::uint8_t* out) {
  constexpr int kBuckets = 1 << kBits;
  const Spread spread = spread_of(x, n, kBuckets);
  std::int64_t sums[kBuckets] = {}, counts[kBuckets] = {};
  std::uint8_t* const codes_at = out + 2 * kBuckets;
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::int32_t at[kTile];
    std::uint8_t codes[kTile] = {};
    positions(x + from, count, spread, at);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(bucket_of(at[i], kBuckets));
    for (std::size_t i = 0; i < count; ++i) {
      sums[codes[i]] += at[i];
      ++counts[codes[i]];
    }
    if (kBits == 8) memcpy(codes_at + from, codes, count);
    if (kBits == 4) pack4(codes, count, codes_at + from / 2);
    if (kBits == 2) pack2(codes, count, codes_at + from / 4);
  }
  for (int k = 0; k < kBuckets; ++k) put16(out + 2 * k, entry_of(spread, sums[k], counts[k]));
}

template <int kBits>
ATOLL_BLOCK bool decode_book(const std::uint8_t* in, float* x, std::size_t n) {
  constexpr int kBuckets = 1 << kBits;
  float entries[kBuckets];
  bool finite = true;
  for (int k = 0; k < kBuckets; ++k) {
    const std::uint32_t bits = get16(in + 2 * k) << 16U;
    finite = finite && (bits & kInfinity) != kInfinity;
    entries[k] = float_of(bits);
  }
  const std::uint8_t* const codes_at = in + 2 * kBuckets;
  for (std::size_t from = 0; from < n; from += kTile) {
    const std::size_t count = n - from < kTile ? n - from : kTile;
    std::uint8_t codes[kTile];
    if (kBits == 8) memcpy(codes, codes_at + from, count);
    if (kBits == 4) unpack4(codes_at + from / 2, count, codes);
    if (kBits == 2) unpack2(codes_at + from / 4, count, codes);
    for (std::size_t i = 0; i < count; ++i) x[from + i] = entries[codes[i]];
  }
  return finite;
}

// ---------------------------------------------------------------------------------------------- topk
// [entries: 4 bf16] [index: 12 bits each, ascending] [code: 2 bits each].  The k values of largest magnitude of the block
// (ties: the lower index), as a codebook of 4 over their own mean +- 6 sigma.  Source: SparseLoCo, arXiv:2508.15706.

constexpr std::size_t kLargestTopk = 4096;  // 12 bits

ATOLL_BLOCK std::size_t kept(std::size_t n, std::size_t block, std::size_t keep) {
  return (n * keep + block - 1) / block;
}

// Indices of the k largest magnitudes, ascending.  By their upper bits first; only those of the last class are ordered.
ATOLL_BLOCK void largest_indices(const float* x, std::size_t n, std::size_t k, std::uint16_t* chosen) {
  constexpr unsigned kShift = 20;  // exponent and 3 bits of the mantissa
  std::uint16_t counts[1U << (31 - kShift)] = {};
  std::uint32_t magnitude[kLargestTopk];
  for (std::size_t i = 0; i < n; ++i) magnitude[i] = clean(bits_of(x[i])) & 0x7FFFFFFFU;
  for (std::size_t i = 0; i < n; ++i) ++counts[magnitude[i] >> kShift];
  std::uint32_t last = (1U << (31 - kShift)) - 1;  // the class in which the k-th lies
  std::size_t above = 0;                           // how many lie in higher ones
  while (above + counts[last] < k) above += counts[last--];
  // The k-th itself: the magnitude of which `wanted` of the class are at least as large, found bit by bit.
  std::uint16_t same[kLargestTopk];
  std::size_t of_class = 0;
  for (std::size_t i = 0; i < n; ++i) {
    same[of_class] = static_cast<std::uint16_t>(i);
    of_class += magnitude[i] >> kShift == last ? 1 : 0;
  }
  const std::size_t wanted = k - above;
  std::uint32_t threshold = last << kShift;
  for (std::uint32_t bit = 1U << (kShift - 1); bit != 0; bit >>= 1U) {
    std::size_t as_large = 0;
    for (std::size_t j = 0; j < of_class; ++j) as_large += magnitude[same[j]] >= (threshold | bit) ? 1 : 0;
    if (as_large >= wanted) threshold |= bit;
  }
  std::size_t larger = 0;
  for (std::size_t j = 0; j < of_class; ++j) larger += magnitude[same[j]] > threshold ? 1 : 0;
  std::size_t ties = wanted - larger, count = 0;
  for (std::size_t i = 0; i < n && count < k; ++i) {
    const bool tie = magnitude[i] == threshold && ties > 0;
    if (magnitude[i] > threshold || tie) chosen[count++] = static_cast<std::uint16_t>(i);
    ties -= tie ? 1 : 0;
  }
}

ATOLL_BLOCK void encode_topk(const float* x, std::size_t n, std::size_t k, std::uint8_t* out) {
  std::uint16_t chosen[kLargestTopk + 1];
  float values[kLargestTopk];
  std::uint8_t codes[kLargestTopk];
  largest_indices(x, n, k, chosen);
  for (std::size_t i = 0; i < k; ++i) values[i] = x[chosen[i]];
  const Spread spread = spread_of(values, k, 4);
  std::int64_t sums[4] = {}, counts[4] = {};
  for (std::size_t from = 0; from < k; from += kTile) {
    const std::size_t count = k - from < kTile ? k - from : kTile;
    std::int32_t at[kTile];
    positions(values + from, count, spread, at);
    for (std::size_t i = 0; i < count; ++i) {
      const int bucket = bucket_of(at[i], 4);
      codes[from + i] = static_cast<std::uint8_t>(bucket);
      sums[bucket] += at[i];
      ++counts[bucket];
    }
  }
  for (int b = 0; b < 4; ++b) put16(out + 2 * b, entry_of(spread, sums[b], counts[b]));
  std::uint8_t* const indices = out + 8;
  chosen[k] = 0;
  for (std::size_t i = 0; i < k; i += 2) {  // two indices in three bytes; the last half byte is 0 when k is odd
    const std::uint32_t pair = chosen[i] | (i + 1 < k ? std::uint32_t{chosen[i + 1]} << 12U : 0);
    std::uint8_t* const at = indices + i / 2 * 3;
    put16(at, pair & 0xFFFFU);
    if (i + 1 < k) at[2] = static_cast<std::uint8_t>(pair >> 16U);
  }
  pack2(codes, k, indices + (3 * k + 1) / 2);
}

ATOLL_BLOCK bool decode_topk(const std::uint8_t* in, float* x, std::size_t n, std::size_t k) {
  float entries[4];
  for (int b = 0; b < 4; ++b) {
    const std::uint32_t bits = get16(in + 2 * b) << 16U;
    if ((bits & kInfinity) == kInfinity) return false;
    entries[b] = float_of(bits);
  }
  memset(x, 0, n * sizeof(float));
  const std::uint8_t* const indices = in + 8;
  const std::uint8_t* const codes = indices + (3 * k + 1) / 2;
  std::uint32_t least = 0;  // the next index must be at least this
  for (std::size_t i = 0; i < k; ++i) {
    const std::uint8_t* const at = indices + i / 2 * 3;
    const std::uint32_t index = i % 2 == 0 ? get16(at) & 0xFFFU : get16(at + 1) >> 4U;
    if (index < least || index >= n) return false;
    least = index + 1;
    x[index] = entries[codes[i / 4] >> (2 * (i % 4)) & 3U];
  }
  return true;
}

// ---------------------------------------------------------------------------------------------- any

ATOLL_BLOCK std::size_t bytes_of_block(const Coding& c, std::size_t n) {
  if (n == 0) return 0;
  switch (c.code) {
    case Code::fp16:
      return 1 + 2 * n;
    case Code::int8:
      return 4 + n;
    case Code::int4:
      return 2 + (n + 1) / 2;
    case Code::e3m0:
      return 1 + (n + 1) / 2;
    case Code::book8:
      return 512 + n;
    case Code::book4:
      return 32 + (n + 1) / 2;
    case Code::book2:
      return 8 + (n + 3) / 4;
    case Code::topk: {
      const std::size_t k = kept(n, c.block, c.keep);
      return 8 + (3 * k + 1) / 2 + (k + 3) / 4;
    }
  }
  return 0;
}

ATOLL_BLOCK void encode_block(const Coding& c, const float* x, std::size_t n, std::uint8_t* out) {
  switch (c.code) {
    case Code::fp16:
      return encode_fp16(x, n, out);
    case Code::int8:
      return encode_int8(x, n, out);
    case Code::int4:
      return encode_int4(x, n, out);
    case Code::e3m0:
      return encode_e3m0(x, n, out);
    case Code::book8:
      return encode_book<8>(x, n, out);
    case Code::book4:
      return encode_book<4>(x, n, out);
    case Code::book2:
      return encode_book<2>(x, n, out);
    case Code::topk:
      return encode_topk(x, n, kept(n, c.block, c.keep), out);
  }
}

ATOLL_BLOCK bool decode_block(const Coding& c, const std::uint8_t* in, float* x, std::size_t n) {
  switch (c.code) {
    case Code::fp16:
      return decode_fp16(in, x, n);
    case Code::int8:
      return decode_int8(in, x, n);
    case Code::int4:
      return decode_int4(in, x, n);
    case Code::e3m0:
      return decode_e3m0(in, x, n);
    case Code::book8:
      return decode_book<8>(in, x, n);
    case Code::book4:
      return decode_book<4>(in, x, n);
    case Code::book2:
      return decode_book<2>(in, x, n);
    case Code::topk:
      return decode_topk(in, x, n, kept(n, c.block, c.keep));
  }
  return false;
}

}  // namespace atl::kernels::detail
