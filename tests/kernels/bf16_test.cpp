#include "kernels/bf16.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

using Halves = std::vector<std::uint16_t>;

float from_bits(std::uint32_t b) { return std::bit_cast<float>(b); }

std::uint16_t to_bf16(float x) {
  Halves out(1);
  kernels::to_bf16(std::vector<float>{x}, out, {});
  return out[0];
}

// The nearer of the two neighbours in double; at a tie the even one.  `x` is finite.
std::uint16_t nearest(float x) {
  const std::uint32_t low = bits(x) >> 16U;
  const auto value = [](std::uint32_t half) {  // one past the largest finite bf16 counts as 2^128
    return (half & 0x7FFFU) == 0x7F80U ? std::copysign(0x1p128, half >> 15U ? -1.0 : 1.0)
                                       : double{from_bits(half << 16U)};
  };
  const double below = std::abs(double{x} - value(low)), above = std::abs(value(low + 1) - double{x});
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(up ? low + 1 : low);
}

TEST_CASE("bf16: rounding, ties, infinities and NaNs, worked by hand") {
  const std::vector<std::pair<std::uint32_t, std::uint16_t>> table{
      {0x00000000, 0x0000}, {0x80000000, 0x8000},  // both zeros
      {0x3F800000, 0x3F80},                        // 1
      {0x3F808000, 0x3F80},                        // tie between 3F80 and 3F81: even
      {0x3F808001, 0x3F81},                        // just above the tie
      {0x3F818000, 0x3F82},                        // tie between 3F81 and 3F82: even
      {0x3F817FFF, 0x3F81},                        // just below it
      {0xBF818000, 0xBF82},                        // the same below zero
      {0x3FFFFFFF, 0x4000},                        // carries into the exponent
      {0x00000001, 0x0000}, {0x00008000, 0x0000}, {0x00008001, 0x0001}, {0x00018000, 0x0002},  // subnormals
      {0x7F7F7FFF, 0x7F7F},                                              // largest that stays finite
      {0x7F7F8000, 0x7F80}, {0x7F7FFFFF, 0x7F80}, {0xFF7FFFFF, 0xFF80},  // to infinity
      {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80},                        // infinities
      {0x7FC00000, 0x7FC0}, {0xFFC12345, 0xFFC1},                        // NaNs keep sign and upper payload
      {0x7F800001, 0x7FC0}, {0xFF80FFFF, 0xFFC0}, {0x7FFFFFFF, 0x7FFF},  // never become infinities or zeros
  };
  for (const auto& entry : table) {
    CAPTURE(entry.first);
    CHECK(to_bf16(from_bits(entry.first)) == entry.second);
  }
}

TEST_CASE("bf16: random bit patterns go to the nearest neighbour") {
  std::mt19937 random(5);
  std::vector<float> in;
  Halves want;
  while (in.size() < 300'000) {
    auto b = static_cast<std::uint32_t>(random());
    if (in.size() % 4 == 0) b = (b & 0xFFFF0000U) | 0x8000U;  // many ties
    if ((b & 0x7F800000U) == 0x7F800000U) continue;
    in.push_back(from_bits(b));
    want.push_back(nearest(in.back()));
  }
  Halves got(in.size());
  kernels::to_bf16(in, got, {});
  CHECK(got == want);
}

TEST_CASE("bf16: all 65536 patterns survive a round trip; signalling NaNs become quiet") {
  Halves all(65536), back(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  kernels::from_bf16(all, wide, {});
  kernels::to_bf16(wide, back, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const bool nan = (i & 0x7F80U) == 0x7F80U && (i & 0x7FU) != 0;
    REQUIRE(bits(wide[i]) == i << 16U);
    REQUIRE(back[i] == (nan ? (i | 0x40U) : i));
  }
}

TEST_CASE("bf16: every size, and nothing past the end") {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const auto in = normal_values(n, 9);
    Halves got(n + 1, 0xABCD), want;
    for (const float x : in) want.push_back(nearest(x));
    want.push_back(0xABCD);
    kernels::to_bf16(in, std::span(got).first(n), {});
    CHECK(got == want);
    std::vector<float> wide(n + 1, 99.0F);
    kernels::from_bf16(std::span(got).first(n), std::span(wide).first(n), {});
    bool equal = wide[n] == 99.0F;
    for (std::size_t i = 0; i < n; ++i) equal = equal && bits(wide[i]) == std::uint32_t{want[i]} << 16U;
    CHECK(equal);
  }
}

TEST_CASE("bf16: unequal lengths are refused with the numbers") {
  std::vector<float> wide(3);
  Halves narrow(2);
  CHECK_THROWS_WITH_AS(kernels::to_bf16(wide, narrow, {}), doctest::Contains("in 3, out 2"), Bug);
  CHECK_THROWS_WITH_AS(kernels::from_bf16(narrow, wide, {}), doctest::Contains("in 2, out 3"), Bug);
}

TEST_CASE("bf16: cpu and cuda agree bit for bit, NaNs too" * doctest::skip(no_gpu())) {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    std::mt19937 random(6);
    std::vector<float> in(n);
    for (float& x : in) x = from_bits(static_cast<std::uint32_t>(random()));
    Halves want(n), got(n);
    kernels::to_bf16(in, want, {});
    GpuFloats device(in);
    Buffer halves((n + 1) / 2, gpu());
    const std::span half_values(reinterpret_cast<std::uint16_t*>(halves.values().data()), n);
    kernels::to_bf16(device.values(), half_values, gpu());
    copy_bytes(std::as_bytes(half_values), gpu(), std::as_writable_bytes(std::span(got)), {});
    CHECK(got == want);
    std::vector<float> wide(n);
    kernels::from_bf16(want, wide, {});
    kernels::from_bf16(half_values, device.values(), gpu());
    CHECK(bits(device.to_host()) == bits(wide));
  }
}

}  // namespace
}  // namespace atl
