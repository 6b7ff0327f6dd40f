// Outer optimizer: one step on the shared parameters Θ from the mean delta.  State per fragment.
//
// Every site calls step() with the same mean and so reaches the same Θ and state, bit for bit.  Nothing here talks to
// the network.  Sources: DiLoCo arXiv:2311.08105 Algorithm 1 (OuterOpt; order of operations of
// torch.optim.SGD(nesterov=True, dampening=0)); SlowMo arXiv:1910.00643 (heavy ball).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/param_layout.h"
#include "kernels/buffer.h"
#include "kernels/place.h"

namespace atl {

enum class OuterKind { sgd, nesterov, heavy_ball };
OuterKind outer_kind(const std::string& name);  // throws ConfigError listing the names that exist
std::string name_of(OuterKind kind);

struct OuterConfig {
  OuterKind kind = OuterKind::nesterov;
  float lr = 0.7F;        // η, > 0
  float momentum = 0.9F;  // μ in [0, 1); unused by sgd
};

class OuterOptimizer {
 public:
  // Momentum starts at zero.  `fragments` lie back to back from 0, or are none (DDP: no outer step).  Throws Bug when
  // they do not, for lr <= 0 and for momentum outside [0, 1): src/app/config.cpp has refused those before.
  OuterOptimizer(const OuterConfig& config, std::vector<Span> fragments, Place place);

  // sgd:        Θ ← Θ − η Δ
  // nesterov:   b ← μ b + Δ;  Θ ← Θ − η (Δ + μ b)
  // heavy_ball: b ← μ b + Δ;  Θ ← Θ − η b
  // global, mean: [the fragment's count] at the optimizer's place; global is written.  cuda: queued on the place's
  // stream and not waited for.  Other fragments' momentum is left as it is.  Throws Bug on a wrong length or fragment.
  void step(int fragment, std::span<float> global, std::span<const float> mean);

  // b of all fragments, [sum of counts], laid out as Θ is; empty for sgd.  At the place.  For checkpoints and hashes.
  std::span<float> momentum() { return momentum_.values(); }
  const OuterConfig& config() const { return config_; }

 private:
  OuterConfig config_;
  std::vector<Span> fragments_;
  Place place_;
  Buffer momentum_;
};

}  // namespace atl
