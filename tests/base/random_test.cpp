#include "base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "support/close.h"

namespace atl {
namespace {

TEST_CASE("philox: the known-answer vectors that Random123 publishes (kat_vectors, philox4x32 10)") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}) == PhiloxCounter{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}) ==
        PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("random words: position, stream and seed fill counter and key, low half first") {
  CHECK(random_words(0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3243F6A88) ==
        PhiloxCounter{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("uniform numbers: ends of the ranges") {
  CHECK(uniform_float(0) == 0.0F);
  CHECK(uniform_float(0xFF) == 0.0F);  // only the top 24 bits count
  CHECK(uniform_float(1U << 31U) == 0.5F);
  CHECK(uniform_float(~0U) == 1.0F - 0x1p-24F);
  CHECK(uniform_double(0, 0) == 0.0);
  CHECK(uniform_double(1U << 30U, 0) == 0.25);
  CHECK(uniform_double(~0U, ~0U) == 1.0 - 0x1p-53);
  CHECK(uniform_open(0, 0) == 0x1p-53);
  CHECK(uniform_open(~0U, ~0U) == 1.0 - 0x1p-53);
  CHECK(uniform_open(3, 5) + uniform_open(~3U, ~5U) == 1.0);  // symmetric
}

TEST_CASE("normal quantile: Wichura's published check values, and symmetry") {
  CHECK(close(normal_quantile(0.25), -0.6744897501960817, {.relative = 1e-15}));
  CHECK(close(normal_quantile(0.001), -3.090232306167814, {.relative = 1e-15}));
  CHECK(close(normal_quantile(1e-20), -9.262340089798408, {.relative = 1e-15}));
  CHECK(normal_quantile(0.5) == 0.0);
  CHECK(normal_quantile(0.875) == -normal_quantile(0.125));
}

TEST_CASE("normal quantile: inverts the distribution that erfc gives, over all of it") {
  // d ln Phi(x) = (x + 1/x) dx about, for x < -1: an error of 4e-16 |x| in x is one of 4e-16 (x^2 + 1) in p,
  // relatively.
  for (double p = 1e-300; p < 0.5; p *= 1.17) {
    CAPTURE(p);
    const double x = normal_quantile(p);
    CHECK(close(0.5 * std::erfc(-x / std::sqrt(2.0)), p, {.relative = 2e-15 + 1e-15 * (x * x + 1)}));
  }
  for (int i = 1; i < 1000; ++i) {
    const double p = i / 1000.0;
    CHECK(close(0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0)), p, {.absolute = 1e-15}));
  }
  for (const double wrong : {0.0, 1.0, -0.5, std::nan("")}) CHECK_THROWS_AS(normal_quantile(wrong), Bug);
}

TEST_CASE("normal pair: moments of 2^17 numbers, and a Kolmogorov-Smirnov distance") {
  constexpr int pairs = 1 << 16;
  constexpr double n = 2.0 * pairs;
  std::vector<double> numbers;
  double sum = 0, squares = 0, fourths = 0, products = 0;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const auto [a, b] = normal_pair(2024, 1, i);
    products += a * b;
    for (const double x : {a, b}) {
      numbers.push_back(x);
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
  }
  // Four standard deviations: of x 1, of x^2 sqrt(2), of x^4 sqrt(96), of a b 1.
  CHECK(close(sum / n, 0, {.absolute = 4 / std::sqrt(n)}));
  CHECK(close(squares / n, 1, {.absolute = 4 * std::sqrt(2 / n)}));
  CHECK(close(fourths / n, 3, {.absolute = 4 * std::sqrt(96 / n)}));
  CHECK(close(products / pairs, 0, {.absolute = 4 / std::sqrt(double{pairs})}));
  std::ranges::sort(numbers);
  double distance = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    distance = std::max(distance,
                        std::abs(0.5 * std::erfc(-numbers[i] / std::sqrt(2.0)) - (static_cast<double>(i) + 0.5) / n));
  CHECK(distance < 1.95 / std::sqrt(n));  // passed by 999 of 1000 good generators
}

}  // namespace
}  // namespace atl
