// The bounds of docs/wire_format.md, in double; and what is odd: zeros, denormals, huge and non-finite values, any bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "comm/codec.h"
#include "fuzz/codec_property.h"
#include "support/close.h"
#include "support/values.h"

using namespace atl;

namespace {

constexpr float kMax = std::numeric_limits<float>::max();

// By way of encode()'s own `decoded`, which must be what decode() gives.
std::vector<float> through(const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  std::vector<float> decoded(values.size(), 9.0F), out(values.size(), 8.0F);
  codec.encode(values, {}, bytes, decoded);
  codec.decode(bytes, out);
  REQUIRE(bits(decoded) == bits(out));
  return out;
}

double largest_of(std::span<const float> x) {
  double most = 0;
  for (const float v : x) most = std::max(most, std::abs(double{v}));
  return most;
}

struct Spread {
  double mean = 0, sigma = 0;
};
Spread spread_of(std::span<const float> x) {
  Spread s;
  for (const float v : x) s.mean += v / static_cast<double>(x.size());
  for (const float v : x) s.sigma += (v - s.mean) * (v - s.mean) / static_cast<double>(x.size());
  s.sigma = std::sqrt(s.sigma);
  return s;
}

// Values of one block far from each other in size, around `scale`; one of them an outlier.
std::vector<float> mixed_values(std::size_t n, std::uint32_t seed, float scale) {
  std::vector<float> x = normal_values(n, seed);
  std::mt19937 random(seed);
  for (float& v : x) v = std::ldexp(v, -static_cast<int>(random() % 24)) * scale;
  if (n > 0) x[n / 2] = 3.0F * scale;
  return x;
}

const std::vector<float> kScales{1e-44F, 1e-38F, 1e-36F, 1e-20F, 1e-3F, 1.0F, 1e20F, 5e37F};

// allowed(x, A) for each value x of each block with the largest magnitude A.
template <class F>
void check_bound(const std::string& name, F allowed) {
  const auto codec = make_codec(name);
  for (const float scale : kScales)
    for (const std::size_t n : {1U, 2U, 3U, 255U, 256U, 257U, 3001U})
      for (const auto& x : {mixed_values(n, 5, scale), std::vector<float>(n, scale)}) {
        const auto got = through(*codec, x);
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < n; at += codec->block()) {
          const auto block = std::span(x).subspan(at, std::min(codec->block(), n - at));
          const double most = largest_of(block);
          for (std::size_t i = 0; i < block.size(); ++i)
            if (!(std::abs(double{got[at + i]} - block[i]) <= allowed(std::abs(double{block[i]}), most))) ++wrong;
        }
        CAPTURE(name);
        CAPTURE(scale);
        CAPTURE(n);
        CHECK(wrong == 0);
      }
}

}  // namespace

TEST_CASE("codec: fp16, int8, int4 and e3m0 keep their bounds") {
  check_bound("fp16",
              [](double x, double most) { return std::max(std::ldexp(x, -11), std::ldexp(most, -39)) + 0x1p-149; });
  check_bound("int8", [](double, double most) { return std::max(most / 254, 0x1p-127) * (1 + 0x1p-12); });
  check_bound("int4", [](double, double most) { return std::max(most / 14, 0x1p-127) * (1 + 0x1p-7); });
  check_bound("e3m0", [](double x, double most) {
    return std::max({x / (most < 0x1.8p127 ? 3 : 2), most / 96, 0x1p-126});
  });
}

