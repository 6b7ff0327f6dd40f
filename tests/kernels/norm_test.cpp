#include "kernels/norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

// The order that norm.h fixes, without vectors: every compiled version must give these bits.
double in_the_said_order(const std::vector<float>& x) {
  double sum = 0;
  for (std::size_t begin = 0; begin < x.size(); begin += 4096) {
    std::vector<double> lane(32);
    for (std::size_t i = begin; i < std::min(begin + 4096, x.size()); ++i)
      lane[(i - begin) % 32] += double{x[i]} * double{x[i]};
    for (const std::size_t half : {16U, 8U, 4U, 2U, 1U})
      for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
    sum += lane[0];
  }
  return sum;
}

TEST_CASE("sum of squares: numbers worked by hand") {
  CHECK(kernels::sum_of_squares({}, {}) == 0);
  CHECK(kernels::sum_of_squares(std::vector<float>{3.0F, -4.0F}, {}) == 25);
  CHECK(kernels::sum_of_squares(std::vector<float>{1e30F}, {}) == double{1e30F} * double{1e30F});  // far past fp32
  std::vector<float> one_to_n(20'000);
  std::iota(one_to_n.begin(), one_to_n.end(), 1.0F);
  const double n = 20'000;
  CHECK(kernels::sum_of_squares(one_to_n, {}) == n * (n + 1) * (2 * n + 1) / 6);  // exact: below 2^53
}

TEST_CASE("sum of squares: every size follows the said order, bit for bit") {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const auto x = normal_values(n, 31);
    CHECK(bits(kernels::sum_of_squares(x, {})) == bits(in_the_said_order(x)));
  }
}

TEST_CASE("sum of squares: the error stays within the bound for values of very different sizes") {
  // Squares are exact in double.  A value goes through at most 128 additions in its lane, 5 across lanes and one a
  // block, each with a relative error of 2^-53; all terms are positive.  The long double reference errs by n * 2^-64 at
  // most.
  std::mt19937 random(17);
  std::uniform_real_distribution<float> exponent(-20.0F, 20.0F);
  for (const std::size_t n : {1U, 4096U, 100'003U, 1'000'000U}) {
    std::vector<float> x(n);
    long double want = 0;
    for (float& value : x) {
      value = std::exp2(exponent(random));
      want += static_cast<long double>(value) * value;
    }
    const double blocks = std::ceil(static_cast<double>(n) / 4096);
    const double bound = (128 + 5 + blocks) * 0x1p-53 + static_cast<double>(n) * 0x1p-64;
    CHECK(close(kernels::sum_of_squares(x, {}), static_cast<double>(want), {.relative = bound}));
  }
}

TEST_CASE("sum of squares: an infinity or a NaN anywhere shows") {
  for (const std::size_t at : {0U, 31U, 32U, 4095U, 4096U, 4999U}) {
    CAPTURE(at);
    std::vector<float> x(5000, 1.0F);
    x[at] = -std::numeric_limits<float>::infinity();
    CHECK(std::isinf(kernels::sum_of_squares(x, {})));
    x[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(kernels::sum_of_squares(x, {})));
  }
}

TEST_CASE("sum of squares: cpu and cuda agree bit for bit" * doctest::skip(no_gpu())) {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const auto x = normal_values(n, 32);
    GpuFloats device(x);
    CHECK(bits(kernels::sum_of_squares(device.values(), gpu())) == bits(kernels::sum_of_squares(x, {})));
  }
}

}  // namespace
}  // namespace atl
