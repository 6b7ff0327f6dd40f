// Buckets: the spans in which DDP's gradients are averaged, in the order in which the backward pass finishes them.
#pragma once
#include <cstddef>
#include <vector>

#include "base/param_layout.h"

namespace atl {

// Whole tensors, from the layout's end to its start, as many a bucket as fit into `cap` values; a tensor larger than the cap
// is a bucket of its own.  Buckets cover the layout; bucket 0 is the last span.  Empty layout: no bucket.  cap > 0.
std::vector<Span> plan_buckets(const ParamLayout& layout, std::size_t cap);

// Says which buckets may be sent, always in the order 0, 1, 2 ...: bucket b when every tensor of 0 .. b is ready.
class BucketQueue {
 public:
  BucketQueue(const ParamLayout& layout, std::vector<Span> buckets);
  std::vector<int> ready(Span tensor);  // buckets that became sendable; throws Bug for a tensor unknown or ready twice
  bool all_ready() const;
  void reset();                         // for the next step

 private:
  std::vector<Span> buckets_, tensors_;  // tensors ascending, without the empty ones
  std::vector<bool> seen_;               // a tensor
  std::vector<std::size_t> values_left_;  // a bucket
  std::size_t next_ = 0;                 // bucket to be sent next
};

}  // namespace atl