TEST_CASE("codec: a value inside of the outermost buckets errs by a bucket, a block by sigma") {
  for (const auto& [name, count] : {std::pair{"int8_codebook", 256}, {"stat4", 16}, {"stat2", 4}})
    for (const float scale : kScales)
      for (const std::size_t n : {1U, 2U, 3U, 257U, 4096U}) {
        for (const auto& x : {mixed_values(n, 6, scale), normal_values(n, 7, scale)}) {
          const auto got = through(*make_codec(name), x);
          const Spread s = spread_of(x);
          const double width = 12 * s.sigma / count, most = largest_of(x), tiny = std::ldexp(most, -20) + 0x1p-133;
          double squares = 0;
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const double error = std::abs(double{got[i]} - x[i]);
            squares += error * error / static_cast<double>(n);
            if (std::abs(x[i] - s.mean) < 6 * s.sigma - width - 2 * tiny &&
                error > width + std::ldexp(std::abs(x[i]) + width, -8) + 2 * tiny)
              ++wrong;
          }
          CAPTURE(std::string(name));
          CAPTURE(scale);
          CAPTURE(n);
          CHECK(wrong == 0);
          CHECK(std::sqrt(squares) <= s.sigma + std::ldexp(most, -8) + tiny);
        }
      }
}

TEST_CASE("codec: int8_codebook, stat4 and stat2 give the mean of each bucket, worked in double") {
  for (const auto& [name, count] : {std::pair{"int8_codebook", 256}, {"stat4", 16}, {"stat2", 4}}) {
    const auto x = normal_values(4001, 8);
    const auto got = through(*make_codec(name), x);
    const Spread s = spread_of(x);
    std::vector<double> sum(256), number(256);
    const auto bucket = [&, c = count](float v) {
      const double at = std::floor((v - s.mean) / (12 * s.sigma / c) + c / 2);
      return static_cast<std::size_t>(std::clamp(at, 0.0, c - 1.0));
    };
    for (const float v : x) sum[bucket(v)] += v, number[bucket(v)] += 1;
    std::size_t apart = 0;  // a value on a boundary may fall to the other side
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!close(got[i], sum[bucket(x[i])] / number[bucket(x[i])], {.absolute = 1e-5, .relative = 0x1p-8})) ++apart;
    CAPTURE(std::string(name));
    CHECK(apart <= 8);
  }
}

TEST_CASE("codec: topk keeps the largest magnitudes, of equal ones the first, and nothing else") {
  const auto topk = make_codec("topk");
  CHECK(topk->sparse());
  for (const std::size_t n : {1U, 63U, 64U, 65U, 4095U, 4096U}) {
    auto x = normal_values(n, 10);
    for (float& v : x) v = std::round(v * 8) / 8 + (v < 0 ? -1.0F : 1.0F);  // many equal magnitudes
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
    order.resize((64 * n + 4095) / 4096);
    std::sort(order.begin(), order.end());
    const auto got = through(*topk, x);
    std::vector<std::size_t> found;
    std::vector<float> kept;
    for (std::size_t i = 0; i < n; ++i)
      if (got[i] != 0.0F) found.push_back(i);
    CAPTURE(n);
    REQUIRE(found == order);
    for (const std::size_t i : order) kept.push_back(x[i]);
    const Spread s = spread_of(kept);
    for (const std::size_t i : order)
      if (std::abs(x[i] - s.mean) < 2.9 * s.sigma)
        CHECK(std::abs(got[i] - x[i]) <= 3 * s.sigma + std::ldexp(std::abs(x[i]) + 3 * s.sigma, -8) + 1e-5);
  }
}

TEST_CASE("codec: zeros stay zeros, finite stays finite, and a block with anything else is NaN") {
  const float inf = std::numeric_limits<float>::infinity(), denormal = std::numeric_limits<float>::denorm_min();
  for (const std::string& name : codec_names()) {
    if (name == "fp32" || name == "bf16") continue;
    const auto codec = make_codec(name);
    CAPTURE(name);
    for (const std::size_t n : {std::size_t{1}, std::size_t{5}, codec->block()}) {
      CHECK(through(*codec, std::vector<float>(n, 0.0F)) == std::vector<float>(n, 0.0F));
      for (const float x : {kMax, -kMax, 0x1.FFp127F, 0x1.8p127F, denormal, -denormal, 1e-40F}) {
        std::vector<float> values(n, 0.0F);
        values[n - 1] = x;
        for (const auto& each : {values, std::vector<float>(n, x)})
          for (const float got : through(*codec, each)) CHECK(std::isfinite(got));
      }
      for (const float x : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
        std::vector<float> values(codec->block() + n, 1.0F);  // the first block is whole
        values.back() = x;
        const auto got = through(*codec, values);
        CHECK(std::isfinite(got.front()));
        if (codec->sparse())
          CHECK(bits(got[codec->block()]) == 0x7FC00000U);
        else
          for (std::size_t i = codec->block(); i < got.size(); ++i) CHECK(bits(got[i]) == 0x7FC00000U);
      }
    }
  }
}

