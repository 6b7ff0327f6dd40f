// Plain outer SGD: theta <- theta - lr * d.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// Bit-equal twins (a NaN may have other bits): the product is rounded, then the difference.
// theta: [n], read and written; d: [n], read; both at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void sgd(std::span<float> theta, std::span<const float> d, float lr, Place place);

namespace detail {  // called by sgd() and the twin test, by nothing else
void sgd_cpu(float* theta, const float* d, std::size_t n, float lr);
void sgd_cuda(float* theta, const float* d, std::size_t n, float lr, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
