#include "outer/outer_optimizer.h"

#include <utility>

#include "base/error.h"
#include "kernels/heavy_ball.h"
#include "kernels/nesterov.h"
#include "kernels/sgd.h"

namespace atl {
namespace {

std::size_t total(const std::vector<Span>& fragments) {
  std::size_t sum = 0;
  for (const Span& span : fragments) sum += span.count;
  return sum;
}

}  // namespace

OuterKind outer_kind(const std::string& name) {
  for (const OuterKind kind : {OuterKind::sgd, OuterKind::nesterov, OuterKind::heavy_ball})
    if (name == name_of(kind)) return kind;
  throw ConfigError(text("outer optimizer \"", name, "\": it must be one of sgd, nesterov, heavy_ball"));
}

std::string name_of(OuterKind kind) {
  switch (kind) {
    case OuterKind::sgd: return "sgd";
    case OuterKind::nesterov: return "nesterov";
    case OuterKind::heavy_ball: return "heavy_ball";
  }
  throw Bug("an outer optimizer without a name");
}

OuterOptimizer::OuterOptimizer(const OuterConfig& config, std::vector<Span> fragments, Place place)
    : config_(config),
      fragments_(std::move(fragments)),
      momentum_(config.kind == OuterKind::sgd ? 0 : total(fragments_), place) {}

void OuterOptimizer::step(int fragment, std::span<float> global, std::span<const float> mean) {
  ATOLL_CHECK(fragment >= 0 && static_cast<std::size_t>(fragment) < fragments_.size(), "fragment ", fragment, " of ", fragments_.size());
  const Span span = fragments_[static_cast<std::size_t>(fragment)];
  ATOLL_CHECK(global.size() == span.count && mean.size() == span.count, "global ", global.size(), ", mean ", mean.size(),
              ", fragment ", fragment, " has ", span.count);
  const Place place = momentum_.place();
  if (config_.kind == OuterKind::sgd) return kernels::sgd(global, mean, config_.lr, place);

  std::size_t before = 0;
  for (int p = 0; p < fragment; ++p) before += fragments_[static_cast<std::size_t>(p)].count;
  const auto b = slice(momentum_.values(), Span{before, span.count});
  if (config_.kind == OuterKind::nesterov)
    kernels::nesterov(global, b, mean, config_.lr, config_.momentum, place);
  else
    kernels::heavy_ball(global, b, mean, config_.lr, config_.momentum, place);
}

}  // namespace atl
