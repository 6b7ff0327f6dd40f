// The engine with a linear model and in-process exchanges: the numbers of docs/algorithms.md, 1, through Site itself.
#include "app/site.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/fleet.h"
#include "support/linear_inner.h"
#include "support/stub_inner.h"

using namespace atl;

namespace {

// torchft's mocked updates: two scalar parameters at 1, inner SGD 1, gradient 2 at every step.
SiteSettings mocked(std::uint64_t delay, float alpha, std::uint64_t steps) {
  return {.steps = steps,
          .schedule = {.period = 6, .fragments = 2, .delay = delay},
          .fragments = {{0, 1}, {1, 1}},
          .optimizer = {.kind = OuterKind::sgd, .lr = 2.0F, .momentum = 0.0F},
          .mix = alpha};
}
std::unique_ptr<Inner> falling(int) {
  return std::make_unique<StubInner>(std::vector<float>{1, 1}, std::vector<float>{2, 2}, 1.0F);
}

}  // namespace

TEST_CASE("site: torchft's two fragments, no delay, no mix") {
  Fleet fleet(models(2, falling), mocked(0, 0, 10));
  const std::vector<float> f0{1, -1, -3, -11, -13, -15, -17, -19, -21, -35},
      f1{1, -1, -3, -5, -7, -9, -23, -25, -27, -29};
  for (std::size_t t = 0; t < 10; ++t) {
    CAPTURE(t);
    for (int m = 0; m < 2; ++m) {
      CHECK(fleet.local(m, 0) == f0[t]);
      CHECK(fleet.local(m, 1) == f1[t]);
    }
    fleet.step();
  }
}

TEST_CASE("site: torchft's two fragments, mix 1: local is plain SGD, global moves") {
  Fleet fleet(models(2, falling), mocked(0, 1, 9));
  for (int t = 0; t < 9; ++t) {
    CHECK(fleet.local(0, 0) == 1.0F - 2.0F * static_cast<float>(t));
    fleet.step();
    if (t + 1 == 3) CHECK(fleet.sites[0]->global()[0] == -11);
  }
  CHECK(fleet.sites[0]->global()[0] == -23);
}

TEST_CASE("site: torchft's two fragments, delay 1: sent after step 2, applied after step 3") {
  SiteSettings settings = mocked(1, 0, 10);
  settings.schedule.first_send = 2;
  Fleet fleet(models(2, falling), settings);
  const std::vector<float> f0{1, -1, -3, -7, -9, -11, -13, -15, -17, -27};
  for (std::size_t t = 0; t < 10; ++t) {
    CAPTURE(t);
    CHECK(fleet.local(1, 0) == f0[t]);
    if (t == 3) CHECK(fleet.sites[1]->global()[0] == -7);
    if (t == 9) CHECK(fleet.sites[1]->global()[0] == -27);
    fleet.step();
  }
}

TEST_CASE("site: at the end every step's work is in global, and an empty delta is not sent") {
  SiteSettings settings = mocked(0, 0, 7);
  settings.optimizer.lr = 1;
  Fleet fleet(models(2, falling), settings);
  for (int t = 0; t < 7; ++t) fleet.step();
  fleet.drain();
  // plain averaging of equal sites is plain SGD: 7 steps of -2 from 1
  for (std::size_t i = 0; i < 2; ++i) CHECK(fleet.sites[0]->global()[i] == -13);

  settings.steps = 6;  // fragment 1 was sent after step 6: nothing of it is left
  settings.optimizer = {.kind = OuterKind::nesterov, .lr = 1, .momentum = 0.5F};
  Fleet exact(models(2, falling), settings);
  for (int t = 0; t < 6; ++t) exact.step();
  const float before = exact.sites[0]->global()[1];
  exact.drain();
  CHECK(exact.sites[0]->global()[1] == before);
}

TEST_CASE("site: a drain with answers in flight applies them first") {
  SiteSettings settings = mocked(2, 0, 7);
  settings.optimizer.lr = 1;
  Fleet fleet(models(2, falling), settings);
  for (int t = 0; t < 7; ++t) fleet.step();
  fleet.drain();
  // fragment 0: sent after 3, applied after 5 (local back to -5, losing 2 steps: alpha = 0), two more steps, sent again
  // in the drain
  CHECK(fleet.sites[0]->global()[0] == -9);
  // fragment 1: sent after 6 with -11, in flight at the end; applied in the drain, and sent once more for step 7, whose
  // work alpha = 0 dropped
  CHECK(fleet.sites[0]->global()[1] == -11);
}

