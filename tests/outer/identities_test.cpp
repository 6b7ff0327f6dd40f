// Methods that are special cases of others: docs/algorithms.md, 1, list 3.  The other side is always written out here.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "outer/lockstep.h"
#include "support/close.h"
#include "support/linear_inner.h"

namespace atl {
namespace {

constexpr float kRate = 0.05F;
constexpr double kHalfUlp = 0x1p-24;  // of a value near 1, as all of these are

LinearData data_of(std::size_t site) {
  std::mt19937 random(static_cast<unsigned>(1000 + site));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  LinearData data;
  for (int s = 0; s < 5; ++s) {
    data.x.push_back({uniform(random), uniform(random), uniform(random)});
    data.y.push_back(uniform(random));
  }
  return data;
}
LinearInner model(std::size_t site) { return LinearInner({0.5F, -0.25F, 0.75F}, 0.125F, data_of(site), kRate); }

// `same`: every site has the first one's data.
Lockstep sites(std::size_t count, const ScheduleConfig& when, const OuterConfig& how, float alpha = 0,
               bool same = false) {
  std::vector<std::unique_ptr<Inner>> models;
  for (std::size_t m = 0; m < count; ++m) models.push_back(std::make_unique<LinearInner>(model(same ? 0 : m)));
  std::vector<Span> fragments;
  for (int p = 0; p < when.fragments; ++p)
    fragments.push_back(
        {static_cast<std::size_t>(p * 4 / when.fragments), static_cast<std::size_t>(4 / when.fragments)});
  return Lockstep(std::move(models), fragments, when, how, alpha);
}

constexpr OuterConfig kPlain{.kind = OuterKind::sgd, .lr = 1.0F, .momentum = 0.0F};
constexpr OuterConfig kDiloco{.kind = OuterKind::nesterov, .lr = 0.7F, .momentum = 0.9F};

void check_near(std::span<const float> got, const std::vector<double>& want, double absolute) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(close(got[i], want[i], {.absolute = absolute}));
  }
}
std::vector<double> doubles(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST_CASE("identity: inner SGD, H = 1, (1, 0) is data parallel SGD") {
  constexpr int steps = 200;
  Lockstep run = sites(3, {.period = 1}, kPlain);
  std::vector<LinearInner> replicas{model(0), model(1), model(2)};
  std::vector<double> want = doubles(run.global);
  for (int t = 0; t < steps; ++t) {
    run.step();
    std::vector<double> mean(4, 0.0);
    for (LinearInner& r : replicas) {
      for (std::size_t i = 0; i < 4; ++i) r.local()[i] = static_cast<float>(want[i]);
      r.compute_gradients({}, nullptr);
      for (std::size_t i = 0; i < 4; ++i) mean[i] += double{r.gradients()[i]} / 3;
    }
    for (std::size_t i = 0; i < 4; ++i) want[i] -= double{kRate} * mean[i];
  }
  // A step rounds theta, the delta and Theta, half an ulp each at most, and gradient descent shrinks what came before.
  check_near(run.global, want, 3 * steps * kHalfUlp);
}

TEST_CASE("identity: (1, 0) is Local SGD: after a round every site has the mean of the parameters") {
  Lockstep run = sites(3, {.period = 4}, kPlain);
  std::vector<LinearInner> alone{model(0), model(1), model(2)};
  for (int round = 0; round < 10; ++round) {
    std::vector<double> mean(4, 0.0);
    for (std::size_t m = 0; m < 3; ++m) {
      std::copy(run.global.begin(), run.global.end(), alone[m].local().begin());
      for (int t = 0; t < 4; ++t) alone[m].step({});
      for (std::size_t i = 0; i < 4; ++i) mean[i] += double{alone[m].local()[i]} / 3;
    }
    for (int t = 0; t < 4; ++t) run.step();
    check_near(run.global, mean, 3 * kHalfUlp);  // each delta, their mean, Theta
    for (std::size_t m = 0; m < 3; ++m) CHECK(bits(run.local(m)) == bits(run.global));
  }
}

TEST_CASE("identity: one site with (a, 0) is Lookahead") {
  const float a = 0.5F;
  Lockstep run = sites(1, {.period = 5}, {.kind = OuterKind::sgd, .lr = a, .momentum = 0.0F});
  LinearInner fast = model(0);
  std::vector<double> slow = doubles(run.global);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < 4; ++i) fast.local()[i] = static_cast<float>(slow[i]);
    for (int t = 0; t < 5; ++t) {
      fast.step({});
      run.step();
    }
    for (std::size_t i = 0; i < 4; ++i) slow[i] += double{a} * (double{fast.local()[i]} - slow[i]);
  }
  check_near(run.global, slow, 10 * 4 * kHalfUlp);
}

