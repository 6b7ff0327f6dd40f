// The delta of one span: out = global - local.  The sign has its home in outer/delta.h.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// Bit-equal twins (a NaN may have other bits): one subtraction a value.
// global, local, out: [n], all at `place`; out is written and may be one of the other two, but not overlap them
// otherwise; n = 0 is allowed.  cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and
// for cuda in a build without it.
void delta(std::span<const float> global, std::span<const float> local, std::span<float> out, Place place);

namespace detail {  // called by delta() and the twin test, by nothing else
void delta_cpu(const float* global, const float* local, float* out, std::size_t n);
void delta_cuda(const float* global, const float* local, float* out, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
