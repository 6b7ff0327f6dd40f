// The numbers that a correct implementation gives: docs/algorithms.md, 1, lists 1 and 2.
#include <doctest/doctest.h>

#include "outer/lockstep.h"
#include "support/close.h"
#include "support/linear_inner.h"
#include "support/stub_inner.h"

namespace atl {
namespace {

using Models = std::vector<std::unique_ptr<Inner>>;

// MaxText's DiLoCo test: two sites that see the same two inputs in another order, with other targets.
Lockstep maxtext(OuterKind kind) {
  Models sites;
  sites.push_back(
      std::make_unique<LinearInner>(std::vector<float>{2, 1}, 1.0F, LinearData{{{0, 1}, {1, 0}}, {1, 2}}, 0.1F));
  sites.push_back(
      std::make_unique<LinearInner>(std::vector<float>{2, 1}, 1.0F, LinearData{{{1, 0}, {0, 1}}, {2, 3}}, 0.1F));
  return Lockstep(std::move(sites), {{0, 3}}, {.period = 3}, {.kind = kind, .lr = 1.0F, .momentum = 0.9F}, 0.0F);
}

// Printed digits: half a unit of the last one, and 1e-6 for the fp32 arithmetic of a few dozen operations near 1.
constexpr Tolerance kFourDigits{.absolute = 0.5e-4 + 1e-6};
constexpr Tolerance kSixDigits{.absolute = 0.5e-6 + 1e-6};

TEST_CASE("golden: MaxText's linear model, three inner steps and a Nesterov step") {
  Lockstep run = maxtext(OuterKind::nesterov);
  const std::vector<std::vector<double>> losses{{1, 1}, {0.49, 0.81}, {0.2401, 0.6561}};
  for (std::size_t t = 0; t < 3; ++t) {
    const auto got = run.step();
    CHECK(close(got[0], losses[t][0], {.absolute = 1e-6}));
    CHECK(close(got[1], losses[t][1], {.absolute = 1e-6}));
  }
  CHECK(close(run.global[0], 1.5345, kFourDigits));
  CHECK(close(run.global[1], 1.0494, kFourDigits));
  CHECK(close(run.global[2], 0.5839, kFourDigits));
  for (std::size_t m = 0; m < 2; ++m)  // alpha = 0: every site starts the next round from there
    CHECK(std::vector<float>(run.local(m).begin(), run.local(m).end()) == run.global);

  const auto fourth = run.step();
  CHECK(close(fourth[0], 0.207544, kSixDigits));
  CHECK(close(fourth[1], 0.940944, kSixDigits));
}

TEST_CASE("golden: heavy ball on MaxText's model gives other numbers, so the test above tells the two apart") {
  Lockstep run = maxtext(OuterKind::heavy_ball);
  for (int t = 0; t < 3; ++t) run.step();
  CHECK(close(run.global[0], 1.755, {.absolute = 0.5e-3 + 1e-6}));
  CHECK(close(run.global[1], 1.026, {.absolute = 0.5e-3 + 1e-6}));
  CHECK(close(run.global[2], 0.781, {.absolute = 0.5e-3 + 1e-6}));
}

// torchft's mocked updates: two scalar fragments that start at 1, inner SGD 1 with the gradient 2, outer SGD 2, H = 6.
Lockstep mocked(std::size_t sites, ScheduleConfig when, float alpha) {
  Models models;
  for (std::size_t m = 0; m < sites; ++m)
    models.push_back(std::make_unique<StubInner>(std::vector<float>{1, 1}, std::vector<float>{2, 2}, 1.0F));
  when.period = 6;
  when.fragments = 2;
  return Lockstep(std::move(models), {{0, 1}, {1, 1}}, when, {.kind = OuterKind::sgd, .lr = 2.0F, .momentum = 0.0F},
                  alpha);
}

// A fragment's value before each inner step 0 .. 9, at every site; every number is a small integer, or half of one.
using Values = std::vector<float>;
void check_local(const ScheduleConfig& when, float alpha, const Values& f0, const Values& f1) {
  for (const std::size_t sites : {1U, 2U, 3U, 5U}) {
    Lockstep run = mocked(sites, when, alpha);
    for (std::size_t t = 0; t < 10; ++t) {
      for (std::size_t m = 0; m < sites; ++m) {
        CAPTURE(sites);
        CAPTURE(t);
        CHECK(run.local(m)[0] == f0[t]);
        CHECK(run.local(m)[1] == f1[t]);
      }
      run.step();
    }
  }
}

TEST_CASE("golden: torchft's two fragments, no delay, no mix") {
  check_local({.delay = 0}, 0.0F, {1, -1, -3, -11, -13, -15, -17, -19, -21, -35},
              {1, -1, -3, -5, -7, -9, -23, -25, -27, -29});
}

TEST_CASE("golden: torchft's two fragments, mix 1: theta is plain SGD, Theta moves beside it") {
  const Values plain{1, -1, -3, -5, -7, -9, -11, -13, -15, -17};
  check_local({.delay = 0}, 1.0F, plain, plain);
  Lockstep run = mocked(2, {.delay = 0}, 1.0F);
  const Values f0{1, 1, 1, -11, -11, -11, -11, -11, -11, -23};  // Theta after t steps
  const Values f1{1, 1, 1, 1, 1, 1, -23, -23, -23, -23};        // 1 - 2 (1 - -11)
  for (std::size_t t = 0; t < 10; ++t) {
    CAPTURE(t);
    CHECK(run.global == Values{f0[t], f1[t]});
    run.step();
  }
}

TEST_CASE("golden: torchft's two fragments, sent one step before they are due") {
  // torchft prepares at S - tau and applies at S.
  const ScheduleConfig when{.delay = 1, .first_send = 2};
  check_local(when, 0.0F, {1, -1, -3, -7, -9, -11, -13, -15, -17, -27}, {1, -1, -3, -5, -7, -9, -19, -21, -23, -25});
  Lockstep run = mocked(2, when, 0.0F);
  for (int t = 0; t < 3; ++t) run.step();
  CHECK(run.global[0] == -7.0F);
  for (int t = 3; t < 9; ++t) run.step();
  CHECK(run.global[0] == -27.0F);
}

TEST_CASE("golden: delay and half a mix, by hand") {
  // f0 is sent after step 2 (theta = -3, delta = 4); after step 3 theta = -5, Theta = 1 - 8 = -7, mixed: -6.
  // Sent again after step 8 (theta = -16, delta = 9); after step 9 theta = -18, Theta = -25, mixed: -21.5.
  // f1 is sent after step 5 (theta = -9, delta = 10); after step 6 theta = -11, Theta = -19, mixed: -15.
  check_local({.delay = 1, .first_send = 2}, 0.5F, {1, -1, -3, -6, -8, -10, -12, -14, -16, -21.5F},
              {1, -1, -3, -5, -7, -9, -15, -17, -19, -21});
}

TEST_CASE("golden: the delay counts from the send, with the default first send too") {
  // f0 is sent after step 3 (theta = -5, delta = 6) and applied after step 4: Theta = -11.  Step 4's own move is gone.
  check_local({.delay = 1}, 0.0F, {1, -1, -3, -5, -11, -13, -15, -17, -19, -21},
              {1, -1, -3, -5, -7, -9, -11, -23, -25, -27});
}

TEST_CASE("golden: a delay longer than the spacing, with two fragments in flight") {
  // tau = 4, S = 3: f0 sent after 3 (delta 6), f1 after 6 (theta = -11, delta 12); f0 applied after 7: Theta = -11.
  check_local({.delay = 4}, 0.0F, {1, -1, -3, -5, -7, -9, -11, -11, -13, -15},
              {1, -1, -3, -5, -7, -9, -11, -13, -15, -17});
}

TEST_CASE("golden: at the end what is in flight is applied, then what has work is sent once more") {
  // After step 4 of the run above: f0 was sent after step 3 with delta 6, theta is -7.
  SUBCASE("no mix: f0's fourth step is lost to its answer, so f0 has no work; f1 has four steps, delta 8") {
    Lockstep run = mocked(2, {.delay = 4}, 0.0F);
    for (int t = 0; t < 4; ++t) run.step();
    run.drain();
    CHECK(run.global == Values{-11, -15});
    CHECK(run.means_in_flight.empty());
  }
  SUBCASE("half a mix: f0's answer leaves theta = (-7 - 11) / 2 = -9, whose delta -2 is sent: Theta = -11 + 4 = -7") {
    Lockstep run = mocked(2, {.delay = 4}, 0.5F);
    for (int t = 0; t < 4; ++t) run.step();
    run.drain();
    CHECK(run.global == Values{-7, -15});
    CHECK(run.local(1)[0] == -8.0F);   // (-9 - 7) / 2
    CHECK(run.local(1)[1] == -11.0F);  // (-7 - 15) / 2
  }
}

}  // namespace
}  // namespace atl
