#include "kernels/accumulate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/bf16.h"
#include "support/close.h"
#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

using Values = std::vector<float>;
using Halves = std::vector<std::uint16_t>;

template <class T>
std::vector<const T*> pointers(const std::vector<std::vector<T>>& inputs) {
  std::vector<const T*> out;
  for (const auto& input : inputs) out.push_back(input.data());
  return out;
}

double total_of(const std::vector<double>& weights) { return std::accumulate(weights.begin(), weights.end(), 0.0); }

Values mean_of(const std::vector<Values>& inputs, const std::vector<double>& weights) {
  Values out(inputs[0].size(), 99.0F);
  kernels::weighted_mean(pointers(inputs), weights, total_of(weights), out, {});
  return out;
}

Values mean_of(const std::vector<Halves>& inputs, const std::vector<double>& weights) {
  Values out(inputs[0].size(), 99.0F);
  kernels::weighted_mean_bf16(pointers(inputs), weights, total_of(weights), out, {});
  return out;
}

// The formula, in rank order.
Values mean_by_formula(const std::vector<Values>& inputs, const std::vector<double>& weights) {
  Values out(inputs[0].size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = weights[0] * inputs[0][i];
    for (std::size_t r = 1; r < inputs.size(); ++r) sum += weights[r] * inputs[r][i];
    out[i] = static_cast<float>(sum / total_of(weights));
  }
  return out;
}

std::vector<Values> different_inputs(std::size_t m, std::size_t n) {
  std::vector<Values> inputs;
  for (std::size_t r = 0; r < m; ++r) inputs.push_back(normal_values(n, static_cast<std::uint32_t>(100 + r), 1e-3F));
  return inputs;
}

Halves to_bf16(const Values& values) {
  Halves out(values.size());
  kernels::to_bf16(values, out, {});
  return out;
}

TEST_CASE("weighted mean: numbers worked by hand") {
  CHECK(mean_of({Values{3.0F, -1.0F}, Values{7.0F, 1.0F}}, {1, 3}) == Values{6.0F, 0.5F});
  CHECK(mean_of({Values{0.0F}, Values{1.0F}, Values{2.0F}, Values{3.0F}}, {1, 1, 1, 1}) == Values{1.5F});
  CHECK(mean_of({Values{1.0F}, Values{1.0F}, Values{2.0F}}, {1, 1, 1}) ==
        Values{1.3333333730697632F});  // nearest to 4/3
}

TEST_CASE("weighted mean: every number of sites and every size follows the formula, bit for bit") {
  for (std::size_t m = 1; m <= 9; ++m) {
    for (const std::size_t n : kSizes) {
      CAPTURE(m);
      CAPTURE(n);
      const auto inputs = different_inputs(m, n);
      std::vector<double> weights;
      for (std::size_t r = 0; r < m; ++r) weights.push_back(static_cast<double>(1000 + 77 * r));
      CHECK(bits(mean_of(inputs, weights)) == bits(mean_by_formula(inputs, weights)));
    }
  }
}

TEST_CASE("weighted mean: equal sites give exactly one of them, for every number of sites and every weight") {
  Values x = normal_values(5000, 7, 1e-3F);
  const float largest = std::numeric_limits<float>::max(), inf = std::numeric_limits<float>::infinity();
  x.insert(x.end(), {0.0F, -0.0F, 1e-45F, -1e-45F, 1.1754942e-38F, largest, -largest, inf, -inf, 1.0F / 3.0F});
  for (std::size_t m = 1; m <= 9; ++m) {
    for (const double w : {1.0, 3.0, 1e6 + 1, 0x1p40, 0x1p40 - 1, 0x1p-20, 0.1}) {
      CAPTURE(m);
      CAPTURE(w);
      CHECK(bits(mean_of(std::vector<Values>(m, x), std::vector<double>(m, w))) == bits(x));
    }
    std::vector<double> unequal;
    for (std::size_t r = 0; r < m; ++r) unequal.push_back(0x1p40 / static_cast<double>(3 * r + 1));
    CHECK(bits(mean_of(std::vector<Values>(m, x), unequal)) == bits(x));
  }
}

TEST_CASE("weighted mean: the sum is made in rank order") {
  // 1e30 + 1 = 1e30 in fp64, so what stays of 1e30, 1, -1e30 depends on the order.
  CHECK(mean_of({Values{1e30F}, Values{1.0F}, Values{-1e30F}}, {1, 1, 1}) == Values{0.0F});
  CHECK(mean_of({Values{1e30F}, Values{-1e30F}, Values{3.0F}}, {1, 1, 1}) == Values{1.0F});
  CHECK(mean_of({Values{1e30F}, Values{1.0F}, Values{-1e30F}, Values{0.0F}, Values{5.0F}}, {1, 1, 1, 1, 1}) ==
        Values{1.0F});
}

