// delta, sgd, nesterov, heavy_ball, mix: numbers worked by hand, and every operation worked in double and rounded to
// fp32, which is the exact fp32 result (Figueroa: 53 >= 2 * 24 + 2 bits).  So bits are compared: a fused multiply-add
// in one of the compiled versions would show.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/adam.h"
#include "kernels/add.h"
#include "kernels/delta.h"
#include "kernels/heavy_ball.h"
#include "kernels/mix.h"
#include "kernels/nesterov.h"
#include "kernels/sgd.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

constexpr float kLr = 0.7F, kMu = 0.9F;

float minus(float a, float b) { return static_cast<float>(double{a} - double{b}); }
float plus(float a, float b) { return static_cast<float>(double{a} + double{b}); }
float times(float a, float b) { return static_cast<float>(double{a} * double{b}); }

using Values = std::vector<float>;

TEST_CASE("delta: global minus local, the sign of a gradient") {
  Values out(3);
  kernels::delta(Values{1.0F, 0.5F, -2.0F}, Values{0.25F, 1.5F, -2.0F}, out, {});
  CHECK(out == Values{0.75F, -1.0F, 0.0F});
}

TEST_CASE("delta: every size gives the rounded difference, bit for bit") {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const Values global = normal_values(n, 1), local = normal_values(n, 2);
    Values out(n, 99.0F), want(n);
    for (std::size_t i = 0; i < n; ++i) want[i] = minus(global[i], local[i]);
    kernels::delta(global, local, out, {});
    CHECK(bits(out) == bits(want));
  }
}

TEST_CASE("delta: out may be one of the inputs") {
  Values global{3.0F, 4.0F}, local{1.0F, 1.5F};
  kernels::delta(global, local, local, {});
  CHECK(local == Values{2.0F, 2.5F});
  kernels::delta(global, local, global, {});
  CHECK(global == Values{1.0F, 1.5F});
}

TEST_CASE("sgd: theta minus lr d, by hand and at every size") {
  Values theta{1.0F, -1.0F};
  kernels::sgd(theta, Values{0.5F, 0.25F}, 0.5F, {});
  CHECK(theta == Values{0.75F, -1.125F});
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    Values got = normal_values(n, 3), want = got;
    const Values d = normal_values(n, 4, 1e-2F);
    for (std::size_t i = 0; i < n; ++i) want[i] = minus(want[i], times(kLr, d[i]));
    kernels::sgd(got, d, kLr, {});
    CHECK(bits(got) == bits(want));
  }
}

TEST_CASE("nesterov: two steps on one parameter give the numbers worked by hand") {
  Values theta{1.0F}, v{0.0F};
  kernels::nesterov(theta, v, Values{0.25F}, 0.5F, 0.5F, {});  // v = 0.25; theta = 1 - 0.5 * (0.25 + 0.5 * 0.25)
  CHECK(theta[0] == 0.8125F);
  kernels::nesterov(theta, v, Values{0.5F}, 0.5F, 0.5F, {});  // v = 0.625; theta -= 0.5 * (0.5 + 0.5 * 0.625)
  CHECK(v[0] == 0.625F);
  CHECK(theta[0] == 0.40625F);
}

TEST_CASE("heavy ball: two steps on one parameter give the numbers worked by hand") {
  Values theta{1.0F}, v{0.0F};
  kernels::heavy_ball(theta, v, Values{0.25F}, 0.5F, 0.5F, {});  // v = 0.25; theta = 1 - 0.125
  CHECK(theta[0] == 0.875F);
  kernels::heavy_ball(theta, v, Values{0.5F}, 0.5F, 0.5F, {});  // v = 0.625; theta -= 0.3125
  CHECK(v[0] == 0.625F);
  CHECK(theta[0] == 0.5625F);
}

TEST_CASE("nesterov, heavy ball: three steps at every size, each operation rounded once") {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    Values nesterov = normal_values(n, 5), heavy = nesterov, nesterov_v(n), heavy_v(n);
    Values want_nesterov = nesterov, want_heavy = heavy, v(n);
    for (std::uint32_t step = 0; step < 3; ++step) {
      const Values d = normal_values(n, 6 + step, 1e-2F);
      for (std::size_t i = 0; i < n; ++i) {
        v[i] = plus(times(kMu, v[i]), d[i]);
        want_nesterov[i] = minus(want_nesterov[i], times(kLr, plus(d[i], times(kMu, v[i]))));
        want_heavy[i] = minus(want_heavy[i], times(kLr, v[i]));
      }
      kernels::nesterov(nesterov, nesterov_v, d, kLr, kMu, {});
      kernels::heavy_ball(heavy, heavy_v, d, kLr, kMu, {});
    }
    CHECK(bits(nesterov) == bits(want_nesterov));
    CHECK(bits(heavy) == bits(want_heavy));
    CHECK(bits(nesterov_v) == bits(v));
    CHECK(bits(heavy_v) == bits(v));
  }
}

