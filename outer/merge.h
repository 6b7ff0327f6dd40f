// Merge: how a site takes the others' work over (docs/algorithms.md, 3).
#pragma once

namespace atl {

enum class Merge {
  mix,        // when the answer is there: θ ← α θ + (1 − α) Θ
  corrected,  // when the answer is there: θ ← Θ + (θ − θ at the send): keeps the τ local steps whole
  delayed,    // at the send: θ ← Θ, one round late
  eager,      // at the send: θ ← Θ after a step with the own fresh delta and the others' last ones
};

}  // namespace atl
