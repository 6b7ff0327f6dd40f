// Inner: what the engine knows of a model and its optimizer.  One site's live parameters are one flat vector.
//
// Two implementations: the transformer (inner/transformer_inner.h) and the linear model of the golden tests
// (tests/support/linear_inner.h).  A user's own module plugs in here.  Nothing here knows sites, rounds or Θ.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/param_layout.h"
#include "data/batch.h"
#include "kernels/place.h"

namespace atl {

struct StepReport {
  double loss = 0;           // mean training loss a token of the batch, before the step; without the z-loss
  double gradient_norm = 0;  // before the clip; 0 when clipping is off and nobody asked
  double lr = 0;             // the inner learning rate that the step used
};

// Named state beside the parameters (Adam's moments ...): for checkpoints and hashes.  At the place of the model.
struct StateSpan {
  std::string name;
  std::span<float> values;
};

class Inner {
 public:
  virtual ~Inner() = default;

  virtual const ParamLayout& layout() const = 0;
  virtual Place place() const = 0;
  virtual std::span<float>
  local() = 0;  // θ, [layout().size()], at place(); read and written by the engine between steps
  virtual std::span<float>
  gradients() = 0;  // [layout().size()], at place(); meaningful between compute_gradients and update

  // Called with the span of each tensor when its gradient is final (the mean over the batch's tokens), once a tensor
  // and batch, in the order of the backward pass, on the calling thread.
  using GradientReady = std::function<void(Span tensor)>;

  // Forward and backward, in micro-batches of the configured size; fills gradients().  Returns the batch's loss.
  virtual double compute_gradients(const Batch& batch, const GradientReady& ready) = 0;

  // Clips gradients() by their global norm if so configured, then one optimizer step; counts the inner step.
  virtual StepReport update() = 0;

  // One inner step: compute_gradients, then update.  report.loss is the batch's.
  StepReport step(const Batch& batch) {
    const double loss = compute_gradients(batch, nullptr);
    StepReport report = update();
    report.loss = loss;
    return report;
  }

  // Mean loss a token over `windows` with the parameters `params` [layout().size()] at place(); θ is left as it is.
  // Throws Bug for a window that is longer than the context or has another number of tokens than it says, ConfigError for none.
  virtual double evaluate(std::span<const float> params, const std::vector<Batch>& windows) = 0;

  virtual std::vector<StateSpan> state() = 0;  // optimizer state; the step counter is steps_done()
  virtual std::uint64_t steps_done() const = 0;
  virtual void set_steps_done(std::uint64_t steps) = 0;  // after state() was restored
};

}  // namespace atl
