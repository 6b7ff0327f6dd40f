// rotate, swiglu and token_loss one by one, in double: values by their formulas, gradients by central differences.
#include "inner/functions.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace atl;

namespace {

at::Tensor numbers(at::IntArrayRef shape, double shift) {
  at::Tensor x = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data_ptr<double>()[i] = std::sin(0.7 * static_cast<double>(i * i % 97) + shift);
  return x;
}

// The gradient of f at x against (f(x + h) - f(x - h)) / 2h.  h = 1e-5: an error of order h^2 and 1e-16 / h.
double apart(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& x) {
  const at::Tensor leaf = x.clone().requires_grad_(true);
  f(leaf).backward();
  const torch::autograd::AutoGradMode off(false);
  double most = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    at::Tensor up = x.clone(), down = x.clone();
    up.data_ptr<double>()[i] += 1e-5;
    down.data_ptr<double>()[i] -= 1e-5;
    const double slope = (f(up).item<double>() - f(down).item<double>()) / 2e-5;
    most = std::max(most, std::abs(slope - leaf.grad().data_ptr<double>()[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("rotate: turns pairs of halves; its gradient is the slope") {
  const at::Tensor angle = numbers({3, 1, 2}, 0.3), x = numbers({2, 3, 2, 4}, 0.1), weight = numbers({2, 3, 2, 4}, 0.9);
  const at::Tensor cos = angle.cos(), sin = angle.sin(), y = rotate(x, cos, sin);
  for (int b = 0; b < 2; ++b)
    for (int t = 0; t < 3; ++t)
      for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 2; ++i) {
          const double a = angle[t][0][i].item<double>(), first = x[b][t][h][i].item<double>(),
                       second = x[b][t][h][i + 2].item<double>();
          CHECK(std::abs(y[b][t][h][i].item<double>() - (first * std::cos(a) - second * std::sin(a))) < 1e-15);
          CHECK(std::abs(y[b][t][h][i + 2].item<double>() - (second * std::cos(a) + first * std::sin(a))) < 1e-15);
        }
  CHECK(apart([&](const at::Tensor& z) { return (rotate(z, cos, sin) * weight).sum(); }, x) < 1e-9);
}

TEST_CASE("swiglu: silu of the first half times the second; its gradient is the slope") {
  const at::Tensor x = numbers({3, 2, 6}, 0.2) * 3, weight = numbers({3, 2, 3}, 0.5), y = swiglu(x);
  for (int row = 0; row < 6; ++row)
    for (int i = 0; i < 3; ++i) {
      const double gate = x.view({6, 6})[row][i].item<double>(), up = x.view({6, 6})[row][i + 3].item<double>();
      CHECK(std::abs(y.view({6, 3})[row][i].item<double>() - gate / (1 + std::exp(-gate)) * up) < 1e-14);
    }
  CHECK(apart([&](const at::Tensor& z) { return (swiglu(z) * weight).sum(); }, x) < 1e-9);
}

TEST_CASE("token loss: cross-entropy and z-loss by their formulas; the objective's gradient is the slope") {
  const at::Tensor logits = numbers({4, 5}, 0.4) * 4, targets = at::arange(4, at::kLong) + 1;
  double cross_entropy = 0, squares = 0;
  for (int n = 0; n < 4; ++n) {
    double z = 0;
    for (int j = 0; j < 5; ++j) z += std::exp(logits[n][j].item<double>());
    cross_entropy += (std::log(z) - logits[n][n + 1].item<double>()) / 4;
    squares += std::log(z) * std::log(z) / 4;
  }
  for (const double z_loss : {0.0, 0.3}) {
    const TokenLoss loss = token_loss(logits, targets, z_loss);
    CHECK(std::abs(loss.cross_entropy.item<double>() - cross_entropy) < 1e-13);
    CHECK(std::abs(loss.objective.item<double>() - (cross_entropy + z_loss * squares)) < 1e-13);
    CHECK(apart([&](const at::Tensor& x) { return token_loss(x, targets, z_loss).objective * 2.5; }, logits) < 1e-9);
  }
}
