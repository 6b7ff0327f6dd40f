// The methods of docs/algorithms.md, 3, through Site: numbers worked by hand with constant gradients, and double loops.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/fleet.h"
#include "support/faulty_exchange.h"
#include "support/linear_inner.h"
#include "support/stub_inner.h"

using namespace atl;

namespace {

// One parameter; site m falls by gradients[m] at every step.
std::vector<std::unique_ptr<Inner>> falling(float start, const std::vector<float>& gradients) {
  std::vector<std::unique_ptr<Inner>> sites;
  for (const float g : gradients)
    sites.push_back(std::make_unique<StubInner>(std::vector<float>{start}, std::vector<float>{g}, 1.0F));
  return sites;
}

const OuterConfig kMean{.kind = OuterKind::sgd, .lr = 1, .momentum = 0};

std::vector<float> globals(Fleet& fleet) {
  std::vector<float> all;
  for (auto& site : fleet.sites) all.push_back(site->global()[0]);
  return all;
}

// Steps one by one; the local value of both sites and Θ after each.
void follow(Fleet& fleet, const std::vector<std::array<float, 3>>& want) {
  for (std::size_t t = 0; t < want.size(); ++t) {
    fleet.step();
    CAPTURE(t + 1);
    CHECK(fleet.local(0, 0) == want[t][0]);
    CHECK(fleet.local(1, 0) == want[t][1]);
    CHECK(globals(fleet) == std::vector<float>{want[t][2], want[t][2]});
  }
}

}  // namespace

// Two sites with gradients 1 and 3, H = 2: every round's deltas are 2 and 6, their mean 4.

TEST_CASE("delayed: a round starts from the mean of the round before the last, and nothing is lost") {
  SiteSettings settings{.steps = 6, .schedule = {.period = 2, .delay = 1}, .optimizer = kMean, .merge = Merge::delayed};
  Fleet fleet(falling(10, {1, 3}), settings);
  // sent after 2: back to 10.  Answered after 3: Θ = 6, not taken over.  Sent after 4 (10 - 8, 10 - 4): from 6 on.
  follow(fleet, {{9, 7, 10}, {10, 10, 10}, {9, 7, 6}, {6, 6, 6}, {5, 3, 2}, {2, 2, 2}});
  fleet.drain();  // the answer of step 6: three rounds of 4
  CHECK(globals(fleet) == std::vector<float>{-2, -2});
}

TEST_CASE("eager: a round starts from the own fresh delta and the others' last ones") {
  SiteSettings settings{.steps = 6, .schedule = {.period = 2, .delay = 1}, .optimizer = kMean, .merge = Merge::eager};
  Fleet fleet(falling(10, {1, 3}), settings);
  // after 2, nothing is known of the other: from 10 - 2/2 = 9 and 10 - 6/2 = 7.  After 3: Θ = 6; of the mean 4 the others'
  // part is 4 - 2/2 = 3 and 4 - 6/2 = 1.  After 4: 6 - (3 + 2/2) = 2 and 6 - (1 + 6/2) = 2.
  follow(fleet, {{9, 7, 10}, {9, 7, 10}, {8, 4, 6}, {2, 2, 6}, {1, -1, 2}, {-2, -2, 2}});
  fleet.drain();
  CHECK(globals(fleet) == std::vector<float>{-2, -2});
}

TEST_CASE("eager: with Nesterov outside, the step ahead leaves the common momentum alone") {
  SiteSettings settings{.steps = 6,
                        .schedule = {.period = 2, .delay = 1},
                        .optimizer = {.kind = OuterKind::nesterov, .lr = 1, .momentum = 0.5F},
                        .merge = Merge::eager};
  Fleet fleet(falling(10, {1, 3}), settings);
  // after 2: b' = 1 and 3, from 10 - 1.5 and 10 - 4.5.  After 3: b = 4, Θ = 10 - (4 + 2) = 4.
  // after 4: b' = 2 + 4, from 4 - (4 + 3) = -3 at both.  After 5: b = 6, Θ = -3.  After 6: b' = 3 + 4, -3 - (4 + 3.5).
  follow(fleet, {{9, 7, 10}, {8.5F, 5.5F, 10}, {7.5F, 2.5F, 4}, {-3, -3, 4}, {-4, -6, -3}, {-10.5F, -10.5F, -3}});
}

