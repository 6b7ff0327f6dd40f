#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "kernels/accumulate.h"
#include "kernels/bf16.h"
#include "kernels/clones.h"

namespace atl::kernels {

namespace {

template <class T>
void mean_at(std::span<const T* const> inputs, std::span<const double> weights, double total, std::span<float> out,
             const Place& place) {
  ATOLL_CHECK(!inputs.empty() && inputs.size() == weights.size(), "inputs ", inputs.size(), ", weights ",
              weights.size());
  ATOLL_CHECK(std::isfinite(total) && total > 0, "total is ", total);
  for (const double w : weights) ATOLL_CHECK(std::isfinite(w) && w > 0, "a weight is ", w);
  switch (place.kind) {
    case Place::Kind::host:
      return detail::weighted_mean_cpu(inputs.data(), weights.data(), inputs.size(), total, out.data(), out.size());
    case Place::Kind::cuda:
      return detail::weighted_mean_cuda(inputs.data(), weights.data(), inputs.size(), total, out.data(), out.size(),
                                        place);
  }
}

constexpr std::size_t kBlock = 1024;  // 8 KiB of sums: they stay in the first-level cache while the inputs stream by

inline double value_of(float x) { return x; }
inline double value_of(std::uint16_t x) { return std::bit_cast<float>(detail::fp32_bits(x)); }

template <class T>
[[gnu::always_inline]] inline void set_block(double* sum, const T* x, double w, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = w * value_of(x[i]);
}
template <class T>
[[gnu::always_inline]] inline void add_block(double* sum, const T* x, double w, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += w * value_of(x[i]);
}

// The sums start as the first product, not as 0, so that -0 stays -0.
template <class T>
[[gnu::always_inline]] inline void mean_blocks(const T* const* inputs, const double* weights, std::size_t m,
                                               double total, float* out, std::size_t n) {
  int exponent = 0;
  const bool power_of_two =
      std::frexp(total, &exponent) == 0.5;  // then 1/total is exact, and a product is the quotient
  double sum[kBlock];
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t count = std::min(kBlock, n - begin);
    set_block(sum, inputs[0] + begin, weights[0], count);
    for (std::size_t r = 1; r < m; ++r) add_block(sum, inputs[r] + begin, weights[r], count);
    if (power_of_two) {
      for (std::size_t i = 0; i < count; ++i) out[begin + i] = static_cast<float>(sum[i] * (1 / total));
    } else {
      for (std::size_t i = 0; i < count; ++i) out[begin + i] = static_cast<float>(sum[i] / total);
    }
  }
}

}  // namespace

void weighted_mean(std::span<const float* const> inputs, std::span<const double> weights, double total,
                   std::span<float> out, Place place) {
  mean_at(inputs, weights, total, out, place);
}

void weighted_mean_bf16(std::span<const std::uint16_t* const> inputs, std::span<const double> weights, double total,
                        std::span<float> out, Place place) {
  mean_at(inputs, weights, total, out, place);
}

ATOLL_CLONES void detail::weighted_mean_cpu(const float* const* inputs, const double* weights, std::size_t m,
                                            double total, float* out, std::size_t n) {
  mean_blocks(inputs, weights, m, total, out, n);
}

ATOLL_CLONES void detail::weighted_mean_cpu(const std::uint16_t* const* inputs, const double* weights, std::size_t m,
                                            double total, float* out, std::size_t n) {
  mean_blocks(inputs, weights, m, total, out, n);
}

}  // namespace atl::kernels
