// The delta: Δ = Θ − θ, old minus new, so that it has the sign of a gradient.  The one place with the sign.
#pragma once
#include <span>

#include "kernels/place.h"

namespace atl {

// out[i] = global[i] - local[i]; [n] each, all at `place`, out may not overlap the others.  Throws Bug on unequal
// lengths.
void delta(std::span<const float> global, std::span<const float> local, std::span<float> out, Place place);

// θ ← α θ + (1 − α) Θ.  α = 0 copies Θ bit for bit, α = 1 leaves θ bit for bit.  [n] each at `place`.
void mix(std::span<float> local, std::span<const float> global, float alpha, Place place);

}  // namespace atl