TEST_CASE("mix: by hand and at every size") {
  Values local{1.0F, 2.0F};
  kernels::mix(local, Values{3.0F, -2.0F}, 0.25F, {});  // 0.25 * 1 + 0.75 * 3; 0.25 * 2 - 0.75 * 2
  CHECK(local == Values{2.5F, -1.0F});
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    Values got = normal_values(n, 10), want = got;
    const Values global = normal_values(n, 11);
    for (std::size_t i = 0; i < n; ++i) want[i] = plus(times(0.3F, want[i]), times(minus(1.0F, 0.3F), global[i]));
    kernels::mix(got, global, 0.3F, {});
    CHECK(bits(got) == bits(want));
  }
}

TEST_CASE("mix: alpha 0 copies and alpha 1 leaves, bit for bit, whatever the other one holds") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Values odd{inf, -inf, nan, -0.0F, 0.0F, 1e-45F, std::numeric_limits<float>::max(), 1.0F};
  const Values other{nan, inf, 1.0F, 0.0F, -inf, nan, inf, -0.0F};
  Values local = other;
  kernels::mix(local, odd, 0.0F, {});
  CHECK(bits(local) == bits(odd));
  local = odd;
  kernels::mix(local, other, 1.0F, {});
  CHECK(bits(local) == bits(odd));
}

TEST_CASE("add_scaled: by hand and at every size; set_zero clears whatever there was") {
  Values y{1.0F, 2.0F};
  kernels::add_scaled(y, Values{3.0F, -2.0F}, 0.5F, {});
  CHECK(y == Values{2.5F, 1.0F});
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    Values got = normal_values(n, 20), want = got;
    const Values x = normal_values(n, 21);
    for (std::size_t i = 0; i < n; ++i) want[i] = plus(want[i], times(0.3F, x[i]));
    kernels::add_scaled(got, x, 0.3F, {});
    CHECK(bits(got) == bits(want));
    if (n > 0) got[0] = std::numeric_limits<float>::quiet_NaN();
    kernels::set_zero(got, {});
    CHECK(bits(got) == bits(Values(n, 0.0F)));
  }
}

TEST_CASE("adam: two steps give the numbers worked by hand") {
  // torch.optim.Adam's formula: one parameter at 1, lr 0.1, betas (0.9, 0.99), eps 0.01, gradients 0.5 and -0.25.
  Values theta{1.0F}, m{0.0F}, v{0.0F};
  const auto step = [](int t) {
    return kernels::AdamStep{.beta1 = 0.9F,
                             .beta2 = 0.99F,
                             .lr = static_cast<float>(0.1 / (1 - std::pow(0.9, t))),
                             .root = static_cast<float>(std::sqrt(1 - std::pow(0.99, t))),
                             .eps = 0.01F};
  };
  kernels::adam(theta, m, v, Values{0.5F}, step(1), {});  // m / c1 = 0.5, sqrt(v / c2) = 0.5: 1 - 0.1 * 0.5 / 0.51
  CHECK(close(theta[0], 0.9019607843, {.relative = 1e-6}));
  // m = 0.045 - 0.025 = 0.02, / 0.19 = 0.1052632; v = 0.002475 + 0.000625 = 0.0031, / 0.0199 = 0.1557789, root 0.3946883
  kernels::adam(theta, m, v, Values{-0.25F}, step(2), {});
  CHECK(close(theta[0], 0.9019607843 - 0.1 * 0.1052631579 / 0.4046883, {.relative = 1e-6}));
  CHECK(close(m[0], 0.02, {.relative = 1e-5}));
  CHECK(close(v[0], 0.0031, {.relative = 1e-5}));
}

