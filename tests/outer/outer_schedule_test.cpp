#include "outer/outer_schedule.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"
#include "support/close.h"

namespace atl {
namespace {

std::vector<float> rates(const OuterScheduleConfig& config, std::uint64_t rounds, bool momentum = false) {
  std::vector<float> all;
  for (std::uint64_t r = 1; r <= rounds; ++r) {
    const OuterRates of = outer_rates(config, 0.8, 0.5, r);
    all.push_back(momentum ? of.momentum : of.lr);
  }
  return all;
}

TEST_CASE("outer schedule: constant, and every round the same") {
  CHECK(rates({}, 3) == std::vector<float>{0.8F, 0.8F, 0.8F});
  CHECK(rates({}, 3, true) == std::vector<float>{0.5F, 0.5F, 0.5F});
}

TEST_CASE("outer schedule: a warm-up rises by the same amount each round, and reaches its value in its last") {
  CHECK(rates({.warmup_rounds = 4}, 6) == std::vector<float>{0.2F, 0.4F, 0.6F, 0.8F, 0.8F, 0.8F});
  CHECK(rates({.momentum_warmup_rounds = 2}, 3, true) == std::vector<float>{0.25F, 0.5F, 0.5F});
}

TEST_CASE("outer schedule: linear and cosine reach their last value in the last round, and stay there") {
  CHECK(rates({.schedule = OuterLrSchedule::linear, .final_lr_fraction = 0.5, .total_rounds = 5}, 6) ==
        std::vector<float>{0.8F, 0.7F, 0.6F, 0.5F, 0.4F, 0.4F});
  // by hand: 0.8 * (0.5 + 0.5 * 0.5 * (1 + cos(pi k / 4))), k = 0 .. 4
  const std::vector<double> cosine{0.8, 0.7414213562, 0.6, 0.4585786438, 0.4};
  const auto got = rates({.schedule = OuterLrSchedule::cosine, .final_lr_fraction = 0.5, .total_rounds = 5}, 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(close(got[i], cosine[i], {.relative = 1e-6}));
  // behind a warm-up of 2: rounds 2 .. 4 fall
  CHECK(rates({.schedule = OuterLrSchedule::linear, .warmup_rounds = 2, .total_rounds = 4}, 4) ==
        std::vector<float>{0.4F, 0.8F, 0.4F, 0.0F});
  CHECK(rates({.schedule = OuterLrSchedule::linear, .total_rounds = 1}, 2) == std::vector<float>{0.8F, 0.8F});
}

TEST_CASE("outer schedule: steps are counted anew after each restart") {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t r = 1; r <= 7; ++r) steps.push_back(outer_rates({.restart_every = 3}, 1, 0, r).step);
  CHECK(steps == std::vector<std::uint64_t>{1, 2, 3, 1, 2, 3, 1});
  CHECK(outer_rates({}, 1, 0, 5).step == 5);
  CHECK_THROWS_AS(outer_rates({}, 1, 0, 0), Bug);
}

}  // namespace
}  // namespace atl
