// Fragments: how a model is cut into the P contiguous spans that are exchanged as one message each.
//
// The plan depends on the tensors' names, shapes and layers alone, so every site makes the same one (ParamLayout::hash
// is compared in the first message).  Tied parameters are in it once, as they are in `specs`. Source: Streaming DiLoCo,
// arXiv:2501.18512, section 2.2 (strided layers); docs/algorithms.md, 2.
#pragma once
#include <string>
#include <vector>

#include "base/param_layout.h"

namespace atl {

enum class FragmentBy { layers, bytes };

struct FragmentPlan {
  ParamLayout layout;           // tensors reordered so that each fragment is contiguous
  std::vector<Span> fragments;  // [P], ascending, without gaps; they cover the layout
};

// layers: P = 1 is everything in the given order.  Else the embedding is fragment 0 (if there are tensors with
//   ParamSpec::kEmbedding), the head is fragment P - 1 (if there are tensors with ParamSpec::kHead), and layer l goes
//   to one of the others, strided: l mod their number (l counts the layers that occur, ascending).  Within a fragment
//   the given order is kept.  Throws ConfigError when P leaves no or more fragments than there are layers, saying which
//   P are possible.
// bytes: P spans of the flat vector in the given order, sizes differing by at most one value, the larger first.
//   Throws ConfigError when P exceeds the number of values (P = 1 is always possible).
// Both: ConfigError for P < 1; Bug for a layer below kHead.
FragmentPlan plan_fragments(std::vector<ParamSpec> specs, FragmentBy by, int fragments);

}  // namespace atl