TEST_CASE("identity: one site with Nesterov is SNOO, in the writing with eta inside the buffer too") {
  Lockstep run = sites(1, {.period = 5}, kDiloco);
  LinearInner fast = model(0);
  std::vector<double> theta = doubles(run.global), u(4, 0.0);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < 4; ++i) fast.local()[i] = static_cast<float>(theta[i]);
    for (int t = 0; t < 5; ++t) {
      fast.step({});
      run.step();
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const double eta = double{0.7F}, mu = double{0.9F}, delta = theta[i] - double{fast.local()[i]};
      u[i] = mu * u[i] + eta * delta;
      theta[i] -= mu * u[i] + eta * delta;
    }
  }
  // Each round rounds five inner steps, the delta, the buffer (gain up to 7) and Theta.
  check_near(run.global, theta, 10 * 7 * 8 * kHalfUlp);
}

TEST_CASE("identity: P = 1, no delay, no mix is DiLoCo's Algorithm 1 to the letter") {
  Lockstep run = sites(2, {.period = 3}, kDiloco);
  std::vector<LinearInner> replicas{model(0), model(1)};
  std::vector<float> outer = run.global, momentum(4, 0.0F);
  for (int round = 0; round < 8; ++round) {
    std::vector<double> sum(4, 0.0);
    for (LinearInner& r : replicas) {
      std::copy(outer.begin(), outer.end(), r.local().begin());
      for (int t = 0; t < 3; ++t) r.step({});
      for (std::size_t i = 0; i < 4; ++i) sum[i] += double{outer[i] - r.local()[i]};
    }
    for (std::size_t i = 0; i < 4; ++i) {
      const auto delta = static_cast<float>(sum[i] / 2);
      momentum[i] = 0.9F * momentum[i] + delta;
      outer[i] -= 0.7F * (delta + 0.9F * momentum[i]);
    }
    for (int t = 0; t < 3; ++t) run.step();
    CHECK(bits(run.global) == bits(outer));
    CHECK(bits(run.outer.momentum()) == bits(momentum));
  }
}

TEST_CASE("identity: M equal sites are one site, bit for bit") {
  const ScheduleConfig when{.period = 4, .fragments = 2, .delay = 1};
  Lockstep one = sites(1, when, kDiloco, 0.5F);
  for (int t = 0; t < 30; ++t) one.step();
  one.drain();
  for (const std::size_t count : {2U, 3U, 4U, 5U, 7U}) {
    Lockstep many = sites(count, when, kDiloco, 0.5F, /*same=*/true);
    for (int t = 0; t < 30; ++t) many.step();
    many.drain();
    CAPTURE(count);
    CHECK(bits(many.global) == bits(one.global));
    CHECK(bits(many.outer.momentum()) == bits(one.outer.momentum()));
    for (std::size_t m = 0; m < count; ++m) CHECK(bits(many.local(m)) == bits(one.local(0)));
  }
}

TEST_CASE("identity: with mix 1 the sites never see each other") {
  Lockstep run = sites(3, {.period = 4, .fragments = 4, .delay = 2}, kDiloco, 1.0F);
  std::vector<LinearInner> alone{model(0), model(1), model(2)};
  for (int t = 0; t < 25; ++t) {
    run.step();
    for (std::size_t m = 0; m < 3; ++m) {
      alone[m].step({});
      CHECK(bits(run.local(m)) == bits(alone[m].local()));
    }
  }
}

TEST_CASE("identity: without momentum the three optimizers are one") {
  Lockstep plain = sites(2, {.period = 3}, {.kind = OuterKind::sgd, .lr = 0.7F, .momentum = 0.0F});
  Lockstep nesterov = sites(2, {.period = 3}, {.kind = OuterKind::nesterov, .lr = 0.7F, .momentum = 0.0F});
  Lockstep heavy_ball = sites(2, {.period = 3}, {.kind = OuterKind::heavy_ball, .lr = 0.7F, .momentum = 0.0F});
  for (int t = 0; t < 30; ++t)
    for (Lockstep* run : {&plain, &nesterov, &heavy_ball}) run->step();
  CHECK(nesterov.global == plain.global);
  CHECK(heavy_ball.global == plain.global);
}

}  // namespace
}  // namespace atl
