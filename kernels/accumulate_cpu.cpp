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

inline double value_of(float x) { return x; }
inline double value_of(std::uint16_t x) { return std::bit_cast<float>(detail::fp32_bits(x)); }

// Up to four inputs: the sums stay in registers, and all runs at the speed of memory, the division too.  The sums start
// as the first product, not as 0, so that -0 stays -0.
template <std::size_t m, class T>
[[gnu::always_inline]] inline void mean_of(const T* const* inputs, const double* weights, double total, float* out,
                                           std::size_t n) {
  const T* x[m];
  double w[m];
  for (std::size_t r = 0; r < m; ++r) {
    x[r] = inputs[r];
    w[r] = weights[r];
  }
  ATOLL_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    double sum = w[0] * value_of(x[0][i]);
    for (std::size_t r = 1; r < m; ++r) sum += w[r] * value_of(x[r][i]);
    out[i] = static_cast<float>(sum / total);
  }
}

// Any number of inputs: 8 KiB of sums stay in the first-level cache while the inputs stream by.
template <class T>
[[gnu::always_inline]] inline void mean_of_many(const T* const* inputs, const double* weights, std::size_t m,
                                                double total, float* out, std::size_t n) {
  constexpr std::size_t kBlock = 1024;
  double sum[kBlock];
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t count = std::min(kBlock, n - begin);
    const T* first = inputs[0] + begin;
    for (std::size_t i = 0; i < count; ++i) sum[i] = weights[0] * value_of(first[i]);
    for (std::size_t r = 1; r < m; ++r) {
      const T* x = inputs[r] + begin;
      const double w = weights[r];
      for (std::size_t i = 0; i < count; ++i) sum[i] += w * value_of(x[i]);
    }
    for (std::size_t i = 0; i < count; ++i) out[begin + i] = static_cast<float>(sum[i] / total);
  }
}

template <class T>
[[gnu::always_inline]] inline void mean(const T* const* inputs, const double* weights, std::size_t m, double total,
                                        float* out, std::size_t n) {
  switch (m) {
    case 1:
      return mean_of<1>(inputs, weights, total, out, n);
    case 2:
      return mean_of<2>(inputs, weights, total, out, n);
    case 3:
      return mean_of<3>(inputs, weights, total, out, n);
    case 4:
      return mean_of<4>(inputs, weights, total, out, n);
    default:
      return mean_of_many(inputs, weights, m, total, out, n);
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
  mean(inputs, weights, m, total, out, n);
}

ATOLL_CLONES void detail::weighted_mean_cpu(const std::uint16_t* const* inputs, const double* weights, std::size_t m,
                                            double total, float* out, std::size_t n) {
  mean(inputs, weights, m, total, out, n);
}

}  // namespace atl::kernels