TEST_CASE("weighted mean: fp64 keeps what fp32 sums would lose") {
  // 1 + 2^-24 + 2^-24 = 1 + 2^-23 exactly; in fp32 each addition would round back to 1.
  CHECK(mean_of({Values{1.0F}, Values{0x1p-24F}, Values{0x1p-24F}, Values{0.0F}}, {1, 1, 1, 1}) ==
        Values{(1.0F + 0x1p-23F) / 4});
}

TEST_CASE("weighted mean: out may be an input") {
  Values a{1.0F, 2.0F, 3.0F}, b{3.0F, 2.0F, 1.0F};
  const std::vector<const float*> inputs{a.data(), b.data()};
  kernels::weighted_mean(inputs, std::vector<double>{1, 1}, 2, b, {});
  CHECK(b == Values{2.0F, 2.0F, 2.0F});
}

TEST_CASE("weighted mean: bf16 inputs give what their fp32 values give") {
  for (const std::size_t m : {1U, 2U, 4U, 5U}) {
    for (const std::size_t n : kSizes) {
      CAPTURE(m);
      CAPTURE(n);
      std::vector<Halves> halves;
      std::vector<Values> wide;
      for (const Values& input : different_inputs(m, n)) {
        halves.push_back(to_bf16(input));
        Values decoded(n);
        for (std::size_t i = 0; i < n; ++i) decoded[i] = std::bit_cast<float>(std::uint32_t{halves.back()[i]} << 16U);
        wide.push_back(decoded);
      }
      std::vector<double> weights(m, 3.0);
      weights[0] = 5.0;
      CHECK(bits(mean_of(halves, weights)) == bits(mean_by_formula(wide, weights)));
    }
  }
}

TEST_CASE("weighted mean: wrong use is refused with the numbers") {
  Values a(2), out(2);
  const std::vector<const float*> none, one{a.data()};
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto call = [&](const std::vector<const float*>& inputs, const std::vector<double>& weights, double total) {
    kernels::weighted_mean(inputs, weights, total, out, {});
  };
  CHECK_THROWS_WITH_AS(call(none, {}, 1), doctest::Contains("inputs 0, weights 0"), Bug);
  CHECK_THROWS_WITH_AS(call(one, {1, 2}, 3), doctest::Contains("inputs 1, weights 2"), Bug);
  for (const double wrong : {0.0, -1.0, nan, inf}) {
    CHECK_THROWS_WITH_AS(call(one, {wrong}, 1), doctest::Contains("a weight is "), Bug);
    CHECK_THROWS_WITH_AS(call(one, {1}, wrong), doctest::Contains("total is "), Bug);
  }
}

TEST_CASE("weighted mean: cpu and cuda agree bit for bit" * doctest::skip(no_gpu())) {
  for (std::size_t m = 1; m <= 9; ++m) {
    for (const std::size_t n : kSizes) {
      CAPTURE(m);
      CAPTURE(n);
      const auto inputs = different_inputs(m, n);
      std::vector<GpuFloats> on_gpu;
      std::vector<const float*> device;
      for (const Values& input : inputs) on_gpu.emplace_back(input);
      for (GpuFloats& input : on_gpu) device.push_back(input.values().data());
      std::vector<double> weights;
      for (std::size_t r = 0; r < m; ++r) weights.push_back(static_cast<double>(1000 + 77 * r));
      GpuFloats out(Values(n, 99.0F));
      kernels::weighted_mean(device, weights, total_of(weights), out.values(), gpu());
      CHECK(out.to_host() == mean_of(inputs, weights));

      // bf16: the halves lie in buffers of floats, two in each
      std::vector<Halves> halves;
      std::vector<Buffer> half_buffers;
      std::vector<const std::uint16_t*> half_device;
      for (const Values& input : inputs) {
        halves.push_back(to_bf16(input));
        half_buffers.emplace_back((n + 1) / 2, gpu());
        copy_bytes(std::as_bytes(std::span(halves.back())), {},
                   std::as_writable_bytes(half_buffers.back().values()).first(2 * n), gpu());
      }
      for (Buffer& b : half_buffers) half_device.push_back(reinterpret_cast<const std::uint16_t*>(b.values().data()));
      kernels::weighted_mean_bf16(half_device, weights, total_of(weights), out.values(), gpu());
      CHECK(out.to_host() == mean_of(halves, weights));
    }
  }
}

}  // namespace
}  // namespace atl
