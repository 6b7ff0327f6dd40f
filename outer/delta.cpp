#include "outer/delta.h"

#include "kernels/delta.h"
#include "kernels/mix.h"

namespace atl {

void delta(std::span<const float> global, std::span<const float> local, std::span<float> out, Place place) {
  kernels::delta(global, local, out, place);
}

void mix(std::span<float> local, std::span<const float> global, float alpha, Place place) {
  kernels::mix(local, global, alpha, place);
}

}  // namespace atl
