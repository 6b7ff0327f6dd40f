// Buckets: the spans in which DDP's gradients are averaged, in the order in which the backward pass finishes them.
//
// Here only which values go together and when; the engine sends them (src/app/site.cpp).
#pragma once
#include <cstddef>
#include <vector>

#include "base/param_layout.h"

namespace atl {

// Whole tensors, from the layout's end to its start, as many a bucket as fit into `cap` values; a tensor larger than
// the cap is a bucket of its own.  Buckets cover the layout; bucket 0 is the last span, none is empty.  No values: no
// bucket. Throws Bug for cap = 0.
std::vector<Span> plan_buckets(const ParamLayout& layout, std::size_t cap);

// Says which buckets may be sent, always in the order 0, 1, 2 ...: bucket b when every tensor of 0 .. b is ready.
// A tensor without values belongs to no bucket: none waits for it, but it may be announced.
class BucketQueue {
 public:
  // `buckets` as plan_buckets made them for this layout; throws Bug when one cuts a tensor or they do not cover it.
  BucketQueue(const ParamLayout& layout, std::vector<Span> buckets);
  std::vector<int> ready(Span tensor);  // buckets that became sendable; throws Bug for a tensor unknown or ready twice
  bool all_ready() const { return next_ == buckets_.size(); }
  void reset();  // for the next step: no tensor is ready

 private:
  struct Tensor {
    Span span;
    std::size_t bucket = 0;  // for one with values
    bool ready = false;
  };
  std::vector<Span> buckets_;
  std::vector<Tensor> tensors_;           // ascending; several without values may have one span
  std::vector<std::size_t> values_left_;  // per bucket
  std::size_t next_ = 0;                  // buckets said to be sendable
};

}  // namespace atl
