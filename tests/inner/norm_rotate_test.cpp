// norm_bf16 and norm_rotate_bf16 against at::rms_norm and the rotation in double, forward and back.
#include "inner/norm_rotate.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "inner/functions.h"

using namespace atl;

namespace {

at::Tensor numbers(at::IntArrayRef shape, double shift) {
  at::Tensor x = at::empty(shape, at::kFloat);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data_ptr<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i * i % 977) + shift));
  return x;
}

struct Result {
  at::Tensor y, dx, d_weight;
};
template <class F>
Result both(const F& f, at::Tensor x, at::Tensor weight, const at::Tensor& dy) {
  x = x.detach().requires_grad_(true);
  weight = weight.detach().requires_grad_(true);
  const at::Tensor y = f(x, weight);
  (y.to(at::kDouble) * dy.to(at::kDouble)).sum().backward();
  return {y.detach(), x.grad(), weight.grad()};
}
double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}
double largest(const at::Tensor& a) { return a.to(at::kDouble).abs().max().item<double>(); }

}  // namespace

TEST_CASE("norm in bf16: fp32 or bf16 rows, whole or a part of a wider tensor, are those of double, rounded once") {
  // rows around a block of 64, widths around a vector's 16
  for (const auto& [batch, length, heads, d] :
       {std::array{1, 1, 1, 2}, {1, 63, 1, 6}, {2, 32, 1, 16}, {5, 13, 1, 18}, {2, 50, 3, 32}, {3, 70, 2, 130}})
    for (const bool turns : {false, true})
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        CAPTURE(batch * length * heads);
        CAPTURE(d);
        CAPTURE(turns);
        const at::Tensor wide = numbers({batch, length, heads + 2, d}, 0.2).to(dtype);
        const at::Tensor x = wide.narrow(2, 1, heads), weight = numbers({d}, 0.5) + 1.5F;
        const at::Tensor dy = numbers({batch, length, heads, d}, 0.9).to(at::kBFloat16);
        const at::Tensor angle = numbers({length, 1, d / 2}, 0.1), cos = angle.cos(), sin = angle.sin();
        const Result got = both(
            [&](const at::Tensor& a, const at::Tensor& w) {
              return turns ? norm_rotate_bf16(a, w, 1e-6, cos, sin) : norm_bf16(a, w, 1e-6);
            },
            x, weight, dy);
        const Result want = both(
            [&](const at::Tensor& a, const at::Tensor& w) {
              const at::Tensor y = at::rms_norm(a, {a.size(-1)}, w, 1e-6);
              return turns ? rotate(y, cos.to(at::kDouble), sin.to(at::kDouble)) : y;
            },
            x.to(at::kDouble), weight.to(at::kDouble), dy);
        CHECK((got.y.scalar_type() == at::kBFloat16));
        CHECK((got.dx.scalar_type() == dtype));
        const double bf16 = std::ldexp(1.0, -9), fp32 = 16 * std::ldexp(1.0, -24);  // half an ulp, and a little of fp32
        const double d_root = std::sqrt(static_cast<double>(d));
        CHECK(apart(got.y, want.y) <= (bf16 + d_root * fp32) * 2 * largest(want.y));
        CHECK(apart(got.dx, want.dx) <=
              ((dtype == at::kFloat ? 0 : bf16) + d_root * fp32) * 2 * largest(want.dx) + 1e-6);
        // sums over all rows
        CHECK(apart(got.d_weight, want.d_weight) <= fp32 * batch * length * heads * 4);
      }
}
