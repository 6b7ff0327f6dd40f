// Outer optimizer: one step on the shared parameters Θ from the mean delta.  State per fragment.
//
// Every site calls step() with the same mean and so reaches the same Θ and state, bit for bit.  Nothing here talks to
// the network.  Sources: DiLoCo arXiv:2311.08105 Algorithm 1 (OuterOpt; order of operations of
// torch.optim.SGD(nesterov=True, dampening=0)); SlowMo arXiv:1910.00643 (heavy ball);
// FedAdam arXiv:2003.00295 (adam).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/param_layout.h"
#include "kernels/buffer.h"
#include "kernels/place.h"
#include "outer/outer_schedule.h"

namespace atl {

enum class OuterKind { sgd, nesterov, heavy_ball, adam };
OuterKind outer_kind(const std::string& name);  // throws ConfigError listing the names that exist
std::string name_of(OuterKind kind);

struct OuterConfig {
  OuterKind kind = OuterKind::nesterov;
  float lr = 0.7F;        // η, > 0
  float momentum = 0.9F;  // μ in [0, 1); adam: β1; unused by sgd
  float beta2 = 0.99F;    // adam, in [0, 1)
  float eps = 1e-8F;      // adam, > 0
};

class OuterOptimizer {
 public:
  // State starts at zero.  `fragments` lie back to back from 0, or are none (DDP: no outer step).  Throws Bug when
  // they do not, and for numbers out of range: src/app/config.cpp has refused those before.
  OuterOptimizer(const OuterConfig& config, std::vector<Span> fragments, Place place);

  // sgd:        Θ ← Θ − η Δ
  // nesterov:   b ← μ b + Δ;  Θ ← Θ − η (Δ + μ b)
  // heavy_ball: b ← μ b + Δ;  Θ ← Θ − η b
  // adam:       b ← μ b + (1 − μ) Δ;  v ← β2 v + (1 − β2) Δ²;  Θ ← Θ − η b̂ / (√v̂ + ε), both bias-corrected by rates.step
  // η and μ are those of `rates`; b and v are cleared first when rates.step is 1.
  // global, mean: [the fragment's count] at the optimizer's place; global is written.  cuda: queued on the place's
  // stream and not waited for.  Other fragments' state is left as it is.  Throws Bug on a wrong length or fragment.
  void step(int fragment, std::span<float> global, std::span<const float> mean, const OuterRates& rates);
  // The same with the configured η and μ, as a step that is not the first; not for adam (Bug).
  void step(int fragment, std::span<float> global, std::span<const float> mean);

  // What step() would make of `global`, into `out`; global and the state stay.  [the fragment's count] each.
  void look_ahead(int fragment, std::span<const float> global, std::span<const float> mean, const OuterRates& rates,
                  std::span<float> out);

  // b and v of all fragments, [sum of counts], laid out as Θ is; empty for those that have none.  At the place.  For
  // checkpoints and hashes.
  std::span<float> momentum() { return momentum_.values(); }
  std::span<float> second_moment() { return second_.values(); }
  const OuterConfig& config() const { return config_; }

 private:
  // One step on the given state, which may be a copy.
  void step(std::span<float> global, std::span<float> momentum, std::span<float> second, std::span<const float> mean,
            const OuterRates& rates);
  Span checked(int fragment, std::size_t global, std::size_t mean) const;

  OuterConfig config_;
  std::vector<Span> fragments_;
  Place place_;
  Buffer momentum_, second_;
  Buffer scratch_momentum_, scratch_second_;  // of look_ahead, [largest fragment]; made when first needed
};

}  // namespace atl