TEST_CASE("eager: shares are weighted as the mean is") {
  // One site of two sends nothing but zeros, so the mean is half of the other's delta, and the others' part is known.
  SiteSettings settings{.steps = 4, .schedule = {.period = 2, .delay = 1}, .optimizer = kMean, .merge = Merge::eager};
  Fleet fleet(falling(0, {0, 4}), settings);
  follow(fleet, {{0, -4, 0}, {0, -4, 0}, {0, -8, -4}, {-8, -8, -4}});
}

TEST_CASE("delay corrected: the steps between sending and applying are kept whole") {
  SiteSettings settings{
      .steps = 5, .schedule = {.period = 2, .delay = 1}, .optimizer = kMean, .merge = Merge::corrected};
  Fleet fleet(falling(10, {1, 3}), settings);
  // sent after 2 at 8 and 4; after 3 at 7 and 1: Θ = 6, and 6 + (7 - 8), 6 + (1 - 4)
  follow(fleet, {{9, 7, 10}, {8, 4, 10}, {5, 3, 6}, {4, 0, 6}, {1, -1, 2}});
  fleet.drain();
  CHECK(globals(fleet) == std::vector<float>{0, 0});  // 10 - 5 steps of 2: every step is in Θ, once
}

TEST_CASE("slowmo: the momentum is kept in units of the inner learning rate") {
  // One site, gradient 1, H = 1, alpha = 1, beta = 0.5; lr 0.5, then 0.25.  u = 1, x = 10 - 0.5;  u = 0.5 + 1, x -= 0.25 * 1.5
  for (const bool scaled : {true, false}) {
    auto inner = std::make_unique<StubInner>(std::vector<float>{10}, std::vector<float>{1}, 1.0F);
    inner->lr_at = [](std::uint64_t t) { return t == 1 ? 0.5F : 0.25F; };
    std::vector<std::unique_ptr<Inner>> one;
    one.push_back(std::move(inner));
    SiteSettings settings{.steps = 2,
                          .schedule = {.period = 1},
                          .optimizer = {.kind = OuterKind::heavy_ball, .lr = 1, .momentum = 0.5F},
                          .inner_lr_scaled = scaled};
    Fleet fleet(std::move(one), settings);
    fleet.step();
    CHECK(fleet.sites[0]->global()[0] == 9.5F);
    fleet.step();
    CHECK(fleet.sites[0]->global()[0] == (scaled ? 9.125F : 9.0F));  // plain heavy ball: b = 0.25 + 0.25
  }
}

TEST_CASE("lookahead: one site, slow weights go a part of the way") {
  // arXiv:1907.08610, Algorithm 1: k = 2, alpha = 0.5: phi <- phi + 0.5 (theta - phi)
  SiteSettings settings{
      .steps = 4, .schedule = {.period = 2}, .optimizer = {.kind = OuterKind::sgd, .lr = 0.5F, .momentum = 0}};
  Fleet fleet(falling(10, {1}), settings);
  std::vector<float> local;
  for (int t = 0; t < 4; ++t) {
    fleet.step();
    local.push_back(fleet.local(0, 0));
  }
  CHECK(local == std::vector<float>{9, 9, 8, 8});
}

TEST_CASE("post-local SGD: DDP steps, then rounds, as a loop in double does it") {
  // MaxText's two sites; 3 DDP steps, then plain averaging every 2 steps, 7 steps in all and what is left at the end.
  SiteSettings settings{.steps = 8, .ddp_steps = 3, .schedule = {.period = 2}, .optimizer = kMean};
  std::vector<std::unique_ptr<Inner>> both;
  for (int m = 0; m < 2; ++m) both.push_back(maxtext_linear(m));
  Fleet fleet(std::move(both), settings);

  using Point = std::array<double, 3>;
  const double x[2][2][2] = {{{0, 1}, {1, 0}}, {{1, 0}, {0, 1}}}, y[2][2] = {{1, 2}, {2, 3}};
  const auto gradient = [&](int m, const Point& p) {
    Point g{};
    for (int s = 0; s < 2; ++s) {
      const double error = p[0] * x[m][s][0] + p[1] * x[m][s][1] + p[2] - y[m][s];
      for (std::size_t i = 0; i < 2; ++i) g[i] += error * x[m][s][i];  // 2 / samples = 1
      g[2] += error;
    }
    return g;
  };
  std::array<Point, 2> at{Point{2, 1, 1}, Point{2, 1, 1}};
  const auto mean = [&] {
    for (std::size_t i = 0; i < 3; ++i) at[0][i] = at[1][i] = (at[0][i] + at[1][i]) / 2;
  };
  for (int t = 1; t <= 8; ++t) {
    const Point g0 = gradient(0, at[0]), g1 = gradient(1, at[1]);
    for (std::size_t i = 0; i < 3; ++i) {
      at[0][i] -= 0.1 * (t <= 3 ? (g0[i] + g1[i]) / 2 : g0[i]);
      at[1][i] -= 0.1 * (t <= 3 ? (g0[i] + g1[i]) / 2 : g1[i]);
    }
    if (t == 5 || t == 7) mean();
    CHECK(fleet.sites[0]->averages_gradients() == (t <= 3));
    fleet.step();
    for (int m = 0; m < 2; ++m)
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(std::abs(fleet.local(m, i) - at[static_cast<std::size_t>(m)][i]) < 1e-6);
  }
  fleet.drain();
  mean();
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(fleet.sites[1]->global()[i] - at[0][i]) < 1e-6);
}