TEST_CASE("elementwise kernels: unequal lengths and an alpha out of range are refused with the numbers") {
  Values two(2), three(3), other(2);
  CHECK_THROWS_WITH_AS(kernels::delta(two, three, other, {}), doctest::Contains("global 2, local 3, out 2"), Bug);
  CHECK_THROWS_WITH_AS(kernels::delta(two, other, three, {}), doctest::Contains("global 2, local 2, out 3"), Bug);
  CHECK_THROWS_WITH_AS(kernels::sgd(two, three, 1, {}), doctest::Contains("theta 2, d 3"), Bug);
  CHECK_THROWS_WITH_AS(kernels::nesterov(two, three, other, 1, 0, {}), doctest::Contains("theta 2, v 3, d 2"), Bug);
  CHECK_THROWS_WITH_AS(kernels::nesterov(two, other, three, 1, 0, {}), doctest::Contains("theta 2, v 2, d 3"), Bug);
  CHECK_THROWS_WITH_AS(kernels::heavy_ball(three, two, other, 1, 0, {}), doctest::Contains("theta 3, v 2, d 2"), Bug);
  CHECK_THROWS_WITH_AS(kernels::add_scaled(two, three, 1, {}), doctest::Contains("y 2, x 3"), Bug);
  CHECK_THROWS_WITH_AS(kernels::adam(two, two, three, two, {}, {}), doctest::Contains("m 2, v 3, d 2"), Bug);
  CHECK_THROWS_WITH_AS(kernels::mix(two, three, 0.5F, {}), doctest::Contains("local 2, global 3"), Bug);
  for (const float alpha : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()})
    CHECK_THROWS_WITH_AS(kernels::mix(two, other, alpha, {}), doctest::Contains("alpha is "), Bug);
}

TEST_CASE("elementwise kernels: cpu and cuda agree bit for bit, at sizes around a block" * doctest::skip(no_gpu())) {
  for (const std::size_t n : kSizes) {
    CAPTURE(n);
    const Values a = normal_values(n, 20), b = normal_values(n, 21), d = normal_values(n, 22, 1e-2F);
    GpuFloats gpu_a(a), gpu_b(b), gpu_d(d), gpu_out(a);
    Values out = a;
    kernels::delta(a, b, out, {});
    kernels::delta(gpu_a.values(), gpu_b.values(), gpu_out.values(), gpu());
    CHECK(gpu_out.to_host() == out);

    Values theta = a, v = b;
    const auto both_equal = [&] { return gpu_a.to_host() == theta && gpu_b.to_host() == v; };
    kernels::sgd(theta, d, kLr, {});
    kernels::sgd(gpu_a.values(), gpu_d.values(), kLr, gpu());
    CHECK(both_equal());
    kernels::nesterov(theta, v, d, kLr, kMu, {});
    kernels::nesterov(gpu_a.values(), gpu_b.values(), gpu_d.values(), kLr, kMu, gpu());
    CHECK(both_equal());
    kernels::heavy_ball(theta, v, d, kLr, kMu, {});
    kernels::heavy_ball(gpu_a.values(), gpu_b.values(), gpu_d.values(), kLr, kMu, gpu());
    CHECK(both_equal());
    kernels::add_scaled(theta, d, 0.3F, {});
    kernels::add_scaled(gpu_a.values(), gpu_d.values(), 0.3F, gpu());
    CHECK(both_equal());
    Values second(n, 0.5F);
    GpuFloats gpu_second(second);
    const kernels::AdamStep adam{.lr = 0.3F, .root = 0.7F, .eps = 1e-3F};
    kernels::adam(theta, v, second, d, adam, {});
    kernels::adam(gpu_a.values(), gpu_b.values(), gpu_second.values(), gpu_d.values(), adam, gpu());
    CHECK(both_equal());
    CHECK(gpu_second.to_host() == second);
    kernels::set_zero(gpu_second.values(), gpu());
    CHECK(gpu_second.to_host() == Values(n, 0.0F));
    for (const float alpha : {0.3F, 1.0F, 0.0F}) {
      kernels::mix(theta, v, alpha, {});
      kernels::mix(gpu_a.values(), gpu_b.values(), alpha, gpu());
      CHECK(both_equal());
    }
  }
}

TEST_CASE("elementwise kernels: cuda is refused where there is none" * doctest::skip(cuda_available())) {
  Values x(1), y(1), z(1);
  CHECK_THROWS_AS(kernels::delta(x, y, z, gpu()), Bug);
  CHECK_THROWS_AS(kernels::sgd(x, y, 1, gpu()), Bug);
  CHECK_THROWS_AS(kernels::nesterov(x, y, z, 1, 0, gpu()), Bug);
  CHECK_THROWS_AS(kernels::heavy_ball(x, y, z, 1, 0, gpu()), Bug);
  CHECK_THROWS_AS(kernels::mix(x, y, 0.5F, gpu()), Bug);
  CHECK_THROWS_AS(kernels::add_scaled(x, y, 1, gpu()), Bug);
  CHECK_THROWS_AS(kernels::set_zero(x, gpu()), Bug);
  Values w(1);
  CHECK_THROWS_AS(kernels::adam(x, y, z, w, {}, gpu()), Bug);
}

}  // namespace
}  // namespace atl
