#include "outer/fragments.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"

namespace atl {
namespace {

constexpr int kEmbedding = ParamSpec::kEmbedding, kHead = ParamSpec::kHead;

// A small model: an embedding of 10 values, two tensors (3 and 4 values) a layer, a last norm of 2, and a head of 20
// when it is not tied to the embedding.
std::vector<ParamSpec> model(int layers, bool tied) {
  std::vector<ParamSpec> specs{{"embedding", {5, 2}, kEmbedding}};
  for (int l = 0; l < layers; ++l) {
    specs.push_back({"layer" + std::to_string(l) + ".norm", {3}, l});
    specs.push_back({"layer" + std::to_string(l) + ".weight", {2, 2}, l});
  }
  specs.push_back({"norm", {2}, tied ? layers - 1 : kHead});
  if (!tied) specs.push_back({"head", {10, 2}, kHead});
  return specs;
}

std::vector<std::string> names(const ParamLayout& layout, Span span) {
  std::vector<std::string> found;
  for (const auto& e : layout.entries())
    if (e.span.count > 0 && e.span.offset >= span.offset && e.span.end() <= span.end()) found.push_back(e.spec.name);
  return found;
}

// They follow one another without gaps, and together are the layout.
void check_whole(const FragmentPlan& plan, int fragments) {
  REQUIRE(plan.fragments.size() == static_cast<std::size_t>(fragments));
  std::size_t end = 0;
  for (const Span& f : plan.fragments) {
    CHECK(f.offset == end);
    end = f.end();
  }
  CHECK(end == plan.layout.size());
}

TEST_CASE("fragments: one is everything in the given order") {
  for (const FragmentBy by : {FragmentBy::layers, FragmentBy::bytes}) {
    const auto specs = model(3, false);
    const FragmentPlan plan = plan_fragments(specs, by, 1);
    check_whole(plan, 1);
    CHECK(plan.layout.hash() == ParamLayout(specs).hash());
    CHECK(plan.fragments[0].count == 10 + 3 * 7 + 2 + 20);
  }
}

TEST_CASE("fragments: by layers, an untied model has embedding and head apart, layers strided between") {
  const FragmentPlan plan = plan_fragments(model(5, false), FragmentBy::layers, 4);
  check_whole(plan, 4);
  using Names = std::vector<std::string>;
  CHECK(names(plan.layout, plan.fragments[0]) == Names{"embedding"});
  CHECK(names(plan.layout, plan.fragments[1]) ==
        Names{"layer0.norm", "layer0.weight", "layer2.norm", "layer2.weight", "layer4.norm", "layer4.weight"});
  CHECK(names(plan.layout, plan.fragments[2]) == Names{"layer1.norm", "layer1.weight", "layer3.norm", "layer3.weight"});
  CHECK(names(plan.layout, plan.fragments[3]) == Names{"norm", "head"});
  CHECK(plan.fragments == std::vector<Span>{{0, 10}, {10, 21}, {31, 14}, {45, 22}});
}

TEST_CASE("fragments: by layers, a tied model has no head") {
  const FragmentPlan plan = plan_fragments(model(4, true), FragmentBy::layers, 4);
  check_whole(plan, 4);
  using Names = std::vector<std::string>;
  CHECK(names(plan.layout, plan.fragments[0]) == Names{"embedding"});
  CHECK(names(plan.layout, plan.fragments[1]) ==
        Names{"layer0.norm", "layer0.weight", "layer3.norm", "layer3.weight", "norm"});
  CHECK(names(plan.layout, plan.fragments[2]) == Names{"layer1.norm", "layer1.weight"});
  CHECK(names(plan.layout, plan.fragments[3]) == Names{"layer2.norm", "layer2.weight"});
}

TEST_CASE("fragments: by layers, a model without embedding and head uses all of them for layers") {
  const FragmentPlan plan = plan_fragments({{"a", {2}, 0}, {"b", {3}, 1}, {"c", {4}, 2}}, FragmentBy::layers, 2);
  check_whole(plan, 2);
  CHECK(plan.fragments == std::vector<Span>{{0, 6}, {6, 3}});
  CHECK(plan.layout.at("c").span == Span{2, 4});
}

TEST_CASE("fragments: by layers, numbers of layers with gaps are counted, not used as they are") {
  const FragmentPlan plan = plan_fragments({{"a", {1}, 0}, {"b", {1}, 10}, {"c", {1}, 20}}, FragmentBy::layers, 3);
  CHECK(plan.fragments == std::vector<Span>{{0, 1}, {1, 1}, {2, 1}});
}

TEST_CASE("fragments: by layers, every possible number works, and every other is refused with those that are") {
  const auto refused = [](std::vector<ParamSpec> specs, int fragments, const char* message) {
    CAPTURE(fragments);
    CHECK_THROWS_WITH_AS(plan_fragments(std::move(specs), FragmentBy::layers, fragments), message, ConfigError);
  };
  for (int p = 3; p <= 6; ++p) check_whole(plan_fragments(model(4, false), FragmentBy::layers, p), p);
  refused(
      model(4, false), 2,
      "outer.fragments = 2 by layers, but a model of 4 layers, an embedding, a head can only be cut into 1, or 3 to 6");
  refused(
      model(4, false), 7,
      "outer.fragments = 7 by layers, but a model of 4 layers, an embedding, a head can only be cut into 1, or 3 to 6");
  for (int p = 2; p <= 5; ++p) check_whole(plan_fragments(model(4, true), FragmentBy::layers, p), p);
  refused(model(4, true), 6,
          "outer.fragments = 6 by layers, but a model of 4 layers, an embedding can only be cut into 1 to 5");
  refused(model(1, true), 3,
          "outer.fragments = 3 by layers, but a model of 1 layers, an embedding can only be cut into 1 or 2");
  refused({{"a", {2}, 0}}, 2, "outer.fragments = 2 by layers, but a model of 1 layers can only be cut into 1");
  refused(model(1, true), 0, "outer.fragments = 0, but it must be 1 or more");
  CHECK_THROWS_AS(plan_fragments({{"a", {2}, -3}, {"b", {2}, 0}}, FragmentBy::layers, 2), Bug);
}

TEST_CASE("fragments: by bytes, sizes differ by one at most, whatever the tensors") {
  const auto specs = model(2, false);  // 10 + 14 + 22 = 46 values
  const FragmentPlan plan = plan_fragments(specs, FragmentBy::bytes, 4);
  CHECK(plan.fragments == std::vector<Span>{{0, 12}, {12, 12}, {24, 11}, {35, 11}});
  CHECK(plan.layout.hash() == ParamLayout(specs).hash());  // the given order
  for (const int p : {2, 3, 7, 45, 46}) {
    const FragmentPlan many = plan_fragments(specs, FragmentBy::bytes, p);
    check_whole(many, p);
    const auto [least, most] = std::minmax_element(many.fragments.begin(), many.fragments.end(),
                                                   [](const Span& a, const Span& b) { return a.count < b.count; });
    CHECK(least->count >= 1);
    CHECK(most->count - least->count <= 1);
  }
  CHECK_THROWS_WITH_AS(plan_fragments(specs, FragmentBy::bytes, 47),
                       "outer.fragments = 47 by bytes, but the model has only 46 values", ConfigError);
}

TEST_CASE("fragments: a model of nothing is one fragment of nothing") {
  const FragmentPlan plan = plan_fragments({}, FragmentBy::bytes, 1);
  CHECK(plan.fragments == std::vector<Span>{{0, 0}});
  CHECK(plan_fragments({{"empty", {0, 3}, 0}}, FragmentBy::layers, 1).layout.size() == 0);
}

TEST_CASE("fragments: any model by layers keeps every tensor once, in the given order within a fragment") {
  std::mt19937 random(77);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int i = 0; i < 300; ++i) {
    const bool embedding = below(2) == 0, head = below(2) == 0;
    const int layers = 1 + below(8);
    std::vector<ParamSpec> specs;
    const auto add = [&](int layer) {
      for (int tensors = 1 + below(3); tensors > 0; --tensors)
        specs.push_back({text("t", specs.size()), {below(4), 1 + below(3)}, layer});  // also empty ones
    };
    if (embedding) add(kEmbedding);
    for (int l = 0; l < layers; ++l) add(l);
    if (head) add(kHead);
    std::shuffle(specs.begin(), specs.end(), random);
    const int ends = int{embedding} + int{head}, middle = 1 + below(layers);
    if (ends + middle == 1) continue;  // everything as it is

    const FragmentPlan plan = plan_fragments(specs, FragmentBy::layers, ends + middle);
    check_whole(plan, ends + middle);
    CHECK(plan_fragments(specs, FragmentBy::layers, ends + middle).layout.hash() == plan.layout.hash());
    std::map<int, std::vector<std::string>> want;  // by fragment
    for (const ParamSpec& s : specs)
      want[s.layer == kEmbedding ? 0
           : s.layer == kHead    ? ends + middle - 1
                                 : int{embedding} + s.layer % middle]
          .push_back(s.name);
    std::vector<std::string> order, got;
    for (const auto& [p, group] : want) order.insert(order.end(), group.begin(), group.end());
    for (const auto& e : plan.layout.entries()) got.push_back(e.spec.name);
    CHECK(got == order);
    for (const auto& [p, group] : want) {
      std::size_t count = 0;
      for (const auto& name : group) count += plan.layout.at(name).span.count;
      CHECK(plan.fragments[static_cast<std::size_t>(p)].count == count);
    }
  }
}

}  // namespace
}  // namespace atl
