#include "data/permutation.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/error.h"

namespace atl {
namespace {

std::vector<std::uint64_t> order(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation permutation(n, seed, epoch);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < n; ++i) all.push_back(permutation(i));
  return all;
}

TEST_CASE("permutation: every number once, for every small n and beside powers of two") {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t n = 1; n <= 130; ++n) sizes.push_back(n);
  for (std::uint64_t power = 256; power <= 65536; power *= 2)
    for (const std::uint64_t n : {power - 1, power, power + 1}) sizes.push_back(n);
  for (const std::uint64_t n : sizes) {
    const auto all = order(n, 7, 3);
    std::vector<bool> seen(n, false);
    for (const std::uint64_t x : all) {
      REQUIRE(x < n);
      REQUIRE_FALSE(seen[x]);
      seen[x] = true;
    }
  }
}

TEST_CASE("permutation: inside and without repeats where n is too large to list") {
  for (const std::uint64_t n : {(std::uint64_t{1} << 40U) + 1, (std::uint64_t{1} << 62U) + 1, ~std::uint64_t{0}}) {
    const Permutation permutation(n, 1, 0);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const std::uint64_t x = permutation(n - 1 - i);
      CHECK(x < n);
      CHECK(seen.insert(x).second);
    }
  }
}

TEST_CASE("permutation: the same for the same seed and epoch, another for another") {
  const auto first = order(1000, 42, 0);
  CHECK(order(1000, 42, 0) == first);
  CHECK(order(1000, 42, 1) != first);
  CHECK(order(1000, 43, 0) != first);
  CHECK(order(1000, 42 + (std::uint64_t{1} << 32U), 0) != first);  // all of the seed counts
  CHECK(order(1000, 42, std::uint64_t{1} << 32U) != first);        // and of the epoch
  CHECK(order(1000, 0, 42) != order(1000, 42, 0));
}

TEST_CASE("permutation: of three and of four, every order comes about equally often") {
  for (const std::uint64_t n : {3U, 4U}) {
    std::map<std::vector<std::uint64_t>, int> times;
    constexpr int draws = 12'000;
    for (int seed = 0; seed < draws; ++seed) ++times[order(n, static_cast<std::uint64_t>(seed), 0)];
    const std::size_t orders = n == 3 ? 6 : 24;
    REQUIRE(times.size() == orders);
    const double expected = draws / static_cast<double>(orders);
    double chi_square = 0;
    for (const auto& [which, count] : times) chi_square += (count - expected) * (count - expected) / expected;
    CAPTURE(chi_square);
    CHECK(chi_square < (n == 3 ? 20.5 : 49.7));  // exceeded by chance once in 1000, with 5 and 23 degrees of freedom
  }
}

TEST_CASE("permutation: neighbours are sent far apart, as far as chance would") {
  // The mean distance of two uniform numbers below n is n / 3; its deviation n / sqrt(18).
  const std::uint64_t n = 10'007;
  const auto all = order(n, 5, 0);
  double sum = 0, fixed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i > 0) sum += std::abs(static_cast<double>(all[i]) - static_cast<double>(all[i - 1]));
    if (all[i] == i) ++fixed;
  }
  const double bound = 5 * n / std::sqrt(18.0) / std::sqrt(static_cast<double>(n));  // five deviations of the mean
  CHECK(std::abs(sum / static_cast<double>(n - 1) - n / 3.0) < bound);
  CHECK(fixed < 9);  // Poisson with mean 1: above 8 once in a million
}

TEST_CASE("permutation: a position past the end, or of nothing, is a bug") {
  CHECK_THROWS_AS(Permutation(5, 0, 0)(5), Bug);
  CHECK_THROWS_AS(Permutation(0, 0, 0), Bug);
}

TEST_CASE("permutation: these numbers stay, since resuming a run depends on them") {
  // From make_permutation_fixtures.py, which is written apart from this program.
  using Order = std::vector<std::uint64_t>;
  CHECK(order(10, 1, 0) == Order{6, 7, 3, 8, 2, 0, 5, 9, 1, 4});
  CHECK(order(17, (std::uint64_t{1} << 63U) + 5, (std::uint64_t{1} << 32U) + 3) ==
        Order{0, 15, 10, 1, 4, 6, 14, 12, 11, 16, 9, 5, 2, 13, 7, 8, 3});
  const auto first_two_and_last = [](std::uint64_t n) {
    const Permutation permutation(n, 7, 2);
    return Order{permutation(0), permutation(1), permutation(n - 1)};
  };
  CHECK(first_two_and_last((std::uint64_t{1} << 40U) + 1) == Order{1088285760695U, 696844673735U, 115342771113U});
  CHECK(first_two_and_last(~std::uint64_t{0}) ==
        Order{9650646723511086406U, 12051294377499688368U, 140389974750525803U});
}

}  // namespace
}  // namespace atl
