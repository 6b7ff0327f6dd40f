#include "outer/buckets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"

namespace atl {
namespace {

ParamLayout layout_of(const std::vector<std::int64_t>& sizes) {
  std::vector<ParamSpec> specs;
  for (const std::int64_t n : sizes) specs.push_back({text("t", specs.size()), {n}, 0});
  return ParamLayout(std::move(specs));
}
std::vector<std::size_t> counts(const std::vector<Span>& buckets) {
  std::vector<std::size_t> all;
  for (const Span& b : buckets) all.push_back(b.count);
  return all;
}
using Counts = std::vector<std::size_t>;
using Buckets = std::vector<int>;

TEST_CASE("buckets: a tensor of cap - 1, cap, cap + 1 and 2 cap values") {
  for (const std::int64_t n : {5, 6, 7, 12})
    CHECK(plan_buckets(layout_of({n}), 6) == std::vector<Span>{{0, static_cast<std::size_t>(n)}});
}

TEST_CASE("buckets: two tensors of cap - 1, cap, cap + 1 values together") {
  CHECK(counts(plan_buckets(layout_of({2, 3}), 6)) == Counts{5});
  CHECK(counts(plan_buckets(layout_of({3, 3}), 6)) == Counts{6});
  CHECK(counts(plan_buckets(layout_of({4, 3}), 6)) == Counts{3, 4});
  CHECK(counts(plan_buckets(layout_of({6, 6}), 6)) == Counts{6, 6});
}

TEST_CASE("buckets: sizes 10 and 3 under a cap of 6 are both sent") {
  // Another project's bucketiser sent nothing here.
  CHECK(plan_buckets(layout_of({10, 3}), 6) == std::vector<Span>{{10, 3}, {0, 10}});
  CHECK(plan_buckets(layout_of({3, 10}), 6) == std::vector<Span>{{3, 10}, {0, 3}});
}

TEST_CASE("buckets: from the end to the start, since the backward pass ends with the first tensor") {
  CHECK(plan_buckets(layout_of({4, 1, 2, 3, 2}), 5) == std::vector<Span>{{7, 5}, {4, 3}, {0, 4}});
}

TEST_CASE("buckets: nothing to send is no bucket, and a tensor without values takes no room") {
  CHECK(plan_buckets(layout_of({}), 6).empty());
  CHECK(plan_buckets(layout_of({0, 0}), 6).empty());
  CHECK(plan_buckets(layout_of({0, 6, 0, 0}), 6) == std::vector<Span>{{0, 6}});
  CHECK_THROWS_AS(plan_buckets(layout_of({1}), 0), Bug);
}

TEST_CASE("bucket queue: a bucket is sendable when its last tensor is ready") {
  const ParamLayout layout = layout_of({4, 1, 2, 3, 2});
  BucketQueue queue(layout, plan_buckets(layout, 5));  // {3, 2}, {1, 2}, {4}
  CHECK(queue.ready({10, 2}).empty());
  CHECK(queue.ready({7, 3}) == Buckets{0});
  CHECK(queue.ready({5, 2}).empty());
  CHECK(queue.ready({4, 1}) == Buckets{1});
  CHECK_FALSE(queue.all_ready());
  CHECK(queue.ready({0, 4}) == Buckets{2});
  CHECK(queue.all_ready());
}

TEST_CASE("bucket queue: whole buckets that are ready early wait for those before them") {
  const ParamLayout layout = layout_of({4, 1, 2, 3, 2});
  BucketQueue queue(layout, plan_buckets(layout, 5));
  CHECK(queue.ready({0, 4}).empty());  // bucket 2
  CHECK(queue.ready({4, 1}).empty());
  CHECK(queue.ready({5, 2}).empty());  // bucket 1
  CHECK(queue.ready({10, 2}).empty());
  CHECK(queue.ready({7, 3}) == Buckets{0, 1, 2});
  CHECK(queue.all_ready());
}

TEST_CASE("bucket queue: a tensor ready twice, or none at all, is a bug that is named") {
  const ParamLayout layout = layout_of({4, 1});
  BucketQueue queue(layout, plan_buckets(layout, 100));
  queue.ready({4, 1});
  CHECK_THROWS_WITH_AS(queue.ready({4, 1}), doctest::Contains("the tensor at 4 of 1 values is ready twice"), Bug);
  CHECK_THROWS_WITH_AS(queue.ready({0, 3}), doctest::Contains("the layout has no tensor at 0 of 3 values"), Bug);
  CHECK_THROWS_AS(queue.ready({5, 1}), Bug);
  CHECK(queue.ready({0, 4}) == Buckets{0});  // as if those calls had not been
}

TEST_CASE("bucket queue: tensors without values may be announced, and nothing waits for them") {
  const ParamLayout layout = layout_of({0, 4, 0, 0, 2});
  BucketQueue queue(layout, plan_buckets(layout, 4));
  CHECK(queue.ready({4, 0}).empty());
  CHECK(queue.ready({4, 0}).empty());  // two of them lie there
  CHECK_THROWS_AS(queue.ready({4, 0}), Bug);
  CHECK(queue.ready({4, 2}) == Buckets{0});
  CHECK(queue.ready({0, 4}) == Buckets{1});
  CHECK(queue.all_ready());

  const ParamLayout nothing = layout_of({0});
  BucketQueue none(nothing, plan_buckets(nothing, 4));
  CHECK(none.all_ready());
  CHECK(none.ready({0, 0}).empty());
}

TEST_CASE("bucket queue: after a reset the next step starts from nothing") {
  const ParamLayout layout = layout_of({4, 1});
  BucketQueue queue(layout, plan_buckets(layout, 4));
  queue.ready({4, 1});
  queue.reset();
  CHECK_FALSE(queue.all_ready());
  CHECK(queue.ready({4, 1}) == Buckets{0});
  CHECK(queue.ready({0, 4}) == Buckets{1});
  CHECK(queue.all_ready());
}

TEST_CASE("bucket queue: buckets of another layout are refused") {
  const ParamLayout layout = layout_of({4, 2});
  CHECK_THROWS_AS(BucketQueue(layout, {{3, 3}, {0, 3}}), Bug);  // cuts a tensor
  CHECK_THROWS_AS(BucketQueue(layout, {{4, 2}}), Bug);          // leaves one out
  CHECK_THROWS_AS(BucketQueue(layout, {{0, 4}, {4, 2}}), Bug);  // the wrong way round
  CHECK_THROWS_AS(BucketQueue(layout, {}), Bug);
}

TEST_CASE(
    "buckets: any layout is covered once, none above the cap but single tensors, and each is sent once in order") {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
  for (int i = 0; i < 400; ++i) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(below(9)));
    for (auto& n : sizes) n = below(14);
    const auto cap = static_cast<std::size_t>(1 + below(20));
    const ParamLayout layout = layout_of(sizes);
    const auto buckets = plan_buckets(layout, cap);

