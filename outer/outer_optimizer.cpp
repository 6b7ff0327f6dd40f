#include "outer/outer_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "kernels/adam.h"
#include "kernels/add.h"
#include "kernels/heavy_ball.h"
#include "kernels/nesterov.h"
#include "kernels/sgd.h"

namespace atl {

namespace {

// The values that all fragments hold together; they must lie back to back from 0, since momentum() is laid out like Θ.
std::size_t total(const std::vector<Span>& fragments) {
  std::size_t end = 0;
  for (const Span& f : fragments) {
    ATOLL_CHECK(f.offset == end, "a fragment starts at ", f.offset, ", the one before ends at ", end);
    end = f.end();
  }
  return end;
}

}  // namespace

OuterKind outer_kind(const std::string& name) {
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball, OuterKind::adam})
    if (name == name_of(kind)) return kind;
  throw ConfigError(text("\"", name, "\" is no outer optimizer: those that exist are sgd, nesterov, heavy_ball, adam"));
}

std::string name_of(OuterKind kind) {
  switch (kind) {
    case OuterKind::sgd:
      return "sgd";
    case OuterKind::nesterov:
      return "nesterov";
    case OuterKind::heavy_ball:
      return "heavy_ball";
    case OuterKind::adam:
      return "adam";
  }
  throw Bug(text("outer optimizer ", static_cast<int>(kind), " has no name"));
}

OuterOptimizer::OuterOptimizer(const OuterConfig& config, std::vector<Span> fragments, Place place)
    : config_(config), fragments_(std::move(fragments)), place_(place) {
  ATOLL_CHECK(config.lr > 0, "outer learning rate ", config.lr);
  ATOLL_CHECK(config.momentum >= 0 && config.momentum < 1, "outer momentum ", config.momentum);
  ATOLL_CHECK(config.beta2 >= 0 && config.beta2 < 1 && config.eps > 0, "outer beta2 ", config.beta2, ", eps ",
              config.eps);
  const std::size_t n = total(fragments_);
  if (config.kind != OuterKind::sgd) momentum_ = Buffer(n, place);
  if (config.kind == OuterKind::adam) second_ = Buffer(n, place);
}

Span OuterOptimizer::checked(int fragment, std::size_t global, std::size_t mean) const {
  ATOLL_CHECK(fragment >= 0 && static_cast<std::size_t>(fragment) < fragments_.size(), "fragment ", fragment, " of ",
              fragments_.size());
  const Span span = fragments_[static_cast<std::size_t>(fragment)];
  ATOLL_CHECK(global == span.count && mean == span.count, global, " parameters and ", mean, " deltas, ", span.count,
              " expected");
  return span;
}

namespace {

std::span<float> part(Buffer& buffer, Span span) {
  return buffer.values().empty() ? std::span<float>() : slice(buffer.values(), span);
}

}  // namespace

void OuterOptimizer::step(int fragment, std::span<float> global, std::span<const float> mean, const OuterRates& rates) {
  const Span span = checked(fragment, global.size(), mean.size());
  step(global, part(momentum_, span), part(second_, span), mean, rates);
}

void OuterOptimizer::step(int fragment, std::span<float> global, std::span<const float> mean) {
  ATOLL_CHECK(config_.kind != OuterKind::adam, "adam must know the number of its step");
  step(fragment, global, mean, {.lr = config_.lr, .momentum = config_.momentum, .step = 2});
}

void OuterOptimizer::look_ahead(int fragment, std::span<const float> global, std::span<const float> mean,
                                const OuterRates& rates, std::span<float> out) {
  const Span span = checked(fragment, global.size(), mean.size());
  ATOLL_CHECK(out.size() == span.count, "room for ", out.size(), " parameters, ", span.count, " needed");
  std::size_t largest = 0;
  for (const Span& f : fragments_) largest = std::max(largest, f.count);
  const auto copied = [&](Buffer& from, Buffer& scratch) {
    if (from.values().empty()) return std::span<float>();
    if (scratch.values().empty()) scratch = Buffer(largest, place_);
    const auto to = scratch.values().first(span.count);
    copy(slice(std::as_const(from).values(), span), place_, to, place_);
    return to;
  };
  copy(global, place_, out, place_);
  step(out, copied(momentum_, scratch_momentum_), copied(second_, scratch_second_), mean, rates);
}

void OuterOptimizer::step(std::span<float> global, std::span<float> momentum, std::span<float> second,
                          std::span<const float> mean, const OuterRates& rates) {
  if (rates.step == 1) {
    kernels::set_zero(momentum, place_);
    kernels::set_zero(second, place_);
  }
  switch (config_.kind) {
    case OuterKind::sgd:
      return kernels::sgd(global, mean, rates.lr, place_);
    case OuterKind::nesterov:
      return kernels::nesterov(global, momentum, mean, rates.lr, rates.momentum, place_);
    case OuterKind::heavy_ball:
      return kernels::heavy_ball(global, momentum, mean, rates.lr, rates.momentum, place_);
    case OuterKind::adam: {
      // With a momentum that changes (warm-up), 1 - μ^t is only Adam's correction in the limit; μ = 0 at first is exact.
      const double t = static_cast<double>(rates.step), beta1 = rates.momentum, beta2 = config_.beta2;
      return kernels::adam(global, momentum, second, mean,
                           {.beta1 = rates.momentum,
                            .beta2 = config_.beta2,
                            .lr = static_cast<float>(rates.lr / (1 - std::pow(beta1, t))),
                            .root = static_cast<float>(std::sqrt(1 - std::pow(beta2, t))),
                            .eps = config_.eps},
                           place_);
    }
  }
}

}  // namespace atl
