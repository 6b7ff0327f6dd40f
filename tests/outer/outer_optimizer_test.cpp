#include "outer/outer_optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "outer/delta.h"
#include "support/close.h"

namespace atl {
namespace {

const std::vector<Span> kWhole{{0, 1}};

TEST_CASE("outer optimizer: two rounds on one parameter give the numbers worked by hand") {
  // lr = 0.5, momentum = 0.5, deltas 0.25 and 0.5: every number is a short binary fraction.
  const auto run = [](OuterKind kind) {
    OuterOptimizer outer({.kind = kind, .lr = 0.5F, .momentum = 0.5F}, kWhole, {});
    std::vector<float> theta{1.0F}, values;
    for (const float delta : {0.25F, 0.5F}) {
      outer.step(0, theta, std::vector<float>{delta});
      values.push_back(theta[0]);
    }
    return values;
  };
  CHECK(run(OuterKind::sgd) == std::vector<float>{0.875F, 0.625F});
  // b = 0.25, theta = 1 - 0.5 (0.25 + 0.125); b = 0.625, theta -= 0.5 (0.5 + 0.3125)
  CHECK(run(OuterKind::nesterov) == std::vector<float>{0.8125F, 0.40625F});
  // b = 0.25, theta = 1 - 0.125; b = 0.625, theta -= 0.3125
  CHECK(run(OuterKind::heavy_ball) == std::vector<float>{0.875F, 0.5625F});
}

TEST_CASE("outer optimizer: the gains of the first step and of a steady delta are those of docs/algorithms.md") {
  struct Row {
    float lr, momentum;
    double first, steady;
  };
  for (const Row& row : {Row{0.7F, 0.9F, 1.33, 7}, Row{0.4F, 0.9F, 0.76, 4}, Row{0.7F, 0.6F, 1.12, 1.75}}) {
    OuterOptimizer outer({.lr = row.lr, .momentum = row.momentum}, kWhole, {});
    std::vector<float> theta{0.0F};
    outer.step(0, theta, std::vector<float>{1.0F});
    CHECK(close(-theta[0], row.first, {.relative = 1e-6}));
    float last = 0;
    for (int round = 0; round < 300; ++round) {
      theta[0] = 0;
      outer.step(0, theta, std::vector<float>{1.0F});
      last = theta[0];
    }
    CHECK(close(-last, row.steady, {.relative = 1e-5}));  // 1 / (1 - mu) magnifies the rounding of mu
  }
}

TEST_CASE("outer optimizer: fragments have momentum of their own, and together follow the recurrence in double") {
  const std::vector<Span> fragments{{0, 5}, {5, 0}, {5, 17}, {22, 1}};
  constexpr std::size_t n = 23;
  constexpr int steps = 60;
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball}) {
    CAPTURE(name_of(kind));
    OuterOptimizer outer({.kind = kind, .lr = 0.7F, .momentum = 0.9F}, fragments, {});
    CHECK(outer.momentum().size() == (kind == OuterKind::sgd ? 0 : n));
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0.0F, 1e-3F);  // the size of real deltas
    std::vector<float> theta(n, 0.0F);
    std::vector<double> want(n, 0.0), b(n, 0.0);
    double largest = 0;
    for (int step = 0; step < steps; ++step) {
      const int p = step % 7 % 4;  // not equally often
      const Span s = fragments[static_cast<std::size_t>(p)];
      std::vector<float> mean(s.count);
      for (float& d : mean) d = normal(random);
      outer.step(p, slice(std::span(theta), s), mean);
      for (std::size_t i = 0; i < s.count; ++i) {
        const std::size_t at = s.offset + i;
        const double lr = double{0.7F}, mu = double{0.9F}, d = mean[i];
        b[at] = mu * b[at] + d;
        if (kind == OuterKind::sgd) want[at] -= lr * d;
        if (kind == OuterKind::nesterov) want[at] -= lr * (d + mu * b[at]);
        if (kind == OuterKind::heavy_ball) want[at] -= lr * b[at];
        largest = std::max(largest, std::abs(want[at]));
      }
    }
    // A step rounds theta by half an ulp, and the momentum's own error adds at most as much again: 4 is twice that.
    for (std::size_t i = 0; i < n; ++i)
      CHECK(close(theta[i], want[i], {.absolute = 4 * steps * std::ldexp(largest, -24)}));
    for (std::size_t i = 0; i < outer.momentum().size(); ++i)
      CHECK(close(outer.momentum()[i], b[i], {.absolute = 4 * steps * std::ldexp(largest, -24)}));
  }
}

