#include "comm/average.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "support/close.h"
#include "support/values.h"

using namespace atl;

namespace {

std::vector<std::byte> encoded(const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()));
  codec.encode(values, {}, bytes);
  return bytes;
}

std::vector<float> mean_of(const Codec& codec, const std::vector<std::vector<std::byte>>& payloads,
                           const std::vector<std::uint64_t>& weights, std::size_t n) {
  const std::vector<std::span<const std::byte>> spans(payloads.begin(), payloads.end());
  std::vector<float> mean(n, NAN);
  average(spans, weights, codec, mean);
  return mean;
}

}  // namespace

TEST_CASE("average: worked by hand, with weights") {
  const auto fp32 = make_codec("fp32");
  const auto mean = mean_of(*fp32, {encoded(*fp32, {1, 2}), encoded(*fp32, {3, -6})}, {1, 3}, 2);
  CHECK(mean == std::vector<float>{2.5F, -4.0F});  // (1 + 9) / 4, (2 - 18) / 4
}

TEST_CASE("average: follows the sum in long double, rounded once, for all codecs and odd sizes") {
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    for (const std::size_t n : {0U, 1U, 7U, 8191U, 8192U, 8193U, 20'001U, 70'001U}) {
      for (int sites = 1; sites <= 5; ++sites) {
        std::vector<std::vector<std::byte>> payloads;
        std::vector<std::vector<float>> decoded;
        std::vector<std::uint64_t> weights;
        for (int r = 0; r < sites; ++r) {
          payloads.push_back(encoded(*codec, normal_values(n, static_cast<std::uint32_t>(10 * r + 1))));
          decoded.emplace_back(n);
          codec->decode(payloads.back(), decoded.back());
          weights.push_back(static_cast<std::uint64_t>(1000 + 37 * r));
        }
        const auto mean = mean_of(*codec, payloads, weights, n);
        const long double total = std::accumulate(weights.begin(), weights.end(), 0.0L);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          long double sum = 0;
          for (std::size_t r = 0; r < decoded.size(); ++r) sum += static_cast<long double>(weights[r]) * decoded[r][i];
          // fp64 sums err by 2^-53 a term; half a float's step comes from the one rounding
          if (std::abs(static_cast<long double>(mean[i]) - sum / total) >
              std::ldexp(std::abs(static_cast<double>(sum / total)), -24) + 1e-12)
            ++wrong;
        }
        CAPTURE(name);
        CAPTURE(n);
        CAPTURE(sites);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("average: M equal payloads give exactly one of them, for every M and any weights") {
  const auto fp32 = make_codec("fp32");
  const auto values = normal_values(1001, 5);
  for (int sites = 1; sites <= 9; ++sites) {
    const std::vector<std::vector<std::byte>> payloads(static_cast<std::size_t>(sites), encoded(*fp32, values));
    CAPTURE(sites);
    CHECK(mean_of(*fp32, payloads, std::vector<std::uint64_t>(payloads.size(), 7680), 1001) == values);
    std::vector<std::uint64_t> uneven;
    for (int r = 0; r < sites; ++r) uneven.push_back(std::uint64_t{1} << (4 * r));
    CHECK(mean_of(*fp32, payloads, uneven, 1001) == values);
  }
}

TEST_CASE("average: equal payloads give one of them with weights whose products are not exact, in all codecs") {
  std::mt19937_64 random(17);
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    auto values = normal_values(1001, 6, 1e-3F);
    values[0] = -0.0F;
    values[1] = std::numeric_limits<float>::denorm_min();
    values[2] = -std::numeric_limits<float>::max() / 4;
    const auto payload = encoded(*codec, values);
    std::vector<float> one(values.size());
    codec->decode(payload, one);
    for (std::size_t sites = 1; sites <= 24; ++sites) {
      std::vector<std::uint64_t> weights(sites);
      for (std::uint64_t& w : weights) w = 1 + random() % (std::uint64_t{1} << 45U);  // 45 + 24 bits do not fit into 53
      const auto mean = mean_of(*codec, std::vector(sites, payload), weights, values.size());
      CAPTURE(name);
      CAPTURE(sites);
      CHECK(std::memcmp(mean.data(), one.data(), one.size() * sizeof(float)) == 0);  // -0 stays -0
    }
  }
}

TEST_CASE("average: piece by piece gives the bits of the whole") {
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    constexpr std::size_t n = 20'001;
    const auto a = encoded(*codec, normal_values(n, 1)), b = encoded(*codec, normal_values(n, 2)),
               c = encoded(*codec, normal_values(n, 3));
    const std::vector<std::uint64_t> weights{5, 7, 11};
    const auto whole = mean_of(*codec, {a, b, c}, weights, n);
    for (const std::size_t rough : {1'000U, 8'192U, 16'383U}) {
      const std::size_t piece = std::max<std::size_t>(1, rough / codec->block()) * codec->block();
      std::vector<float> mean(n);
      for (std::size_t at = 0; at < n; at += piece) {
        const std::size_t count = std::min(piece, n - at);
        std::vector<std::span<const std::byte>> parts;
        for (const auto* payload : {&a, &b, &c})
          parts.push_back(std::span(*payload).subspan(codec->encoded_bytes(at), codec->encoded_bytes(count)));
        average(parts, weights, *codec, std::span(mean).subspan(at, count));
      }
      CAPTURE(name);
      CAPTURE(piece);
      CHECK(mean == whole);
    }
  }
}

TEST_CASE("average: what an exchange computes is the mean of each chunk, through the mean codec from three sites on") {
  for (const std::string& name : codec_names())
    for (const std::string& mean_name : codec_names())
      for (std::size_t sites = 1; sites <= 5; ++sites)
        for (const std::size_t n : {0U, 1U, 4U, 1'001U}) {
          const auto codec = make_codec(name), mean_codec = make_codec(mean_name);
          std::vector<std::vector<std::byte>> payloads;
          std::vector<std::uint64_t> weights;
          for (std::size_t r = 0; r < sites; ++r) {
            payloads.push_back(encoded(*codec, normal_values(n, static_cast<std::uint32_t>(r))));
            weights.push_back(100 + r);
          }
          std::vector<float> want = mean_of(*codec, payloads, weights, n), mean(n, NAN);
          if (sites >= 3 && !codec->sparse())                      // sparse payloads go to everybody
            mean_codec->decode(encoded(*mean_codec, want), want);  // chunks fall on blocks: they change nothing
          const std::vector<std::span<const std::byte>> spans(payloads.begin(), payloads.end());
          exchange_mean(spans, weights, *codec, *mean_codec, mean);
          CAPTURE(name);
          CAPTURE(mean_name);
          CAPTURE(sites);
          CAPTURE(n);
          CHECK(mean == want);
        }
}

TEST_CASE("average: payloads that are not aligned, decoded part by part, give the same bits") {
  for (const std::string& name : codec_names())
    for (const std::size_t n : {1U, 8191U, 8192U, 8193U, 20'001U}) {  // a part has 8192 values
      const auto codec = make_codec(name);
      const auto a = encoded(*codec, normal_values(n, 1)), b = encoded(*codec, normal_values(n, 2));
      std::vector<std::byte> shifted(a.size() + 1);
      std::memcpy(shifted.data() + 1, a.data(), a.size());
      std::vector<float> mean(n);
      const std::vector<std::span<const std::byte>> spans{std::span(shifted).subspan(1), b};
      const std::vector<std::uint64_t> weights{2, 3};
      average(spans, weights, *codec, mean);
      CAPTURE(name);
      CAPTURE(n);
      CHECK(mean == mean_of(*codec, {a, b}, weights, n));
    }
}

TEST_CASE("average: a payload of the wrong size is refused, with sizes and rank; no weight is 0") {
  const auto fp32 = make_codec("fp32");
  CHECK_THROWS_WITH_AS(mean_of(*fp32, {encoded(*fp32, {1, 2}), encoded(*fp32, {1})}, {1, 1}, 2),
                       doctest::Contains("rank 1: a payload of 2 values in fp32 has 4 bytes, expected 8"), LinkError);
  CHECK_THROWS_AS(mean_of(*fp32, {encoded(*fp32, {1})}, {0}, 1), Bug);
  CHECK_THROWS_AS(mean_of(*fp32, {}, {}, 1), Bug);
}

TEST_CASE("average: chunks cover everything, on blocks, also when there are fewer blocks than sites") {
  CHECK(chunk_plan(10, 3, 1) == std::vector<Chunk>{{0, 4}, {4, 3}, {7, 3}});
  CHECK(chunk_plan(10, 3, 4) == std::vector<Chunk>{{0, 4}, {4, 4}, {8, 2}});
  CHECK(chunk_plan(2, 4, 1) == std::vector<Chunk>{{0, 1}, {1, 1}, {2, 0}, {2, 0}});
  CHECK(chunk_plan(0, 2, 1) == std::vector<Chunk>{{0, 0}, {0, 0}});
  for (const std::size_t n : {1U, 2U, 3U, 255U, 256U, 257U, 100'003U})
    for (int sites = 1; sites <= 8; ++sites)
      for (const std::size_t block : {1U, 3U, 256U, 4096U}) {
        std::size_t at = 0;
        for (const Chunk& chunk : chunk_plan(n, sites, block)) {
          CHECK(chunk.offset == at);
          CHECK((chunk.offset % block == 0 || chunk.offset == n));
          at += chunk.count;
        }
        CHECK(at == n);
      }
}

TEST_CASE("average: with three sites a bf16 mean codec rounds the mean once more; with two it does not") {
  const auto fp32 = make_codec("fp32"), bf16 = make_codec("bf16");
  const float odd = 1.0F + std::ldexp(1.0F, -20);  // no bf16
  for (const std::size_t sites : {2U, 3U}) {
    const std::vector<std::vector<std::byte>> payloads(sites, encoded(*fp32, std::vector<float>(10, odd)));
    const std::vector<std::span<const std::byte>> spans(payloads.begin(), payloads.end());
    std::vector<float> mean(10);
    exchange_mean(spans, std::vector<std::uint64_t>(sites, 1), *fp32, *bf16, mean);
    CHECK(mean == std::vector<float>(10, sites == 2 ? odd : 1.0F));
  }
}

TEST_CASE("average: bytes that a site sends") {
  const auto fp32 = make_codec("fp32"), bf16 = make_codec("bf16");
  CHECK(sent_payload_bytes(10'000, 0, 1, *fp32, *fp32) == 0);
  CHECK(sent_payload_bytes(10'000, 0, 2, *fp32, *fp32) == 40'000);
  CHECK(sent_payload_bytes(10'000, 0, 4, *fp32, *fp32) ==
        40'000 - 10'000 + 3 * 10'000);  // 2 (M - 1) / M of the payload
  CHECK(sent_payload_bytes(10'000, 0, 4, *fp32, *bf16) == 40'000 - 10'000 + 3 * 5'000);
  CHECK(sent_payload_bytes(1'024, 0, 4, *fp32, *fp32) == 3 * 4'096);  // inline, to each
}
