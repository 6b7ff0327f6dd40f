#include "outer/outer_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace atl {
namespace {

double warmed(std::uint64_t round, std::uint64_t rounds) {
  return round >= rounds ? 1.0 : static_cast<double>(round) / static_cast<double>(rounds);
}

// 1 in the first round behind the warm-up, `last` in the last round.
double decayed(const OuterScheduleConfig& c, std::uint64_t round) {
  const std::uint64_t first = std::max<std::uint64_t>(1, c.warmup_rounds);
  const std::uint64_t last = std::max(first, c.total_rounds);
  if (c.schedule == OuterLrSchedule::constant || last == first) return 1;
  const double done = static_cast<double>(std::clamp(round, first, last) - first) / static_cast<double>(last - first);
  const double left = c.schedule == OuterLrSchedule::linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return c.final_lr_fraction + (1 - c.final_lr_fraction) * left;
}

}  // namespace

OuterRates outer_rates(const OuterScheduleConfig& c, double lr, double momentum, std::uint64_t round) {
  ATOLL_CHECK(round > 0, "rounds are counted from 1");
  return {.lr = static_cast<float>(lr * warmed(round, c.warmup_rounds) * decayed(c, round)),
          .momentum = static_cast<float>(momentum * warmed(round, c.momentum_warmup_rounds)),
          .step = c.restart_every == 0 ? round : (round - 1) % c.restart_every + 1};
}

}  // namespace atl