TEST_CASE("outer optimizer: momentum is state that can be put back") {
  OuterOptimizer first({}, {{0, 3}}, {}), second({}, {{0, 3}}, {});
  std::vector<float> theta{1, 2, 3};
  first.step(0, theta, std::vector<float>{0.1F, 0.2F, 0.3F});
  std::copy(first.momentum().begin(), first.momentum().end(), second.momentum().begin());
  std::vector<float> resumed = theta;
  first.step(0, theta, std::vector<float>{0.3F, 0.2F, 0.1F});
  second.step(0, resumed, std::vector<float>{0.3F, 0.2F, 0.1F});
  CHECK(bits(theta) == bits(resumed));
}

TEST_CASE("outer optimizer: names, both ways") {
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball})
    CHECK(outer_kind(name_of(kind)) == kind);
  CHECK(name_of(OuterKind::heavy_ball) == "heavy_ball");
  CHECK_THROWS_WITH_AS(outer_kind("adamw"),
                       "\"adamw\" is no outer optimizer: those that exist are sgd, nesterov, heavy_ball, adam",
                       ConfigError);
}

TEST_CASE("outer optimizer: adam follows torch.optim.Adam's recurrence in double, with bias correction") {
  constexpr std::size_t n = 7;
  OuterOptimizer outer({.kind = OuterKind::adam, .lr = 0.1F, .momentum = 0.9F, .beta2 = 0.95F, .eps = 1e-3F}, {{0, n}},
                       {});
  CHECK(outer.second_moment().size() == n);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> theta(n, 0.0F);
  std::vector<double> want(n), m(n), v(n);
  for (std::uint64_t t = 1; t <= 40; ++t) {
    std::vector<float> mean(n);
    for (float& d : mean) d = normal(random);
    outer.step(0, theta, mean, {.lr = 0.1F, .momentum = 0.9F, .step = t});
    const double b1 = double{0.9F}, b2 = double{0.95F}, c1 = 1 - std::pow(b1, static_cast<double>(t)),
                 c2 = 1 - std::pow(b2, static_cast<double>(t));
    for (std::size_t i = 0; i < n; ++i) {
      const double d = mean[i];
      m[i] = b1 * m[i] + (1 - b1) * d;
      v[i] = b2 * v[i] + (1 - b2) * d * d;
      want[i] -= double{0.1F} / c1 * m[i] / (std::sqrt(v[i]) / std::sqrt(c2) + double{1e-3F});
    }
  }
  for (std::size_t i = 0; i < n; ++i) CHECK(close(theta[i], want[i], {.absolute = 1e-5, .relative = 1e-5}));
  std::vector<float> one(n);
  CHECK_THROWS_WITH_AS(outer.step(0, theta, one), doctest::Contains("number of its step"), Bug);
}

TEST_CASE("outer optimizer: a step that is the first clears the state, whatever it held") {
  for (const OuterKind kind : {OuterKind::nesterov, OuterKind::heavy_ball, OuterKind::adam}) {
    CAPTURE(name_of(kind));
    const std::vector<Span> two{{0, 1}, {1, 1}};
    OuterOptimizer used({.kind = kind}, two, {}), fresh({.kind = kind}, two, {});
    std::vector<float> theta{1.0F}, other{1.0F};
    used.step(0, theta, std::vector<float>{3.0F}, {.lr = 0.5F, .momentum = 0.9F, .step = 1});
    used.step(1, theta, std::vector<float>{3.0F}, {.lr = 0.5F, .momentum = 0.9F, .step = 1});
    theta[0] = 1;
    used.step(0, theta, std::vector<float>{0.25F}, {.lr = 0.5F, .momentum = 0.9F, .step = 1});
    fresh.step(0, other, std::vector<float>{0.25F}, {.lr = 0.5F, .momentum = 0.9F, .step = 1});
    CHECK(theta == other);
    CHECK(used.momentum()[0] == fresh.momentum()[0]);
    CHECK(used.momentum()[1] != 0);  // the other fragment's is left
  }
}

