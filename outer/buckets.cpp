#include "outer/buckets.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace atl {

namespace {

bool before(const Span& a, const Span& b) { return std::tie(a.offset, a.count) < std::tie(b.offset, b.count); }

// The bucket that holds this tensor whole.
std::size_t bucket_of(const std::vector<Span>& buckets, const ParamLayout::Entry& tensor) {
  const auto holds = [&](const Span& b) { return b.offset <= tensor.span.offset && tensor.span.end() <= b.end(); };
  const auto bucket = std::find_if(buckets.begin(), buckets.end(), holds);
  ATOLL_CHECK(bucket != buckets.end(), "no bucket holds all of ", tensor.spec.name);
  return static_cast<std::size_t>(bucket - buckets.begin());
}

}  // namespace

std::vector<Span> plan_buckets(const ParamLayout& layout, std::size_t cap) {
  ATOLL_CHECK(cap > 0, "a bucket of no values");
  std::vector<Span> buckets;
  Span open{.offset = layout.size(), .count = 0};  // grows towards the start
  for (auto entry = layout.entries().rbegin(); entry != layout.entries().rend(); ++entry) {
    if (open.count > 0 && open.count + entry->span.count > cap) {
      buckets.push_back(open);
      open.count = 0;
    }
    open = {.offset = entry->span.offset, .count = open.count + entry->span.count};
  }
  if (open.count > 0) buckets.push_back(open);
  return buckets;
}

BucketQueue::BucketQueue(const ParamLayout& layout, std::vector<Span> buckets) : buckets_(std::move(buckets)) {
  std::size_t end = layout.size();
  for (const Span& b : buckets_) {
    ATOLL_CHECK(b.end() == end && b.count > 0, "a bucket covers ", b.count, " values to ", b.end(),
                ", the next ends at ", end);
    end = b.offset;
  }
  ATOLL_CHECK(end == 0, "the buckets leave out the first ", end, " values");
  for (const auto& entry : layout.entries())
    tensors_.push_back({.span = entry.span, .bucket = entry.span.count > 0 ? bucket_of(buckets_, entry) : 0});
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) { return before(a.span, b.span); });
  reset();
}

std::vector<int> BucketQueue::ready(Span tensor) {
  auto found = std::lower_bound(tensors_.begin(), tensors_.end(), tensor,
                                [](const Tensor& a, const Span& b) { return before(a.span, b); });
  ATOLL_CHECK(found != tensors_.end() && found->span == tensor, "the layout has no tensor at ", tensor.offset, " of ",
              tensor.count, " values");
  while (found != tensors_.end() && found->span == tensor && found->ready) ++found;
  ATOLL_CHECK(found != tensors_.end() && found->span == tensor, "the tensor at ", tensor.offset, " of ", tensor.count,
              " values is ready twice");
  found->ready = true;
  if (tensor.count == 0) return {};
  values_left_[found->bucket] -= tensor.count;

  std::vector<int> sendable;
  for (; next_ < buckets_.size() && values_left_[next_] == 0; ++next_) sendable.push_back(static_cast<int>(next_));
  return sendable;
}

void BucketQueue::reset() {
  for (Tensor& t : tensors_) t.ready = false;
  values_left_.clear();
  for (const Span& b : buckets_) values_left_.push_back(b.count);
  next_ = 0;
}

}  // namespace atl