TEST_CASE("codec: the largest floats stay finite in int8 and int4") {
  for (std::uint32_t b = 0x7F7FFFFFU; b > 0x7F7FFFFFU - 5000; --b) {
    const float x = std::bit_cast<float>(b);
    for (const char* name : {"int8", "int4", "stat2"}) REQUIRE(std::isfinite(through(*make_codec(name), {x})[0]));
  }
}

TEST_CASE("codec: sizes: e3m0 has 129 bytes for 256 values, topk 960 bits for 4096") {
  CHECK(make_codec("e3m0")->encoded_bytes(256) == 129);
  CHECK(make_codec("topk")->encoded_bytes(4096) == 120);
  CHECK(make_codec("fp16")->encoded_bytes(1025) == 2049 + 3);
  CHECK(make_codec("int8")->encoded_bytes(257) == 260 + 5);
  CHECK(make_codec("int4")->encoded_bytes(259) == 130 + 4);
  CHECK(make_codec("int8_codebook")->encoded_bytes(65537) == 66048 + 513);
  CHECK(make_codec("stat4")->encoded_bytes(8193) == 4128 + 33);
  CHECK(make_codec("stat2")->encoded_bytes(4101) == 1032 + 10);
}

TEST_CASE("codec: bytes that no encoder writes are refused by e3m0 and topk, and are floats in the others") {
  std::vector<float> out(16);
  CHECK_THROWS_WITH_AS(make_codec("e3m0")->decode(std::vector<std::byte>(9), out),
                       "block 0 of a payload in e3m0 has the scale 0, but it must be at least 8", LinkError);
  const auto topk = make_codec(CodecConfig{.name = "topk", .block = 16, .keep = 2});
  std::vector<std::byte> bytes(12);
  for (const unsigned pair : {0x001001U, 0x001002U, 0x010001U}) {  // twice the same, descending, 16 of 16
    for (unsigned k = 0; k < 3; ++k) bytes[8 + k] = std::byte(pair >> (8 * k));
    CHECK_THROWS_WITH_AS(topk->decode(bytes, out), doctest::Contains("places that do not ascend"), LinkError);
  }
  std::mt19937 random(3);
  for (const std::string& name : codec_names())
    for (int round = 0; round < 200; ++round) {
      std::vector<std::byte> any(600);
      for (std::byte& b : any) b = std::byte(random());
      const bool taken = payload_holds(*make_codec(name), any, random() % 500);
      if (name != "e3m0" && name != "topk") CHECK(taken);
    }
}

TEST_CASE("codec: settings that a codec cannot have are refused") {
  const auto refused = [](const CodecConfig& config, const char* why) {
    CHECK_THROWS_WITH_AS(make_codec(config), doctest::Contains(why), ConfigError);
  };
  refused({.name = "int8", .block = 100}, "blocks of 100 values, but a block must be a power of two in [16, 65536]");
  refused({.name = "e3m0", .block = 8}, "blocks of 8 values");
  refused({.name = "stat2", .block = 131072}, "blocks of 131072 values");
  refused({.name = "topk", .block = 8192}, "a power of two in [16, 4096]");
  refused({.name = "topk", .block = 64, .keep = 65}, "keeps 65 of each 64 values");
  refused({.name = "int8", .keep = 1}, "keeps every value");
  refused({.name = "stat4", .keep = 1}, "keeps every value");
  refused({.name = "fp32", .block = 16}, "has no blocks");
}
