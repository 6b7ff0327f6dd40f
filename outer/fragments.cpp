#include "outer/fragments.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace atl {

namespace {

// What of a model `layers` cuts: the layers that occur, ascending, and the two ends that are fragments of their own.
struct Parts {
  std::vector<int> layers;
  int embeddings = 0;  // 0 or 1
  int heads = 0;       // 0 or 1
  int ends() const { return embeddings + heads; }
};

Parts parts_of(const std::vector<ParamSpec>& specs) {
  std::set<int> layers;
  Parts parts;
  for (const ParamSpec& s : specs) {
    ATOLL_CHECK(s.layer >= ParamSpec::kHead, "tensor ", s.name, " is in layer ", s.layer);
    if (s.layer == ParamSpec::kEmbedding) parts.embeddings = 1;
    if (s.layer == ParamSpec::kHead) parts.heads = 1;
    if (s.layer >= 0) layers.insert(s.layer);
  }
  parts.layers.assign(layers.begin(), layers.end());
  return parts;
}

// "1, or 3 to 6": what `outer.fragments` may be.
std::string possible(const Parts& parts) {
  const auto layers = static_cast<int>(parts.layers.size());
  const int least = std::max(2, parts.ends() + std::min(layers, 1)), most = parts.ends() + layers;
  if (most < least) return "1";
  if (most == least) return text("1 or ", most);
  return least == 2 ? text("1 to ", most) : text("1, or ", least, " to ", most);
}

int strided(const Parts& parts, int layer, int middle) {
  const auto at = std::lower_bound(parts.layers.begin(), parts.layers.end(), layer);
  return static_cast<int>(at - parts.layers.begin()) % middle;
}

// Tensors in the order of their fragments; count of values of each.
FragmentPlan by_layers(std::vector<ParamSpec> specs, int fragments) {
  const Parts parts = parts_of(specs);
  const auto layers = static_cast<int>(parts.layers.size());
  const int middle = fragments - parts.ends();  // fragments that hold layers
  if (middle < std::min(layers, 1) || middle > layers)
    throw ConfigError(text("outer.fragments = ", fragments, " by layers, but a model of ", layers, " layers",
                           parts.embeddings > 0 ? ", an embedding" : "", parts.heads > 0 ? ", a head" : "",
                           " can only be cut into ", possible(parts)));
  const auto fragment_of = [&](const ParamSpec& s) {
    if (s.layer == ParamSpec::kEmbedding) return 0;
    if (s.layer == ParamSpec::kHead) return fragments - 1;
    return parts.embeddings + strided(parts, s.layer, middle);
  };
  std::stable_sort(specs.begin(), specs.end(),
                   [&](const ParamSpec& a, const ParamSpec& b) { return fragment_of(a) < fragment_of(b); });

  FragmentPlan plan{.layout = ParamLayout(std::move(specs)),
                    .fragments = std::vector<Span>(static_cast<std::size_t>(fragments))};
  for (const auto& entry : plan.layout.entries())
    plan.fragments[static_cast<std::size_t>(fragment_of(entry.spec))].count += entry.span.count;
  for (std::size_t p = 1; p < plan.fragments.size(); ++p) plan.fragments[p].offset = plan.fragments[p - 1].end();
  return plan;
}

FragmentPlan by_bytes(std::vector<ParamSpec> specs, int fragments) {
  FragmentPlan plan{.layout = ParamLayout(std::move(specs)), .fragments = {}};
  const std::size_t n = plan.layout.size();
  const auto count = static_cast<std::size_t>(fragments);
  if (count > n)
    throw ConfigError(text("outer.fragments = ", fragments, " by bytes, but the model has only ", n, " values"));
  for (std::size_t p = 0, offset = 0; p < count; ++p) {
    plan.fragments.push_back({.offset = offset, .count = n / count + (p < n % count ? 1 : 0)});
    offset = plan.fragments.back().end();
  }
  return plan;
}

}  // namespace

FragmentPlan plan_fragments(std::vector<ParamSpec> specs, FragmentBy by, int fragments) {
  if (fragments < 1) throw ConfigError(text("outer.fragments = ", fragments, ", but it must be 1 or more"));
  if (fragments == 1) {
    FragmentPlan whole{.layout = ParamLayout(std::move(specs)), .fragments = {}};
    whole.fragments = {{0, whole.layout.size()}};
    return whole;
  }
  switch (by) {
    case FragmentBy::layers:
      return by_layers(std::move(specs), fragments);
    case FragmentBy::bytes:
      return by_bytes(std::move(specs), fragments);
  }
  throw Bug(text("fragments by ", static_cast<int>(by)));
}

}  // namespace atl
