#include "outer/outer_optimizer.h"

#include "base/error.h"
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
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball})
    if (name == name_of(kind)) return kind;
  throw ConfigError(text("\"", name, "\" is no outer optimizer: those that exist are sgd, nesterov, heavy_ball"));
}

std::string name_of(OuterKind kind) {
  switch (kind) {
    case OuterKind::sgd:
      return "sgd";
    case OuterKind::nesterov:
      return "nesterov";
    case OuterKind::heavy_ball:
      return "heavy_ball";
  }
  throw Bug(text("outer optimizer ", static_cast<int>(kind), " has no name"));
}

OuterOptimizer::OuterOptimizer(const OuterConfig& config, std::vector<Span> fragments, Place place)
    : config_(config), fragments_(std::move(fragments)), place_(place) {
  ATOLL_CHECK(config.lr > 0, "outer learning rate ", config.lr);
  ATOLL_CHECK(config.momentum >= 0 && config.momentum < 1, "outer momentum ", config.momentum);
  const std::size_t n = total(fragments_);
  if (config.kind != OuterKind::sgd) momentum_ = Buffer(n, place);
}

void OuterOptimizer::step(int fragment, std::span<float> global, std::span<const float> mean) {
  ATOLL_CHECK(fragment >= 0 && static_cast<std::size_t>(fragment) < fragments_.size(), "fragment ", fragment, " of ",
              fragments_.size());
  const Span span = fragments_[static_cast<std::size_t>(fragment)];
  ATOLL_CHECK(global.size() == span.count && mean.size() == span.count, global.size(), " parameters and ", mean.size(),
              " deltas, ", span.count, " expected");
  const float lr = config_.lr, mu = config_.momentum;
  switch (config_.kind) {
    case OuterKind::sgd:
      return kernels::sgd(global, mean, lr, place_);
    case OuterKind::nesterov:
      return kernels::nesterov(global, slice(momentum_.values(), span), mean, lr, mu, place_);
    case OuterKind::heavy_ball:
      return kernels::heavy_ball(global, slice(momentum_.values(), span), mean, lr, mu, place_);
  }
}

}  // namespace atl
