// StubInner: parameters that fall by lr * gradient at every step, with a constant gradient; and a loss that the test
// says.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "inner/inner.h"

namespace atl {

class StubInner : public Inner {
 public:
  // Tensors of one value each.
  StubInner(std::vector<float> start, std::vector<float> gradient, float lr)
      : layout_(ones(start.size())), local_(std::move(start)), gradient_(std::move(gradient)), lr_(lr) {}

  std::function<float(std::uint64_t)> lr_at;                                         // of inner step t; not set: lr
  std::function<double(std::uint64_t)> loss_at = [](std::uint64_t) { return 1.0; };  // of inner step t = 1, 2, ...

  const ParamLayout& layout() const override { return layout_; }
  Place place() const override { return {}; }
  std::span<float> local() override { return local_; }
  std::span<float> gradients() override { return gradient_; }
  double compute_gradients(const Batch&, const GradientReady& ready) override {
    if (ready)
      for (const ParamLayout::Entry& entry : layout_.entries()) ready(entry.span);
    return loss_at(steps_ + 1);
  }
  StepReport update() override {
    ++steps_;
    const float lr = lr_at ? lr_at(steps_) : lr_;
    for (std::size_t i = 0; i < local_.size(); ++i) local_[i] -= lr * gradient_[i];
    return {.loss = 0, .gradient_norm = 0, .lr = lr};
  }
  double evaluate(std::span<const float>, const std::vector<Batch>&) override { return loss_at(steps_); }
  std::vector<StateSpan> state() override { return {}; }
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  static std::vector<ParamSpec> ones(std::size_t n) {
    std::vector<ParamSpec> specs;
    for (std::size_t i = 0; i < n; ++i) specs.push_back({text("p", i), {1}, 0});
    return specs;
  }

  ParamLayout layout_;
  std::vector<float> local_, gradient_;
  float lr_;
  std::uint64_t steps_ = 0;
};

}  // namespace atl
