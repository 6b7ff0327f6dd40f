#include "comm/codec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

using namespace atl;

namespace {

std::vector<unsigned> bytes_of(const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  codec.encode(values, {}, bytes);
  std::vector<unsigned> out;
  for (const std::byte b : bytes) out.push_back(std::to_integer<unsigned>(b));
  return out;
}

std::vector<float> there_and_back(const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  codec.encode(values, {}, bytes);
  std::vector<float> out(values.size());
  codec.decode(bytes, out);
  return out;
}

}  // namespace

TEST_CASE("codec: the examples of docs/wire_format.md") {
  const std::vector<float> values{1.0F, -2.5F, 3.1415927F};
  CHECK(bytes_of(*make_codec("fp32"), values) ==
        std::vector<unsigned>{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 0xdb, 0x0f, 0x49, 0x40});
  CHECK(bytes_of(*make_codec("bf16"), values) == std::vector<unsigned>{0x80, 0x3f, 0x20, 0xc0, 0x49, 0x40});
  using B = std::vector<unsigned>;
  CHECK(bytes_of(*make_codec("fp16"), values) == B{0x80, 0x00, 0x70, 0x00, 0xf5, 0x48, 0x76});
  CHECK(bytes_of(*make_codec("e3m0"), values) == B{0x81, 0x75, 0x0e});
  CHECK(bytes_of(*make_codec("int8"), {0.9921875F, -0.5F, 0.01171875F}) == B{0, 0, 0, 0x3c, 0x7f, 0xc0, 0x02});
  CHECK(bytes_of(*make_codec("int4"), {3.5F, -1.0F, 0.75F}) == B{0x00, 0x3f, 0x27, 0x0e});
  B codebook(514);
  codebook[212] = codebook[298] = 0x80;
  codebook[213] = 0xbf;
  codebook[299] = 0x3f;
  codebook[512] = 0x95;
  codebook[513] = 0x6a;
  CHECK(bytes_of(*make_codec("int8_codebook"), {1.0F, -1.0F}) == codebook);
  B table(33);
  table[12] = table[18] = 0x80;
  table[13] = 0xbf;
  table[19] = 0x3f;
  table[32] = 0x69;
  CHECK(bytes_of(*make_codec("stat4"), {1.0F, -1.0F}) == table);
  CHECK(bytes_of(*make_codec("stat2"), {1.0F, 3.0F, -2.0F}) == B{0, 0, 0, 0xc0, 0, 0x40, 0, 0, 0x1a});
  const auto topk = make_codec(CodecConfig{.name = "topk", .block = 16, .keep = 4});
  CHECK(bytes_of(*topk, {0, 1, 0, -3, 0.5F, 3, 0, 2}) == B{0, 0, 0x40, 0xc0, 0x40, 0x40, 0, 0, 0x03, 0x50, 0, 0x09});
}

TEST_CASE("codec: fp32 returns every value bit for bit, the odd ones too") {
  std::vector<float> values = normal_values(1001, 3);
  for (const float odd : {0.0F, -0.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::denorm_min(),
                          std::numeric_limits<float>::max()})
    values.push_back(odd);
  CHECK(there_and_back(*make_codec("fp32"), values) == values);
}

TEST_CASE("codec: bf16 errs by at most half a step, 2^-8 of the value, and keeps what fits") {
  const auto bf16 = make_codec("bf16");
  const std::vector<float> values = normal_values(5001, 4), back = there_and_back(*bf16, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(std::abs(back[i] - values[i]) <= std::ldexp(std::abs(values[i]), -8));
  CHECK(there_and_back(*bf16, back) == back);
  CHECK(std::isnan(there_and_back(*bf16, {NAN})[0]));
  CHECK(std::isinf(there_and_back(*bf16, {std::numeric_limits<float>::infinity()})[0]));
}

TEST_CASE("codec: empty, one value, and sizes that add up over parts") {
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    CAPTURE(name);
    CHECK(codec->name() == name);
    CHECK(there_and_back(*codec, {}).empty());
    CHECK(close(there_and_back(*codec, {0.5F}).at(0), 0.5, {.relative = 0x1p-8}));
    for (const std::size_t n : kSizes)
      CHECK(codec->encoded_bytes(n + 3 * codec->block()) ==
            codec->encoded_bytes(n) + codec->encoded_bytes(3 * codec->block()));
  }
}

TEST_CASE("codec: wrong sizes and names are refused") {
  const auto fp32 = make_codec("fp32");
  std::vector<std::byte> bytes(7);
  std::vector<float> out(2);
  CHECK_THROWS_WITH_AS(fp32->decode(bytes, out), doctest::Contains("2 values in fp32 has 7 bytes, expected 8"),
                       LinkError);
  CHECK_THROWS_AS(fp32->encode(out, {}, bytes), Bug);
  CHECK_THROWS_WITH_AS(make_codec("int3"),
                       doctest::Contains("codec \"int3\" does not exist: it must be one of fp32, bf16"), ConfigError);
}

TEST_CASE("codec: bytes need no alignment, in or out") {
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    const auto values = normal_values(1025, 8);
    const std::size_t bytes = codec->encoded_bytes(values.size());
    std::vector<std::byte> plain(bytes), shifted(bytes + 1);
    const auto behind_one = std::span(shifted).subspan(1);
    codec->encode(values, {}, plain);
    codec->encode(values, {}, behind_one);
    CAPTURE(name);
    CHECK(std::memcmp(plain.data(), behind_one.data(), bytes) == 0);
    std::vector<float> a(values.size()), b(values.size());
    codec->decode(plain, a);
    codec->decode(behind_one, b);
    CHECK(a == b);
  }
}

TEST_CASE("codec: values on a GPU give the bytes of the same values on the host" * doctest::skip(no_gpu())) {
  for (const std::string& name : codec_names())
    for (const std::size_t n : kSizes) {
      const auto codec = make_codec(name);
      const auto values = normal_values(n, 9);
      GpuFloats on_gpu(values);
      std::vector<std::byte> want(codec->encoded_bytes(n)), got(want.size());
      std::vector<float> decoded(n);
      GpuFloats decoded_on_gpu(decoded);
      codec->encode(values, {}, want, decoded);
      codec->encode(on_gpu.values(), gpu(), got, decoded_on_gpu.values());
      CAPTURE(name);
      CAPTURE(n);
      CHECK(got == want);
      CHECK(bits(decoded_on_gpu.to_host()) == bits(decoded));
    }
}