TEST_CASE("site: MaxText's linear model with Nesterov outside") {
  SiteSettings settings{.steps = 4,
                        .schedule = {.period = 3, .fragments = 1},
                        .optimizer = {.kind = OuterKind::nesterov, .lr = 1.0F, .momentum = 0.9F}};
  Fleet fleet(models(2, [](int m) { return maxtext_linear(m); }), settings);
  const double losses[2][4] = {{1, 0.49, 0.2401, 0.207544}, {1, 0.81, 0.6561, 0.940944}};
  for (int t = 0; t < 4; ++t) {
    fleet.step();
    for (int m = 0; m < 2; ++m) {
      CAPTURE(t);
      CAPTURE(m);
      CHECK(std::abs(fleet.sites[static_cast<std::size_t>(m)]->report().loss - losses[m][t]) < 2e-6);
    }
    if (t == 2) {
      const auto global = fleet.sites[0]->global();
      CHECK(std::abs(global[0] - 1.5345) < 1e-6);
      CHECK(std::abs(global[1] - 1.0494) < 1e-6);
      CHECK(std::abs(global[2] - 0.5839) < 1e-6);
    }
  }
}

TEST_CASE("site: H = 1 with plain averaging is DDP with SGD, to rounding, for 200 steps") {
  SiteSettings local{
      .steps = 200, .schedule = {.period = 1, .fragments = 1}, .optimizer = {.kind = OuterKind::sgd, .lr = 1.0F}};
  SiteSettings ddp{.steps = 200, .ddp_steps = 200};
  Fleet a(models(2, [](int m) { return maxtext_linear(m); }), local),
      b(models(2, [](int m) { return maxtext_linear(m); }), ddp);
  for (int t = 0; t < 200; ++t) {
    a.step();
    b.step();
    // each step may round each parameter (|w| < 2.1) by an ulp on either side, and the map is a contraction
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(a.local(0, i) - b.local(0, i)) <= 200 * std::ldexp(1.0, -22));
  }
}

TEST_CASE("site: M equal sites are one site, bit for bit, with bf16 and fp32 payloads") {
  for (const std::string codec : {"fp32"}) {
    SiteSettings settings{
        .steps = 30, .schedule = {.period = 5, .fragments = 1}, .optimizer = {.lr = 0.7F, .momentum = 0.9F}};
    Fleet one(models(1, [](int) { return maxtext_linear(0); }), settings, codec);
    for (int t = 0; t < 30; ++t) one.step();
    one.drain();
    for (int sites = 2; sites <= 5; ++sites) {
      CAPTURE(sites);
      Fleet many(models(sites, [](int) { return maxtext_linear(0); }), settings, codec);
      for (int t = 0; t < 30; ++t) many.step();
      many.drain();
      CHECK(many.sites.back()->global_hash() == one.sites[0]->global_hash());
    }
  }
}

TEST_CASE("site: a loss that is not finite stops with site and step, and the delta is not sent") {
  auto broken = [](int m) -> std::unique_ptr<Inner> {
    auto inner = std::make_unique<StubInner>(std::vector<float>{1, 1}, std::vector<float>{2, 2}, 1.0F);
    if (m == 1) inner->loss_at = [](std::uint64_t t) { return t == 3 ? NAN : 1.0; };
    return inner;
  };
  Fleet fleet(models(2, broken), mocked(0, 0, 10));
  fleet.step();
  fleet.step();
  fleet.sites[0]->step();
  CHECK_THROWS_WITH_AS(fleet.sites[1]->step(), doctest::Contains("site-1, step 3: the training loss is nan"),
                       ConfigError);
}

TEST_CASE("site: a NaN in a later bucket of a DDP step stops every site, and nobody applies it") {
  const auto make = [](int m) -> std::unique_ptr<Inner> {
    // bucket 0 is the last tensor; the NaN is in the first, which travels without a header
    return std::make_unique<StubInner>(std::vector<float>{1, 1}, std::vector<float>{m == 1 ? NAN : 2.0F, 2}, 1.0F);
  };
  SiteSettings settings{.steps = 5, .ddp_steps = 5, .bucket_values = 1};
  Fleet fleet(models(2, make), settings);
  for (auto& site : fleet.sites) site->step();
  for (int m = 0; m < 2; ++m) {
    const std::string words = text("site-", m, ", step 1: the averaged gradient holds a NaN");
    CHECK_THROWS_WITH_AS(fleet.sites[static_cast<std::size_t>(m)]->collect(), doctest::Contains(words.c_str()),
                         ConfigError);
    CHECK(fleet.local(m, 0) == 1);
    CHECK(fleet.local(m, 1) == 1);
  }
}

TEST_CASE("site: steps that the merge dropped are no work: at the end their empty delta does not move global") {
  // delay 2, mix 0: fragment 1 is sent after step 6; the answer, applied in the drain, replaces local and with it step 7
  SiteSettings settings = mocked(2, 0, 7);
  settings.optimizer = {.kind = OuterKind::nesterov, .lr = 1, .momentum = 0.5F};
  Fleet fleet(models(2, falling), settings);
  for (int t = 0; t < 7; ++t) fleet.step();
  fleet.drain();
  // delta 1 - (-11) = 12; b = 12; global = 1 - (12 + 0.5 * 12)
  CHECK(fleet.sites[0]->global()[1] == -17);
}
