// The weighted mean over sites, value by value: the hot loop of an exchange.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

// out[i] = fp32( (w_0 * x_0[i] + w_1 * x_1[i] + ... ) / total ), in this order, in fp64; the last step is the only
// rounding to fp32.
//
// Bit-equal twins (a NaN may have other bits).  If all inputs hold the same x at i and total is the sum of the weights,
// out[i] is x bit for bit (a NaN becomes quiet), for every M < 2^20 and weights within [2^-800, 2^800]: the products,
// the sums and the division each err by at most 2^-53, so the quotient is nearer to x than 2^-30 |x|, and a float is
// the nearest float to all that is within 2^-25 of it.
//   inputs   [M] pointers to [n] each, all at `place`; the list itself is on the host
//   weights  [M], on the host, each finite and above 0
//   total    finite and above 0
//   out      [n], written; may be one of the inputs, but not overlap them otherwise.  n = 0 is allowed
// cuda: queued on place.stream and not waited for; at most 128 inputs.  Throws Bug on M = 0, unequal lengths, a weight
// or a total that is not as said, and for cuda in a build without it.
void weighted_mean(std::span<const float* const> inputs, std::span<const double> weights, double total,
                   std::span<float> out, Place place);
// The same of bf16 inputs (kernels/bf16.h).
void weighted_mean_bf16(std::span<const std::uint16_t* const> inputs, std::span<const double> weights, double total,
                        std::span<float> out, Place place);

namespace detail {                           // called by the above and the twin test, by nothing else
constexpr std::size_t kMaxCudaInputs = 128;  // they travel as the kernel's arguments
void weighted_mean_cpu(const float* const* inputs, const double* weights, std::size_t m, double total, float* out,
                       std::size_t n);
void weighted_mean_cpu(const std::uint16_t* const* inputs, const double* weights, std::size_t m, double total,
                       float* out, std::size_t n);
void weighted_mean_cuda(const float* const* inputs, const double* weights, std::size_t m, double total, float* out,
                        std::size_t n, const Place& place);
void weighted_mean_cuda(const std::uint16_t* const* inputs, const double* weights, std::size_t m, double total,
                        float* out, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
