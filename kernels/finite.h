// Is a span free of infinities and NaNs?
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// True when every value is finite.  x: [n] at `place`; n = 0 gives true.
// cuda: queued on place.stream and waited for.  Throws Bug for cuda in a build without it.
bool all_finite(std::span<const float> x, Place place);

namespace detail {  // called by the above and the twin test, by nothing else
bool all_finite_cpu(const float* x, std::size_t n);
bool all_finite_cuda(const float* x, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