TEST_CASE("clusters: sites average among themselves, and all of them in every second round") {
  SiteSettings settings{.steps = 3, .schedule = {.period = 1}, .optimizer = kMean, .clusters = 2, .global_every = 2};
  Fleet fleet(falling(0, {1, 2, 3, 4}), settings);
  const auto locals = [&] {
    std::vector<float> all;
    for (int m = 0; m < 4; ++m) all.push_back(fleet.local(m, 0));
    return all;
  };
  fleet.step();
  CHECK(locals() == std::vector<float>{-1.5F, -1.5F, -3.5F, -3.5F});
  CHECK(globals(fleet) == std::vector<float>(4, 0));
  fleet.step();  // -2.5, -3.5, -6.5, -7.5: the mean of all is -5
  CHECK(locals() == std::vector<float>(4, -5));
  CHECK(globals(fleet) == std::vector<float>(4, -5));
  fleet.step();
  CHECK(locals() == std::vector<float>{-6.5F, -6.5F, -8.5F, -8.5F});
  fleet.drain();  // the third round was the clusters' own: its work reaches Θ now
  CHECK(globals(fleet) == std::vector<float>(4, -7.5F));
}

TEST_CASE(
    "clusters: one cluster with plain averaging is flat averaging, and clusters of one site are flat with a longer "
    "period") {
  const auto run = [](SiteSettings settings) {
    settings.steps = 12;
    Fleet fleet(falling(1, {1, 2, 3, 5}), settings);
    for (int t = 0; t < 12; ++t) fleet.step();
    fleet.drain();
    return globals(fleet);
  };
  const OuterConfig nesterov{.kind = OuterKind::nesterov, .lr = 0.5F, .momentum = 0.5F};
  CHECK(run({.schedule = {.period = 2}, .optimizer = kMean, .clusters = 1, .global_every = 3}) ==
        run({.schedule = {.period = 2}, .optimizer = kMean}));
  CHECK(run({.schedule = {.period = 2}, .optimizer = nesterov, .clusters = 4, .global_every = 3}) ==
        run({.schedule = {.period = 6}, .optimizer = nesterov}));
}

TEST_CASE("clusters: at the end a fragment is left whose last round only its cluster has seen") {
  const SiteSettings settings{.sites = 4, .steps = 3, .schedule = {.period = 1}, .clusters = 2, .global_every = 2};
  const Schedule schedule(settings.schedule);
  CHECK(left_at_end(settings, schedule, 3) == std::vector<int>{0});  // round 3
  CHECK(left_at_end(settings, schedule, 2).empty());                 // round 2 was of all
  CHECK(left_at_end(settings, schedule, 0).empty());
}

