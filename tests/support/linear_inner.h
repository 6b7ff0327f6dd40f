// LinearInner: y = w x + b with a mean squared error and plain SGD, gradients by hand.  The model of MaxText's DiLoCo
// test.
#pragma once
#include <memory>
#include <vector>

#include "inner/inner.h"

namespace atl {

struct LinearData {
  std::vector<std::vector<float>> x;  // [samples][features]
  std::vector<float> y;               // [samples]
};

// Parameters: w [features], then b.  Every step uses all samples: loss = mean (w x + b - y)^2.
class LinearInner : public Inner {
 public:
  LinearInner(std::vector<float> w, float b, LinearData data, float lr)
      : layout_({{"w", {static_cast<std::int64_t>(w.size())}, 0}, {"b", {1}, 0}}),
        local_(std::move(w)),
        data_(std::move(data)),
        lr_(lr) {
    local_.push_back(b);
    gradient_.resize(local_.size());
  }

  const ParamLayout& layout() const override { return layout_; }
  Place place() const override { return {}; }
  std::span<float> local() override { return local_; }
  std::span<float> gradients() override { return gradient_; }

  double compute_gradients(const Batch&, const GradientReady& ready) override {
    const std::size_t features = local_.size() - 1;
    const float scale = 2.0F / static_cast<float>(data_.y.size());
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    for (std::size_t s = 0; s < data_.y.size(); ++s) {
      const float error = residual(local_, s);
      for (std::size_t i = 0; i < features; ++i) gradient_[i] += scale * error * data_.x[s][i];
      gradient_[features] += scale * error;
    }
    if (ready) {
      ready({features, 1});
      ready({0, features});
    }
    return loss(local_);
  }
  StepReport update() override {
    ++steps_;
    for (std::size_t i = 0; i < local_.size(); ++i) local_[i] -= lr_ * gradient_[i];
    return {.loss = 0, .gradient_norm = 0, .lr = lr_};
  }
  double evaluate(std::span<const float> params, const std::vector<Batch>&) override { return loss(params); }
  std::vector<StateSpan> state() override { return {}; }
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  float residual(std::span<const float> p, std::size_t s) const {
    float y = p.back();
    for (std::size_t i = 0; i + 1 < p.size(); ++i) y += p[i] * data_.x[s][i];
    return y - data_.y[s];
  }
  double loss(std::span<const float> p) const {
    double sum = 0;
    for (std::size_t s = 0; s < data_.y.size(); ++s) sum += double{residual(p, s)} * double{residual(p, s)};
    return sum / static_cast<double>(data_.y.size());
  }

  ParamLayout layout_;
  std::vector<float> local_, gradient_;
  LinearData data_;
  float lr_;
  std::uint64_t steps_ = 0;
};

// Site 0 or 1 of MaxText's test (docs/algorithms.md, 1).
inline std::unique_ptr<Inner> maxtext_linear(int site) {
  const LinearData data = site == 0 ? LinearData{{{0, 1}, {1, 0}}, {1, 2}} : LinearData{{{1, 0}, {0, 1}}, {2, 3}};
  return std::make_unique<LinearInner>(std::vector<float>{2, 1}, 1.0F, data, 0.1F);
}

}  // namespace atl
