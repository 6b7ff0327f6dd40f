#include "outer/fragments.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"

namespace atl {
namespace {

FragmentPlan by_bytes(std::vector<ParamSpec> specs, int fragments) {
  FragmentPlan plan{.layout = ParamLayout(std::move(specs)), .fragments = {}};
  const std::size_t n = plan.layout.size(), parts = static_cast<std::size_t>(fragments);
  if (parts > n)
    throw ConfigError(text("outer.fragments = ", fragments, ", but the model has only ", n, " parameters: it must be at most that"));
  for (std::size_t p = 0, offset = 0; p < parts; ++p) {
    const std::size_t count = n / parts + (p < n % parts ? 1 : 0);
    plan.fragments.push_back({offset, count});
    offset += count;
  }
  return plan;
}

FragmentPlan by_layers(std::vector<ParamSpec> specs, int fragments) {
  std::set<int> layers;
  bool head = false, embedding = false;
  for (const ParamSpec& spec : specs) {
    if (spec.layer >= 0) layers.insert(spec.layer);
    head = head || spec.layer == ParamSpec::kHead;
    embedding = embedding || spec.layer == ParamSpec::kEmbedding;
  }
  const int own = int{embedding} + int{head};  // fragments of their own
  const int strides = fragments - own;
  if (strides < 1 || strides > static_cast<int>(layers.size()))
    throw ConfigError(text("outer.fragments = ", fragments, " with outer.fragment_by = \"layers\", but ", own, " go to ",
                           head ? "embedding and head" : "the embedding", " and the others must hold at least one of the ", layers.size(),
                           " layers each: it must be 1, or ", own + 1, " to ", own + static_cast<int>(layers.size())));
  const auto fragment_of = [&](const ParamSpec& spec) {
    if (spec.layer == ParamSpec::kEmbedding) return 0;
    if (spec.layer == ParamSpec::kHead) return fragments - 1;
    return int{embedding} + spec.layer % strides;
  };
  std::stable_sort(specs.begin(), specs.end(), [&](const ParamSpec& a, const ParamSpec& b) { return fragment_of(a) < fragment_of(b); });

  FragmentPlan plan{.layout = ParamLayout(specs), .fragments = std::vector<Span>(static_cast<std::size_t>(fragments))};
  for (const ParamLayout::Entry& entry : plan.layout.entries())
    plan.fragments[static_cast<std::size_t>(fragment_of(entry.spec))].count += entry.span.count;
  for (std::size_t p = 1; p < plan.fragments.size(); ++p) plan.fragments[p].offset = plan.fragments[p - 1].end();
  return plan;
}

}  // namespace

FragmentPlan plan_fragments(std::vector<ParamSpec> specs, FragmentBy by, int fragments) {
  if (fragments < 1) throw ConfigError(text("outer.fragments = ", fragments, ", but it must be at least 1"));
  if (fragments == 1) {
    FragmentPlan plan{.layout = ParamLayout(std::move(specs)), .fragments = {}};
    plan.fragments = {{0, plan.layout.size()}};
    return plan;
  }
  return by == FragmentBy::bytes ? by_bytes(std::move(specs), fragments) : by_layers(std::move(specs), fragments);
}

}  // namespace atl
