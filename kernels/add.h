// y <- y + a * x, and y <- 0.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// Bit-equal twins (a NaN may have other bits): the product is rounded, then the sum; a = 1 adds exactly x.
// y: [n], read and written; x: [n], read; both at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void add_scaled(std::span<float> y, std::span<const float> x, float a, Place place);

// y: [n] at `place`, written, whatever it held.  cuda: queued on place.stream and not waited for.
void set_zero(std::span<float> y, Place place);

namespace detail {  // called by the above and the twin test, by nothing else
void add_scaled_cpu(float* y, const float* x, std::size_t n, float a);
void add_scaled_cuda(float* y, const float* x, std::size_t n, float a, const Place& place);
void set_zero_cuda(float* y, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
