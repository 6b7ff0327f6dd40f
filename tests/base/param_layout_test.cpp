#include "base/param_layout.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace atl {
namespace {

ParamLayout example() {
  return ParamLayout({{.name = "embed", .shape = {3, 4}, .layer = ParamSpec::kEmbedding},
                      {.name = "scale", .shape = {}, .layer = 0},
                      {.name = "empty", .shape = {0, 7}, .layer = 0},
                      {.name = "head", .shape = {5}, .layer = ParamSpec::kHead}});
}

TEST_CASE("layout: tensors lie back to back in the order given; a scalar has one value, an empty tensor none") {
  const ParamLayout layout = example();
  CHECK(layout.size() == 18);
  REQUIRE(layout.entries().size() == 4);
  CHECK(layout.at("embed").span == Span{0, 12});
  CHECK(layout.at("scale").span == Span{12, 1});
  CHECK(layout.at("empty").span == Span{13, 0});
  CHECK(layout.at("head").span == Span{13, 5});
  CHECK(layout.at("head").span.end() == layout.size());
  CHECK(ParamLayout().size() == 0);
}

TEST_CASE("layout: a slice is the tensor's part of the flat vector") {
  std::vector<float> flat(18);
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(i);
  const auto head = slice(std::span(flat), example().at("head").span);
  CHECK(head.size() == 5);
  CHECK(head.front() == 13.0F);
  CHECK(head.back() == 17.0F);
}

TEST_CASE("layout: the hash sees names, shapes and order, and nothing else") {
  const Hash128 hash =
      ParamLayout({{.name = "a", .shape = {2, 3}, .layer = 0}, {.name = "b", .shape = {6}, .layer = 1}}).hash();
  const auto of = [](std::vector<ParamSpec> specs) { return ParamLayout(std::move(specs)).hash(); };
  CHECK(of({{.name = "a", .shape = {2, 3}, .layer = 5}, {.name = "b", .shape = {6}, .layer = 6}}) == hash);
  CHECK(of({{.name = "a", .shape = {3, 2}, .layer = 0}, {.name = "b", .shape = {6}, .layer = 1}}) != hash);
  CHECK(of({{.name = "a", .shape = {6}, .layer = 0}, {.name = "b", .shape = {6}, .layer = 1}}) != hash);
  CHECK(of({{.name = "c", .shape = {2, 3}, .layer = 0}, {.name = "b", .shape = {6}, .layer = 1}}) != hash);
  CHECK(of({{.name = "b", .shape = {6}, .layer = 1}, {.name = "a", .shape = {2, 3}, .layer = 0}}) != hash);
  CHECK(of({{.name = "a", .shape = {2, 3}, .layer = 0}}) != hash);
}

TEST_CASE("layout: two tensors of one name, unknown names and impossible shapes are refused by name") {
  CHECK_THROWS_WITH_AS(ParamLayout({{.name = "a", .shape = {1}, .layer = 0}, {.name = "a", .shape = {2}, .layer = 0}}),
                       "two parameters are called a; a name must be unique in a layout", ConfigError);
  CHECK_THROWS_WITH_AS(example().at("tail"), "no parameter is called tail in this layout of 4 parameters", ConfigError);
  CHECK_THROWS_WITH_AS(ParamLayout({{.name = "a", .shape = {2, -1}, .layer = 0}}),
                       "parameter a has shape [2, -1], but no extent may be negative", ConfigError);
  const std::int64_t large = std::int64_t{1} << 40U;
  CHECK_THROWS_WITH_AS(ParamLayout({{.name = "a", .shape = {large, large}, .layer = 0}}), doctest::Contains("2^64"),
                       ConfigError);
  CHECK(ParamLayout({{.name = "a", .shape = {large, large, 0}, .layer = 0}}).size() == 0);
}

}  // namespace
}  // namespace atl
