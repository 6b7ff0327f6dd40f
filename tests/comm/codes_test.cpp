// The codecs with blocks: examples by hand, bounds, inputs at the edges, damaged bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "comm/codec.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

using namespace atl;

namespace {

using Bytes = std::vector<unsigned>;
using Values = std::vector<float>;
constexpr float kMost = std::numeric_limits<float>::max(), kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kDenormal = std::numeric_limits<float>::denorm_min();

std::vector<std::byte> encoded(const Codec& codec, const Values& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  codec.encode(values, {}, bytes);
  return bytes;
}
Values decoded(const Codec& codec, const std::vector<std::byte>& bytes, std::size_t n) {
  Values out(n, 99.0F);
  codec.decode(bytes, out);
  return out;
}
Values round_trip(const Codec& codec, const Values& values) {
  return decoded(codec, encoded(codec, values), values.size());
}
Bytes bytes_of(const CodecConfig& config, const Values& values) {
  Bytes out;
  for (const std::byte b : encoded(*make_codec(config), values)) out.push_back(std::to_integer<unsigned>(b));
  return out;
}
std::vector<std::string> with_blocks() {
  std::vector<std::string> names = codec_names();
  std::erase_if(names, [](const std::string& name) { return name == "fp32" || name == "bf16"; });
  return names;
}
bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("codes: the examples of docs/wire_format.md") {
  CHECK(bytes_of({"fp16"}, {1, -2, 0.5F}) == Bytes{0x80, 0x00, 0x70, 0x00, 0xf4, 0x00, 0x6c});
  CHECK(bytes_of({"int8"}, {127, -1.5F, 2.5F, 0}) == Bytes{0, 0, 0x80, 0x3f, 0x7f, 0xfe, 0x02, 0x00});
  CHECK(bytes_of({"int4"}, {7, -3.5F, 0.5F, 1.5F, 1}) == Bytes{0x80, 0x3f, 0x4f, 0xa8, 0x09});
  CHECK(bytes_of({"e3m0"}, {1, -0.5F, 0.75F, 0.0001F, 0, 6}) == Bytes{0x82, 0xb4, 0x04, 0x70});
  CHECK(bytes_of({"stat2"}, {-1, 1, 1, -1}) == Bytes{0, 0, 0x80, 0xbf, 0x80, 0x3f, 0, 0, 0x69});
  Bytes stat4(34, 0);
  stat4[12] = 0x80, stat4[13] = 0xbf, stat4[18] = 0x80, stat4[19] = 0x3f, stat4[32] = 0x96, stat4[33] = 0x69;
  CHECK(bytes_of({"stat4"}, {-1, 1, 1, -1}) == stat4);
  Bytes book(516, 0);
  book[212] = 0x80, book[213] = 0xbf, book[298] = 0x80, book[299] = 0x3f;
  book[512] = 106, book[513] = 149, book[514] = 149, book[515] = 106;
  CHECK(bytes_of({"int8_codebook"}, {-1, 1, 1, -1}) == book);
  Values sparse(16, 0.0F);
  sparse[1] = sparse[5] = 3;
  sparse[4] = sparse[15] = -3;
  CHECK(bytes_of({"topk", 16, 4}, sparse) ==
        Bytes{0, 0, 0x40, 0xc0, 0x40, 0x40, 0, 0, 0x01, 0x40, 0x00, 0x05, 0xf0, 0x00, 0x66});
  CHECK(round_trip(*make_codec(CodecConfig{"topk", 16, 4}), sparse) == sparse);
}

TEST_CASE("codes: sizes are pure and additive at blocks, and as documented") {
  for (const std::string& name : codec_names()) {
    CAPTURE(name);
    const auto codec = make_codec(name);
    const std::size_t block = codec->block();
    CHECK(codec->encoded_bytes(0) == 0);
    for (const std::size_t a : {block, 3 * block})
      for (const std::size_t b : {std::size_t{1}, block - 1 + (block == 1), 2 * block + 1})
        CHECK(codec->encoded_bytes(a + b) == codec->encoded_bytes(a) + codec->encoded_bytes(b));
  }
  const auto bits = [](const char* name) {  // a value, of whole blocks
    const auto codec = make_codec(name);
    return 8.0 * static_cast<double>(codec->encoded_bytes(codec->block())) / static_cast<double>(codec->block());
  };
  CHECK(bits("fp16") == 16 + 8 / 1024.0);
  CHECK(bits("int8") == 8 + 32 / 256.0);
  CHECK(bits("int8_codebook") == 8 + 4096 / 65536.0);
  CHECK(bits("e3m0") == 4 + 8 / 256.0);
  CHECK(bits("int4") == 4 + 16 / 256.0);
  CHECK(bits("stat4") == 4 + 256 / 4096.0);
  CHECK(bits("stat2") == 2 + 64 / 4096.0);
  CHECK(make_codec("topk")->encoded_bytes(4096) == 120);  // 960 bits
  CHECK(make_codec("topk")->sparse());
}

TEST_CASE("codes: each value is within the bound of docs/wire_format.md, at every scale") {
  for (const float scale : {1e-30F, 1e-5F, 1.0F, 1e30F})
    for (const std::size_t n : {1U, 2U, 3U, 255U, 256U, 257U, 5000U}) {
      const Values x = normal_values(n, static_cast<std::uint32_t>(n), scale);
      CAPTURE(scale);
      CAPTURE(n);
      const auto check = [&](const char* name, auto bound) {
        const auto codec = make_codec(name);
        const Values q = round_trip(*codec, x);
        for (std::size_t from = 0; from < n; from += codec->block()) {
          const std::size_t to = std::min(n, from + codec->block());
          double most = 0;
          for (std::size_t i = from; i < to; ++i) most = std::max(most, std::abs(double{x[i]}));
          for (std::size_t i = from; i < to; ++i) {
            const double error = std::abs(double{x[i]} - double{q[i]}), allowed = bound(std::abs(double{x[i]}), most);
            if (error > allowed) FAIL_CHECK(name << ": " << x[i] << " became " << q[i] << ", allowed " << allowed);
          }
        }
      };
      const double ulp = 1 + 1e-6;  // of the divisions and products in fp32
      check("fp16", [&](double a, double most) { return std::max(a * 0x1p-11, most * 0x1p-39) * ulp; });
      check("int8", [&](double, double most) { return most / 254 * ulp; });
      check("int4", [&](double, double most) { return most / 14 * (1 + 0x1p-8) + most * 0x1p-8 * ulp; });
      check("e3m0", [&](double a, double most) { return std::max(a / 3, most / 96) * ulp; });
    }
}

TEST_CASE("codes: e3m0 takes the nearest power of two, ties up, and nothing below half of its lowest") {
  const auto codec = make_codec("e3m0");
  Values x{64, 1.5F, 1.499F, 0.75F, 0.51F, 0.5F, 0.499F, -0.6F, 95.9F, 0};
  CHECK(round_trip(*codec, x) == Values{64, 2, 1, 1, 1, 1, 0, -1, 64, 0});
  x[8] = 96;  // 1.5 * 64: the largest is 128 now, the lowest 2, half of it 1
  CHECK(round_trip(*codec, x) == Values{64, 2, 2, 0, 0, 0, 0, 0, 128, 0});
}

TEST_CASE("codes: codebooks hold the mean of each bucket's values, as a loop in double finds it") {
  for (const auto& [name, buckets] : {std::pair{"int8_codebook", 256}, {"stat4", 16}, {"stat2", 4}}) {
    CAPTURE(name);
    const auto codec = make_codec(name);
    Values x = normal_values(4096, 3, 1e-3F);
    x[7] = 0.02F;  // 20 sigma
    double mean = 0, squares = 0;
    for (const float v : x) mean += double{v} / 4096;
    for (const float v : x) squares += (v - mean) * (v - mean) / 4096;
    const double sigma = std::sqrt(squares), low = mean - 6 * sigma, width = 12 * sigma / buckets;
    std::vector<double> sums(static_cast<std::size_t>(buckets)), counts(static_cast<std::size_t>(buckets));
    std::vector<std::size_t> bucket;
    for (const float v : x) {
      const auto k = static_cast<std::size_t>(std::clamp(std::floor((v - low) / width), 0.0, buckets - 1.0));
      bucket.push_back(k);
      sums[k] += v;
      counts[k] += 1;
    }
    const Values q = round_trip(*codec, x);
    std::size_t elsewhere = 0;  // at the edge of a bucket fp32 may choose the other one
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = sums[bucket[i]] / counts[bucket[i]];
      elsewhere += std::abs(q[i] - want) > width / 256 + std::abs(want) * 0x1p-8 + 1e-3 * width ? 1 : 0;
    }
    CHECK(elsewhere < 8);
    double error = 0, spread = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      error += (x[i] - q[i]) * (x[i] - q[i]);
      spread += (x[i] - mean) * (x[i] - mean);
    }
    CHECK(error <= spread * (1 + 0x1p-6));  // a mean for each bucket is never worse than one for all
    CHECK(std::abs(q[7] - 0.02F) < 0.02F * 0.9F);
  }
}

