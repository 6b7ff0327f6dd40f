#include "kernels/hash.h"

#include <doctest/doctest.h>

#include <bit>
#include <limits>
#include <set>
#include <vector>

#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

Hash128 hash(const std::vector<float>& values, std::uint64_t offset = 0) {
  return kernels::hash_values(values, offset, {});
}

TEST_CASE("hash of values: the low words of zeros are the published outputs of SplitMix64 with seed 0") {
  const std::uint64_t published[] = {0xE220A8397B1DCDAFU, 0x6E789E6AA1B965F4U, 0x06C45D188009454FU, 0xF88BB8A8724C81ECU,
                                     0x1B39896A51A8749BU};
  for (std::uint64_t position = 0; position < 5; ++position) CHECK(hash({0.0F}, position).low == published[position]);
}

TEST_CASE("hash of values: a long span at a far offset gives what a few lines of Python gave") {
  // M = 2**64 - 1
  // def mix(p, b):
  //     x = ((p+1)*0x9E3779B97F4A7C15 + b*0xD1342543DE82EF95) & M; x = ((x ^ x>>30)*0xBF58476D1CE4E5B9) & M
  //     l = ((x ^ x>>27)*0x94D049BB133111EB) & M; h = ((x ^ x>>32)*0xC2B2AE3D27D4EB4F) & M
  //     return h ^ h>>29, l ^ l>>31
  // sums mod 2**64 over i in range(1000) of mix(2**40 + i, bits of float(i - 500))
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(i - 500));
  CHECK(hash(values, std::uint64_t{1} << 40U).hex() == "2e1bbaa044c2b1fd67db35c721af2cd5");
}

TEST_CASE("hash of values: hashes of parts add up to the hash of the whole, for any cut") {
  const auto values = normal_values(5000, 41);
  const Hash128 whole = hash(values, 77);
  CHECK(hash({}) == Hash128{});
  for (const std::size_t cut : {0U, 1U, 7U, 16U, 1023U, 4096U, 4999U, 5000U}) {
    CAPTURE(cut);
    const std::span all(values);
    CHECK(kernels::combine(kernels::hash_values(all.first(cut), 77, {}),
                           kernels::hash_values(all.subspan(cut), 77 + cut, {})) == whole);
  }
  Hash128 one_by_one;
  for (std::size_t i = 0; i < values.size(); ++i) one_by_one = kernels::combine(one_by_one, hash({values[i]}, 77 + i));
  CHECK(one_by_one == whole);
}

TEST_CASE("hash of values: zeros of both signs, NaNs of different bits, and places are told apart") {
  const float nan = std::bit_cast<float>(0x7FC00000U), other_nan = std::bit_cast<float>(0x7FC00001U);
  CHECK(hash({0.0F}) != hash({-0.0F}));
  CHECK(hash({nan}) != hash({other_nan}));
  CHECK(hash({nan}) == hash({nan}));
  CHECK(hash({1.0F, 2.0F}) != hash({2.0F, 1.0F}));
  CHECK(hash({1.0F}, 0) != hash({1.0F}, 1));
  CHECK(hash({0.0F, 0.0F}) != hash({0.0F}));
}

TEST_CASE("hash of values: one flipped bit, anywhere, changes about half of the 128") {
  // A fair hash flips 64 of 128 in the mean, with a standard deviation of 5.7 each; over 3200 flips the mean is within
  // 0.1 of 64 at one sigma, and no single one of 3200 falls below 64 - 6 * 5.7 = 30.
  std::vector<float> values = normal_values(100, 43);
  const Hash128 before = hash(values);
  std::set<Hash128> seen{before};
  double flipped = 0;
  int fewest = 128;
  for (float& value : values) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      const float kept = value;
      value = std::bit_cast<float>(bits(kept) ^ 1U << bit);
      const Hash128 after = hash(values);
      value = kept;
      CHECK(seen.insert(after).second);
      const int count = std::popcount(before.high ^ after.high) + std::popcount(before.low ^ after.low);
      flipped += count;
      fewest = std::min(fewest, count);
    }
  }
  CHECK(close(flipped / 3200, 64, {.absolute = 0.5}));
  CHECK(fewest > 30);
}

TEST_CASE("hash of values: every size gives the sum of its values' hashes") {
  for (const std::size_t n : kSizes) {
    if (n > 10'000) continue;
    CAPTURE(n);
    const auto values = normal_values(n, 44);
    Hash128 want;
    for (std::size_t i = 0; i < n; ++i) want = kernels::combine(want, hash({values[i]}, 5 + i));
    CHECK(hash(values, 5) == want);
  }
}

TEST_CASE("hash of values: cpu and cuda agree" * doctest::skip(no_gpu())) {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const auto values = normal_values(n, 45);
    GpuFloats device(values);
    CHECK(kernels::hash_values(device.values(), 1U << 31U, gpu()) == hash(values, 1U << 31U));
  }
}

}  // namespace
}  // namespace atl
