// Twins of the codecs' kernels, and wrong lengths.  What they compute: tests/comm/codec_test.cpp, codec_bounds_test.cpp.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "base/error.h"
#include "kernels/block_codes.h"
#include "kernels/codebook.h"
#include "kernels/topk.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

using Bytes = std::vector<std::byte>;

// Blocks of normal values, of any bits (NaNs among them), and of equal values, by turns.
std::vector<float> odd_values(std::size_t n) {
  std::vector<float> x = normal_values(n, 4, 1e-3F);
  std::mt19937 random(5);
  for (std::size_t i = 0; i < n; ++i) {
    if (i / 256 % 3 == 1) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (i / 256 % 3 == 2) x[i] = i % 2 == 0 ? 0.25F : -0.25F;
  }
  return x;
}

// encode(values, bytes, place) and decode(bytes, values, place) at both places.
template <class Encode, class Decode>
void check_twins(std::size_t n, std::size_t bytes, Encode encode, Decode decode) {
  const auto x = odd_values(n);
  Bytes want(bytes), got(bytes);
  std::vector<float> back(n);
  encode(std::span<const float>(x), std::span(want), Place{});
  decode(std::span<const std::byte>(want), std::span(back), Place{});
  GpuFloats device(x), device_back(back);
  Buffer room((bytes + 3) / 4, gpu());
  const auto device_bytes = std::as_writable_bytes(room.values()).first(bytes);
  encode(std::span<const float>(device.values()), device_bytes, gpu());
  decode(std::span<const std::byte>(device_bytes), device_back.values(), gpu());
  copy_bytes(device_bytes, gpu(), got, {});
  CHECK(got == want);
  CHECK(bits(device_back.to_host()) == bits(back));
}

TEST_CASE("codes: cpu and cuda agree bit for bit, NaNs too" * doctest::skip(no_gpu())) {
  using kernels::BlockCode;
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    for (const BlockCode code : {BlockCode::fp16, BlockCode::int8, BlockCode::int4, BlockCode::e3m0})
      check_twins(
          n, kernels::block_code_bytes(code, n, 256),
          [&](auto from, auto to, Place place) { kernels::encode_blocks(code, from, 256, to, place); },
          [&](auto from, auto to, Place place) { kernels::decode_blocks(code, from, 256, to, place); });
    for (const unsigned bits_a_value : {2U, 4U, 8U})
      for (const std::size_t block : {256U, 65536U})
        check_twins(
            n, kernels::codebook_bytes(bits_a_value, n, block),
            [&](auto from, auto to, Place place) { kernels::encode_codebook(bits_a_value, from, block, to, place); },
            [&](auto from, auto to, Place place) { kernels::decode_codebook(bits_a_value, from, block, to, place); });
    for (const kernels::TopkShape shape : {kernels::TopkShape{256, 7}, {4096, 64}, {16, 16}})
      check_twins(
          n, kernels::topk_bytes(shape, n),
          [&](auto from, auto to, Place place) { kernels::encode_topk(shape, from, to, place); },
          [&](auto from, auto to, Place place) { kernels::decode_topk(shape, from, to, place); });
  }
}

TEST_CASE("codes: wrong lengths and shapes are refused with the numbers") {
  std::vector<float> x(3);
  Bytes bytes(6);
  CHECK_THROWS_WITH_AS(kernels::encode_blocks(kernels::BlockCode::int8, x, 16, bytes, {}),
                       doctest::Contains("out 6 bytes, 7 needed"), Bug);
  CHECK_THROWS_WITH_AS(kernels::decode_blocks(kernels::BlockCode::e3m0, bytes, 16, x, {}),
                       doctest::Contains("in 6 bytes, 3 needed"), Bug);
  CHECK_THROWS_WITH_AS(kernels::encode_codebook(2, x, 16, bytes, {}), doctest::Contains("out 6 bytes, 9 needed"), Bug);
  CHECK_THROWS_WITH_AS(kernels::encode_codebook(3, x, 16, bytes, {}), doctest::Contains("3 bits a value"), Bug);
  CHECK_THROWS_WITH_AS(kernels::encode_topk({.block = 16, .keep = 17}, x, bytes, {}),
                       doctest::Contains("17 of each 16"), Bug);
}

}  // namespace
}  // namespace atl