TEST_CASE("codes: topk keeps the largest, as sorting finds them; ties go to the lower index") {
  std::mt19937 random(7);
  for (const auto& [block, keep] :
       {std::pair<std::size_t, std::size_t>{4096, 64}, {4096, 1}, {64, 64}, {256, 255}, {16, 3}})
    for (const std::size_t n : {1U, 15U, 16U, 17U, 4095U, 4096U, 9000U})
      for (const bool coarse : {false, true}) {
        CAPTURE(block);
        CAPTURE(keep);
        CAPTURE(n);
        Values x = normal_values(n, static_cast<std::uint32_t>(random()));
        if (coarse)
          for (float& v : x) v = std::round(v);  // many ties and zeros
        for (float& v : x)
          if (v == 0) v = 0.25F;  // so that what is kept can be seen
        const auto codec = make_codec(CodecConfig{"topk", block, keep});
        const auto bytes = encoded(*codec, x);
        const Values q = decoded(*codec, bytes, n);
        std::size_t at = 0;
        for (std::size_t from = 0; from < n; from += block) {
          const std::size_t count = std::min(block, n - from), k = (count * keep + block - 1) / block;
          std::vector<std::size_t> order(count);
          std::iota(order.begin(), order.end(), std::size_t{0});
          std::stable_sort(order.begin(), order.end(),
                           [&](std::size_t a, std::size_t b) { return std::abs(x[from + a]) > std::abs(x[from + b]); });
          const std::set<std::size_t> want(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
          std::set<std::size_t> got;
          for (std::size_t i = 0; i < k; ++i) {
            const auto byte = [&](std::size_t b) { return std::to_integer<unsigned>(bytes[at + 8 + i / 2 * 3 + b]); };
            got.insert(i % 2 == 0 ? (byte(0) | byte(1) << 8U) & 0xFFFU : (byte(1) | byte(2) << 8U) >> 4U);
          }
          CHECK(got == want);
          at += codec->encoded_bytes(count);
          for (std::size_t i = 0; i < count; ++i)
            if (!want.contains(i)) CHECK(q[from + i] == 0);
        }
      }
}

TEST_CASE("codes: empty, one, zero, constant, denormal, huge and non-finite inputs have defined results") {
  for (const std::string& name : with_blocks()) {
    CAPTURE(name);
    const auto codec = make_codec(name);
    CHECK(round_trip(*codec, {}).empty());
    for (const std::size_t n : {1U, 15U, 257U, 5000U}) {
      const Values zeros(n, 0.0F), minus(n, -0.0F);
      CHECK(same_bits(round_trip(*codec, zeros), zeros));
      for (const float v : round_trip(*codec, minus)) CHECK(v == 0);
      for (const float v : round_trip(*codec, Values(n, kDenormal))) CHECK(std::abs(v) <= 0x1p-126F);
      for (const float v : round_trip(*codec, Values(n, 0.3F)))
        CHECK((std::abs(v - 0.3F) <= 0.3F / 3 || (codec->sparse() && v == 0)));
      for (const float sign : {1.0F, -1.0F})
        for (const float v : round_trip(*codec, Values(n, sign * kMost))) {
          CHECK(std::isfinite(v));
          if (!codec->sparse()) CHECK(sign * v >= kMost / 3);
        }
    }
    if (!codec->sparse()) CHECK(std::abs(round_trip(*codec, {1.5F})[0] - 1.5F) <= 0.5F);
    // as if an infinity were the largest float and a NaN 0
    CHECK(encoded(*codec, {kInf, 1, kNan, -kInf, -kNan}) == encoded(*codec, {kMost, 1, 0, -kMost, 0}));
    for (const float v : round_trip(*codec, {kInf, 1, kNan, -kInf})) CHECK(std::isfinite(v));
  }
}

TEST_CASE("codes: encode says what decode will give; parts at blocks are the whole; nothing need be aligned") {
  for (const std::string& name : codec_names()) {
    CAPTURE(name);
    const auto codec = make_codec(name);
    const std::size_t n = 2 * codec->block() + 20'003;
    const Values x = normal_values(n, 12, 1e-2F);
    std::vector<std::byte> bytes(codec->encoded_bytes(n) + 1);
    const auto odd = std::span(bytes).subspan(1);
    Values said(n), got(n);
    codec->encode(x, {}, odd, said);
    codec->decode(odd, got);
    CHECK(same_bits(said, got));
    CHECK(same_bits(said, round_trip(*codec, x)));
    const std::size_t cut = codec->block() * std::max<std::size_t>(1, 777 / codec->block());
    Values parts(n);
    codec->decode(odd.first(codec->encoded_bytes(cut)), std::span(parts).first(cut));
    codec->decode(odd.subspan(codec->encoded_bytes(cut)), std::span(parts).subspan(cut));
    CHECK(same_bits(parts, got));
    std::vector<std::byte> rest(codec->encoded_bytes(n - cut));
    codec->encode(std::span(x).subspan(cut), {}, rest);
    CHECK(std::equal(rest.begin(), rest.end(), odd.begin() + static_cast<std::ptrdiff_t>(codec->encoded_bytes(cut))));
  }
}

TEST_CASE("codes: damaged bytes are refused, or give floats; wrong sizes are refused") {
  std::mt19937_64 random(3);
  for (const std::string& name : with_blocks()) {
    CAPTURE(name);
    const auto codec =
        make_codec(CodecConfig{name, name == "topk" ? std::size_t{64} : 0, name == "topk" ? std::size_t{5} : 0});
    int refused = 0;
    for (int trial = 0; trial < 2000; ++trial) {
      const std::size_t n = random() % 300;
      std::vector<std::byte> bytes = encoded(*codec, normal_values(n, static_cast<std::uint32_t>(trial)));
      const std::size_t flips = trial % 2 == 0 ? 1 : bytes.size();
      for (std::size_t i = 0; i < flips && !bytes.empty(); ++i)
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
      Values out(n);
      try {
        codec->decode(bytes, out);
        for (const float v : out) CHECK(std::isfinite(v));
      } catch (const LinkError& e) {
        ++refused;
        CHECK(std::string(e.what()).find("in " + name + " is damaged: no encoder writes such bytes") !=
              std::string::npos);
      }
    }
    CHECK(refused > 0);
    Values out(10);
    CHECK_THROWS_AS(codec->decode(std::vector<std::byte>(codec->encoded_bytes(10) + 1), out), LinkError);
    CHECK_THROWS_AS(codec->decode(std::vector<std::byte>(codec->encoded_bytes(10) - 1), out), LinkError);
    std::vector<std::byte> room(3);
    CHECK_THROWS_AS(codec->encode(out, {}, room), Bug);
  }
}

TEST_CASE("codes: block sizes and numbers to keep that cannot be are refused with the limits") {
  const auto said = [](const CodecConfig& config) -> std::string {
    try {
      make_codec(config);
      return "";
    } catch (const ConfigError& e) {
      return e.what();
    }
  };
  CHECK(said({"e3m0", 100}) ==
        "codec \"e3m0\" with blocks of 100 values: it must be a power of two from 16 to 1048576");
  CHECK(said({"int8", 8}).find("from 16 to") != std::string::npos);
  CHECK(said({"topk", 8192}).find("from 16 to 4096") != std::string::npos);
  CHECK(said({"topk", 16, 17}) == "codec \"topk\" keeps 17 values of a block of 16: it must be at most all of them");
  CHECK(said({"int8", 0, 4}) == "codec \"int8\" keeps every value: leave keep out");
  CHECK(said({"bf16", 64}) == "codec \"bf16\" has no blocks: leave the block size out");
  CHECK(said({"int8", 1024}) == "");
}

TEST_CASE("codes: cpu and cuda write the same bytes and read the same bits" * doctest::skip(no_gpu())) {
  for (const std::string& name : with_blocks())
    for (const std::size_t n : {1U, 300U, 70'000U}) {
      CAPTURE(name);
      const auto codec = make_codec(name);
      const Values x = normal_values(n, 5, 1e-3F);
      GpuFloats on_gpu(x);
      GpuFloats said(Values(n, 0.0F));
      std::vector<std::byte> bytes(codec->encoded_bytes(n));
      codec->encode(on_gpu.values(), gpu(), bytes, said.values());
      CHECK(bytes == encoded(*codec, x));
      CHECK(same_bits(said.to_host(), round_trip(*codec, x)));
    }
}
