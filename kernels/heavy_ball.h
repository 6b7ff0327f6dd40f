// Outer SGD with heavy-ball momentum: another method than Nesterov.  Source: SlowMo, arXiv:1910.00643.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// v <- mu * v + d, then theta <- theta - lr * v.
// Bit-equal twins (a NaN may have other bits): same IEEE operations, same order, no fused multiply-add.
// theta, v: [n], read and written; d: [n], read; all at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void heavy_ball(std::span<float> theta, std::span<float> v, std::span<const float> d, float lr, float mu, Place place);

namespace detail {  // called by heavy_ball() and the twin test, by nothing else
void heavy_ball_cpu(float* theta, float* v, const float* d, std::size_t n, float lr, float mu);
void heavy_ball_cuda(float* theta, float* v, const float* d, std::size_t n, float lr, float mu, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
