// LinearInner: y = w . x + b under the mean squared error, with gradients by hand and plain SGD.  No torch.
//
// One site's whole data are its X and Y; the batch that it is given is ignored.  Every inner step is full-batch
// gradient descent, so a few steps of DiLoCo can be followed with pencil and paper (docs/algorithms.md, 1, list 1).
#pragma once
#include <cmath>
#include <stdexcept>
#include <vector>

#include "inner/inner.h"

namespace atl {

struct LinearData {
  std::vector<std::vector<float>> x;  // [samples][inputs]
  std::vector<float> y;               // [samples]
};

class LinearInner : public Inner {
 public:
  // Starts at w [inputs], b, the same at every site.
  LinearInner(std::vector<float> w, float b, LinearData data, float lr)
      : layout_({{"w", {static_cast<std::int64_t>(w.size())}, 0}, {"b", {1}, 0}}),
        local_(std::move(w)),
        data_(std::move(data)),
        lr_(lr) {
    local_.push_back(b);
    gradients_.resize(local_.size());
    for (const auto& x : data_.x)
      if (x.size() + 1 != local_.size()) throw std::invalid_argument("a sample with another number of inputs");
    if (data_.x.size() != data_.y.size() || data_.y.empty()) throw std::invalid_argument("samples without targets");
  }

  const ParamLayout& layout() const override { return layout_; }
  Place place() const override { return {}; }
  std::span<float> local() override { return local_; }
  std::span<float> gradients() override { return gradients_; }

  // d/dw mean (p - y)^2 = mean 2 (p - y) x, d/db = mean 2 (p - y).  Ready from the output back: b, then w.
  double compute_gradients(const Batch&, const GradientReady& ready) override {
    const std::size_t inputs = local_.size() - 1;
    std::vector<double> sum(local_.size(), 0.0);
    for (std::size_t s = 0; s < data_.y.size(); ++s) {
      const double slope = 2 * error(local_, s);
      for (std::size_t i = 0; i < inputs; ++i) sum[i] += slope * double{data_.x[s][i]};
      sum[inputs] += slope;
    }
    const auto samples = static_cast<double>(data_.y.size());
    for (std::size_t i = 0; i < sum.size(); ++i) gradients_[i] = static_cast<float>(sum[i] / samples);
    if (ready) {
      ready(layout_.at("b").span);
      ready(layout_.at("w").span);
    }
    return loss(local_);
  }

  StepReport update() override {
    ++steps_;
    double squares = 0;
    for (std::size_t i = 0; i < local_.size(); ++i) {
      squares += double{gradients_[i]} * double{gradients_[i]};
      local_[i] -= lr_ * gradients_[i];
    }
    return {.loss = 0, .gradient_norm = std::sqrt(squares), .lr = double{lr_}};
  }

  double evaluate(std::span<const float> params, const std::vector<Batch>&) override { return loss(params); }
  std::vector<StateSpan> state() override { return {}; }
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  double error(std::span<const float> params, std::size_t sample) const {
    const std::size_t inputs = params.size() - 1;
    double prediction = params[inputs];
    for (std::size_t i = 0; i < inputs; ++i) prediction += double{params[i]} * double{data_.x[sample][i]};
    return prediction - double{data_.y[sample]};
  }
  double loss(std::span<const float> params) const {
    double sum = 0;
    for (std::size_t s = 0; s < data_.y.size(); ++s) sum += error(params, s) * error(params, s);
    return sum / static_cast<double>(data_.y.size());
  }

  ParamLayout layout_;
  std::vector<float> local_, gradients_;  // [inputs + 1]: w, then b
  LinearData data_;
  float lr_;
  std::uint64_t steps_ = 0;
};

}  // namespace atl