TEST_CASE("error feedback: what the codec lost comes with the next delta") {
  // delta 1 + 2^-9 in bf16 (steps of 2^-7 above 1): 1, then a = 1 + 2^-8, a tie, 1, then a = 1 + 3 * 2^-9, up to 1 + 2^-7
  const float lost = std::ldexp(1.0F, -9);
  SiteSettings settings{.steps = 3, .schedule = {.period = 1}, .optimizer = kMean, .codec = {.name = "bf16"}};
  for (const float beta : {1.0F, 0.5F, 0.0F}) {
    CAPTURE(beta);
    settings.feedback = beta;
    Fleet fleet(falling(0, {1 + lost, 1 + lost}), settings);
    fleet.step();
    CHECK(fleet.sites[0]->global()[0] == -1);
    fleet.step();
    CHECK(fleet.sites[0]->global()[0] == -2);
    fleet.step();
    // beta 0.5: residuals 2^-9, 1.5 * 2^-9; a = 1 + 1.75 * 2^-9 stays 1
    CHECK(fleet.sites[0]->global()[0] == (beta == 1 ? -3 - std::ldexp(1.0F, -7) : -3.0F));
    if (beta == 1) {
      for (const StateSpan& s : fleet.sites[0]->state())
        if (s.name == "residual") CHECK(s.values[0] == -lost);  // 3 * 2^-9 - 4 * 2^-9
    }
  }
}

TEST_CASE("error feedback: a residual becomes the present one with its answer, and not when the exchange fails") {
  InProcessHub hub({.sites = 1, .slots = {{1}}, .codec = {.name = "bf16"}, .mean_codec = {.name = "bf16"}});
  FaultyExchange exchange(hub.site(0), {.site = 0, .drop_at = 2});
  StubInner inner({0}, {1 + std::ldexp(1.0F, -9)}, 1);
  Site site({.steps = 3,
             .schedule = {.period = 1},
             .fragments = {{0, 1}},
             .optimizer = kMean,
             .codec = {.name = "bf16"},
             .feedback = 1},
            inner, exchange, [](std::uint64_t p, std::size_t n) {
              return Batch{.sequences = n, .length = 1, .tokens = {}, .first_position = p};
            });
  const auto residual = [&] {
    for (const StateSpan& s : site.state())
      if (s.name == "residual") return s.values[0];
    return NAN;
  };
  site.step();
  CHECK(residual() == 0);
  site.collect();
  CHECK(residual() == std::ldexp(1.0F, -9));
  site.step();
  CHECK_THROWS_AS(site.collect(), LinkError);
  CHECK(residual() == std::ldexp(1.0F, -9));
  CHECK(site.global()[0] == -1);
}

TEST_CASE("outer rates: warm-up, restart and schedule reach the outer step") {
  // One site, gradient 1, H = 1, Nesterov lr 1, momentum 0.5; the momentum restarts every 2 rounds; lr rises over 2 rounds.
  SiteSettings settings{.steps = 4,
                        .schedule = {.period = 1},
                        .optimizer = {.kind = OuterKind::nesterov, .lr = 1, .momentum = 0.5F},
                        .rates = {.warmup_rounds = 2, .restart_every = 2, .total_rounds = 4}};
  Fleet fleet(falling(0, {1}), settings);
  std::vector<float> global;
  for (int t = 0; t < 4; ++t) {
    fleet.step();
    global.push_back(fleet.sites[0]->global()[0]);
  }
  // b = 1: 0.5 * 1.5;  b = 1.5: 1.75;  b = 1 again: 1.5;  b = 1.5: 1.75
  CHECK(global == std::vector<float>{-0.75F, -2.5F, -4.0F, -5.75F});
}

TEST_CASE("every merge: M equal sites are one site, bit for bit, and Θ is the same at all of three different ones") {
  for (const Merge merge : {Merge::mix, Merge::corrected, Merge::delayed, Merge::eager}) {
    CAPTURE(static_cast<int>(merge));
    SiteSettings settings{.steps = 23, .schedule = {.period = 5, .delay = 3}, .optimizer = {}, .merge = merge};
    const auto run = [&](const std::vector<int>& kinds) {
      std::vector<std::unique_ptr<Inner>> sites;
      for (const int kind : kinds) sites.push_back(maxtext_linear(kind));
      auto fleet = std::make_unique<Fleet>(std::move(sites), settings);
      for (int t = 0; t < 23; ++t) fleet->step();
      fleet->drain();
      return fleet;
    };
    const auto different = run({0, 1, 1});
    for (auto& site : different->sites) CHECK(site->global_hash() == different->sites[0]->global_hash());
    if (merge == Merge::eager) continue;  // others = mean - own / M is rounded, so equal sites are equal to rounding
    const Hash128 one = run({0})->sites[0]->global_hash();
    CHECK(run({0, 0, 0})->sites[2]->global_hash() == one);
  }
}