    std::size_t end = layout.size();
    for (const Span& b : buckets) {
      REQUIRE(b.end() == end);
      REQUIRE(b.count > 0);
      end = b.offset;
      const auto tensors = std::count_if(layout.entries().begin(), layout.entries().end(), [&](const auto& e) {
        return e.span.count > 0 && e.span.offset >= b.offset && e.span.end() <= b.end();
      });
      REQUIRE((b.count <= cap || tensors == 1));
    }
    REQUIRE(end == 0);
    for (std::size_t b = 1; b < buckets.size(); ++b) {  // the tensor at the start of b's right neighbour did not fit in
      const auto next = std::find_if(layout.entries().rbegin(), layout.entries().rend(), [&](const auto& e) {
        return e.span.count > 0 && e.span.end() == buckets[b].end();
      });
      REQUIRE(buckets[b - 1].count + next->span.count > cap);
    }

    BucketQueue queue(layout, buckets);
    for (int step = 0; step < 2; ++step) {
      std::vector<Span> order;
      for (const auto& e : layout.entries()) order.push_back(e.span);
      std::shuffle(order.begin(), order.end(), random);
      Buckets sent, want(buckets.size());
      std::iota(want.begin(), want.end(), 0);
      for (const Span& tensor : order)
        for (const int b : queue.ready(tensor)) sent.push_back(b);
      REQUIRE(sent == want);
      REQUIRE(queue.all_ready());
      queue.reset();
    }
  }
}

}  // namespace
}  // namespace atl
