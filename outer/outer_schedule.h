// OuterSchedule: the outer optimizer's learning rate and momentum in each round.  A pure function of the round, so that
// every site steps alike.
//
// η stays outside the momentum buffer (docs/algorithms.md, 1), so a scheduled η is torch.optim's, not MuLoCo's writing.
#pragma once
#include <cstdint>

namespace atl {

enum class OuterLrSchedule { constant, linear, cosine };

struct OuterScheduleConfig {
  OuterLrSchedule schedule = OuterLrSchedule::constant;  // behind the warm-up
  std::uint64_t warmup_rounds = 0;                       // η rises linearly: round r of w has r / w of it
  double final_lr_fraction = 0;                          // linear, cosine: of η, reached in the last round
  std::uint64_t momentum_warmup_rounds = 0;              // μ rises linearly: round r of w has r / w of it
  std::uint64_t restart_every = 0;                       // rounds; b ← 0 before each such round's step; 0: never
  std::uint64_t total_rounds = 1;                        // of the run; for linear and cosine
};

// What one outer step needs to know.
struct OuterRates {
  float lr = 0, momentum = 0;
  std::uint64_t step = 1;  // since the last restart; at 1 the state is cleared first
};

// Of round r (1, 2, ...), of an optimizer with η = lr and μ = momentum.  A round after the last has the rates of the last.
OuterRates outer_rates(const OuterScheduleConfig& config, double lr, double momentum, std::uint64_t round);

}  // namespace atl