TEST_CASE("outer optimizer: looking ahead gives what step() will give, and changes nothing") {
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball, OuterKind::adam}) {
    CAPTURE(name_of(kind));
    OuterOptimizer outer({.kind = kind}, {{0, 2}, {2, 3}}, {});
    std::vector<float> theta{1, 2, 3};
    for (std::uint64_t t = 1; t < 4; ++t) {
      const OuterRates rates{.lr = 0.3F, .momentum = 0.8F, .step = t};
      const std::vector<float> mean{0.5F, -0.25F, static_cast<float>(t)}, before = theta;
      const std::vector<float> momentum(outer.momentum().begin(), outer.momentum().end());
      std::vector<float> ahead(3);
      outer.look_ahead(1, theta, mean, rates, ahead);
      CHECK(theta == before);
      CHECK(std::vector<float>(outer.momentum().begin(), outer.momentum().end()) == momentum);
      outer.step(1, theta, mean, rates);
      CHECK(bits(ahead) == bits(theta));
    }
  }
}

TEST_CASE("outer optimizer: wrong use is a bug with the numbers") {
  OuterOptimizer outer({}, {{0, 3}, {3, 2}}, {});
  std::vector<float> three(3), two(2);
  CHECK_THROWS_WITH_AS(outer.step(0, three, two), doctest::Contains("3 parameters and 2 deltas, 3 expected"), Bug);
  CHECK_THROWS_WITH_AS(outer.step(1, three, three), doctest::Contains("3 parameters and 3 deltas, 2 expected"), Bug);
  CHECK_THROWS_WITH_AS(outer.step(2, two, two), doctest::Contains("fragment 2 of 2"), Bug);
  CHECK_THROWS_AS(outer.step(-1, two, two), Bug);
  CHECK_THROWS_WITH_AS(OuterOptimizer({}, {{0, 3}, {4, 2}}, {}),
                       doctest::Contains("starts at 4, the one before ends at 3"), Bug);
  CHECK_THROWS_AS(OuterOptimizer({}, {{3, 2}, {0, 3}}, {}), Bug);
  CHECK_THROWS_AS(OuterOptimizer({.lr = 0.0F}, kWhole, {}), Bug);
  CHECK_THROWS_AS(OuterOptimizer({.momentum = 1.0F}, kWhole, {}), Bug);
  CHECK_THROWS_AS(OuterOptimizer({.momentum = -0.1F}, kWhole, {}), Bug);
  OuterOptimizer none({}, {}, {});  // DDP: no outer step
  CHECK(none.momentum().empty());
}

TEST_CASE("delta: old minus new, so that it has the sign of a gradient") {
  std::vector<float> out(2);
  delta(std::vector<float>{1.0F, 2.0F}, std::vector<float>{0.75F, 2.5F}, out, {});
  CHECK(out == std::vector<float>{0.25F, -0.5F});
  std::vector<float> short_one(1);
  CHECK_THROWS_AS(delta(out, out, short_one, {}), Bug);
}

TEST_CASE("mix: alpha of local, the rest of global") {
  const std::vector<float> global{8.0F, 0.1F};
  std::vector<float> local{4.0F, std::nanf("")};
  mix(std::span(local).first(1), std::span(global).first(1), 0.25F, {});
  CHECK(local[0] == 7.0F);
  std::vector<float> kept = local;
  mix(kept, global, 1.0F, {});
  CHECK(bits(kept) == bits(local));
  mix(local, global, 0.0F, {});  // also over a NaN
  CHECK(bits(local) == bits(global));
}

}  // namespace
}  // namespace atl
