// Codes with one scale a block: fp16, int8, int4, e3m0.  Layout and bounds: docs/wire_format.md, the authority.
//
// A record is the scale, little-endian, then the codes of the block's values.  It depends on nothing but the block.
#pragma once
#include <span>

#include "kernels/bf16.h"
#include "kernels/float_bits.h"
#include "kernels/place.h"

namespace atl::kernels {

enum class BlockCode { fp16, int8, int4, e3m0 };

// Bytes of the records of n values.
std::size_t block_code_bytes(BlockCode code, std::size_t n, std::size_t block);

// Bit-equal twins: the largest magnitude does not depend on an order, the rest is elementwise.
// in: [n], out: [block_code_bytes(n)], both at `place`, no alignment needed for bytes; n = 0 is allowed; block > 0.
// A block with a NaN or an infinity is written as one whose values are all NaN (bits 7FC00000).
// cuda: queued on place.stream and not waited for.  Throws Bug on a wrong length, and for cuda in a build without it.
void encode_blocks(BlockCode code, std::span<const float> in, std::size_t block, std::span<std::byte> out, Place place);
// Any bytes give defined floats.
void decode_blocks(BlockCode code, std::span<const std::byte> in, std::size_t block, std::span<float> out, Place place);

namespace detail {  // for both twins, and for nothing else

// Each code: kHeader bytes of scale, kBits a value; header(largest magnitude of a finite block); nan(header);
// Scale(header); code(x, scale); value(code, scale).

struct Fp16 {
  static constexpr unsigned kHeader = 1, kBits = 16;
  static constexpr std::uint32_t kNanHeader = 255;
  struct Scale {
    TwoFactors up;  // 2^(14 - e): the largest value lands in [2^14, 2^15]
    float down;     // 2^e
    std::uint32_t most;
  };
  ATOLL_BOTH static std::uint32_t header(std::uint32_t largest) { return largest >> 23U > 1 ? largest >> 23U : 1; }
  ATOLL_BOTH static bool nan(std::uint32_t header) { return header == kNanHeader; }
  ATOLL_BOTH static Scale scale(std::uint32_t header) {
    const int e = static_cast<int>(header > 1 ? header : 1) - 127;
    return {two_factors(14 - e), power_of_two(e), header < 254 ? 0x7800U : 0x77FFU};  // 2^15 2^113 would be infinite
  }
  ATOLL_BOTH static std::uint32_t code(float x, Scale s) {
    const std::uint32_t y = as_bits(x * s.up.first * s.up.second), a = y & 0x7FFFFFFFU;
    const std::uint32_t normal = (a + 0xFFFU + (a >> 13U & 1U) - (112U << 23U)) >> 13U;
    const std::uint32_t small = as_bits(as_float(a) + 0.5F) - 0x3F000000U;  // steps of 2^-24
    const std::uint32_t half = a < 0x38800000U ? small : normal;
    return (half < s.most ? half : s.most) | (y >> 16U & 0x8000U);
  }
  ATOLL_BOTH static float value(std::uint32_t half, Scale s) {
    const std::uint32_t a = (half & 0x7FFFU) << 13U;
    const float small = as_float(a + (113U << 23U)) - 0x1p-14F, normal = as_float(a + (112U << 23U));
    const float y = (half & 0x7C00U) == 0 ? small : normal;
    return as_float(as_bits(y * 0x1p-14F * s.down) | (half & 0x8000U) << 16U);
  }
};

struct Int8 {
  static constexpr unsigned kHeader = 4, kBits = 8;
  static constexpr std::uint32_t kNanHeader = kNan;
  struct Scale {
    float step, inverse;
  };
  ATOLL_BOTH static std::uint32_t header(std::uint32_t largest) {
    float step = as_float(largest) / 127.0F;
    if (step < 0x1p-126F) step = 0x1p-126F;  // its inverse must exist; holds the all-zero block too
    const std::uint32_t h = as_bits(step);
    return magnitude(127.0F * step) < kInfinity ? h : h - 1;
  }
  ATOLL_BOTH static bool nan(std::uint32_t header) { return (header & kInfinity) == kInfinity; }
  ATOLL_BOTH static Scale scale(std::uint32_t header) { return {as_float(header), 1.0F / as_float(header)}; }
  ATOLL_BOTH static std::uint32_t code(float x, Scale s) { return as_bits(x * s.inverse + kRound) & 0xFFU; }
  ATOLL_BOTH static float value(std::uint32_t code, Scale s) {
    return static_cast<float>(static_cast<std::int32_t>(code ^ 0x80U) - 0x80) * s.step;
  }
};

struct Int4 {
  static constexpr unsigned kHeader = 2, kBits = 4;
  static constexpr std::uint32_t kNanHeader = kBf16Nan;
  using Scale = Int8::Scale;
  ATOLL_BOTH static std::uint32_t header(std::uint32_t largest) {
    float step = as_float(largest) / 7.0F;
    if (step < 0x1p-126F) step = 0x1p-126F;
    const std::uint32_t h = bf16_bits(as_bits(step));
    return magnitude(7.0F * as_float(h << 16U)) < kInfinity ? h : h - 1;
  }
  ATOLL_BOTH static bool nan(std::uint32_t header) { return (header & 0x7F80U) == 0x7F80U; }
  ATOLL_BOTH static Scale scale(std::uint32_t header) {
    return {as_float(header << 16U), 1.0F / as_float(header << 16U)};
  }
  ATOLL_BOTH static std::uint32_t code(float x, Scale s) { return as_bits(x * s.inverse + kRound) & 0xFU; }
  ATOLL_BOTH static float value(std::uint32_t code, Scale s) {
    return static_cast<float>(static_cast<std::int32_t>(code ^ 8U) - 8) * s.step;
  }
};

struct E3m0 {
  static constexpr unsigned kHeader = 1, kBits = 4;
  static constexpr std::uint32_t kNanHeader = 255;
  static constexpr std::uint32_t kSmallest = 8;  // of a header, so that every magnitude is a normal float
  struct Scale {
    std::uint32_t below;  // biased exponent of half the smallest magnitude
  };
  ATOLL_BOTH static std::uint32_t header(std::uint32_t largest) {
    const std::uint32_t e = (largest + 0x400000U) >> 23U;
    return e < kSmallest ? kSmallest : e > 254 ? 254 : e;
  }
  ATOLL_BOTH static bool nan(std::uint32_t header) { return header == kNanHeader; }
  ATOLL_BOTH static Scale scale(std::uint32_t header) { return {header - 7}; }
  ATOLL_BOTH static std::uint32_t code(float x, Scale s) {
    const std::uint32_t a = magnitude(x);
    const auto above = static_cast<std::int32_t>(((a + 0x400000U) >> 23U) - s.below);  // adding 1/2 rounds 1.5 up
    const std::int32_t least = a >> 23U >= s.below ? 1 : 0;  // half the smallest magnitude and more is not zero
    const std::int32_t raised = above < least ? least : above, exponent = raised > 7 ? 7 : raised;
    const std::uint32_t sign = as_bits(x) >> 28U & 8U;
    return exponent == 0 ? 0U : static_cast<std::uint32_t>(exponent) | sign;
  }
  ATOLL_BOTH static float value(std::uint32_t code, Scale s) {
    const std::uint32_t exponent = code & 7U, bits = ((exponent + s.below) << 23U) | (code & 8U) << 28U;
    return as_float(exponent == 0 ? 0U : bits);
  }
};

template <class C>
ATOLL_BOTH constexpr std::size_t record_bytes(std::size_t n) {
  return C::kHeader + (C::kBits == 16 ? 2 * n : packed_bytes(n, C::kBits > 8 ? 8 : C::kBits));
}

void encode_blocks_cpu(BlockCode code, const float* in, std::size_t n, std::size_t block, unsigned char* out);
void encode_blocks_cuda(BlockCode code, const float* in, std::size_t n, std::size_t block, unsigned char* out,
                        const Place& place);
void decode_blocks_cpu(BlockCode code, const unsigned char* in, float* out, std::size_t n, std::size_t block);
void decode_blocks_cuda(BlockCode code, const unsigned char* in, float* out, std::size_t n, std::size_t block,
                        const Place& place);
}  // namespace detail

}  // namespace atl::kernels
