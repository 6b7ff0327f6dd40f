// StubInner: parameters that fall by lr * gradient at every step, with a constant gradient; and a loss that the test
// says.
#pragma once
#include <functional>
#include <vector>

#include "inner/inner.h"

namespace atl {

class StubInner : public Inner {
 public:
  StubInner(std::vector<float> start, std::vector<float> gradient, float lr)
      : layout_({{"p", {static_cast<std::int64_t>(start.size())}, 0}}),
        local_(std::move(start)),
        gradient_(std::move(gradient)),
        lr_(lr) {}

  std::function<double(std::uint64_t)> loss_at = [](std::uint64_t) { return 1.0; };  // of inner step t = 1, 2, ...

  const ParamLayout& layout() const override { return layout_; }
  Place place() const override { return {}; }
  std::span<float> local() override { return local_; }
  std::span<float> gradients() override { return gradient_; }
  double compute_gradients(const Batch&, const GradientReady& ready) override {
    if (ready) ready({0, local_.size()});
    return loss_at(steps_ + 1);
  }
  StepReport update() override {
    ++steps_;
    for (std::size_t i = 0; i < local_.size(); ++i) local_[i] -= lr_ * gradient_[i];
    return {.loss = 0, .gradient_norm = 0, .lr = lr_};
  }
  double evaluate(std::span<const float>, const std::vector<Batch>&) override { return loss_at(steps_); }
  std::vector<StateSpan> state() override { return {}; }
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  ParamLayout layout_;
  std::vector<float> local_, gradient_;
  float lr_;
  std::uint64_t steps_ = 0;
};

}  // namespace atl
