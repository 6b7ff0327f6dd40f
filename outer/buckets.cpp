#include "outer/buckets.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace atl {

std::vector<Span> plan_buckets(const ParamLayout& layout, std::size_t cap) {
  ATOLL_CHECK(cap > 0, "a bucket must hold at least one value");
  std::vector<Span> buckets;
  const auto& entries = layout.entries();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const Span tensor = entry->span;
    if (tensor.count == 0) continue;
    if (!buckets.empty() && buckets.back().count + tensor.count <= cap)
      buckets.back() = {tensor.offset, buckets.back().count + tensor.count};
    else
      buckets.push_back(tensor);
  }
  return buckets;
}

BucketQueue::BucketQueue(const ParamLayout& layout, std::vector<Span> buckets) : buckets_(std::move(buckets)) {
  for (const ParamLayout::Entry& entry : layout.entries())
    if (entry.span.count > 0) tensors_.push_back(entry.span);
  reset();
}

void BucketQueue::reset() {
  seen_.assign(tensors_.size(), false);
  values_left_.clear();
  for (const Span& bucket : buckets_) values_left_.push_back(bucket.count);
  next_ = 0;
}

std::vector<int> BucketQueue::ready(Span tensor) {
  if (tensor.count == 0) return {};
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), tensor, [](const Span& a, const Span& b) { return a.offset < b.offset; });
  ATOLL_CHECK(at != tensors_.end() && *at == tensor, "no tensor at ", tensor.offset, " with ", tensor.count, " values");
  const auto index = static_cast<std::size_t>(at - tensors_.begin());
  ATOLL_CHECK(!seen_[index], "the tensor at ", tensor.offset, " is ready a second time");
  seen_[index] = true;
  // Buckets lie from the end of the vector to its start.
  const auto bucket = std::find_if(buckets_.begin(), buckets_.end(), [&](const Span& b) { return tensor.offset >= b.offset; });
  ATOLL_CHECK(bucket != buckets_.end() && tensor.end() <= bucket->end(), "the tensor at ", tensor.offset, " is in no bucket");
  values_left_[static_cast<std::size_t>(bucket - buckets_.begin())] -= tensor.count;

  std::vector<int> sendable;
  for (; next_ < buckets_.size() && values_left_[next_] == 0; ++next_) sendable.push_back(static_cast<int>(next_));
  return sendable;
}

bool BucketQueue::all_ready() const { return next_ == buckets_.size(); }

}  // namespace atl
