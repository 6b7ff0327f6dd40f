// The merge after an outer step: local <- alpha * local + (1 - alpha) * global.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// Bit-equal twins (a NaN may have other bits): 1 - alpha is rounded once, then two products and their sum, each
// rounded.  alpha = 0 copies global bit for bit and alpha = 1 leaves local bit for bit, also where the other one is NaN
// or infinite. local: [n], read and written; global: [n], read; both at `place`, not overlapping; n = 0 is allowed.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, for alpha outside [0, 1], and for
// cuda in a build without it.
void mix(std::span<float> local, std::span<const float> global, float alpha, Place place);

namespace detail {  // called by mix() and the twin test, by nothing else; 0 < alpha < 1 for the kernels
void mix_cpu(float* local, const float* global, std::size_t n, float alpha);
void mix_cuda(float* local, const float* global, std::size_t n, float alpha, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
