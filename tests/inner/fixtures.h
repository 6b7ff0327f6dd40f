// What the tests of inner/ share: two small models, formulas for their weights and tokens, and readers of tests/inner/data.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/param_layout.h"
#include "data/batch.h"
#include "inner/config.h"

namespace atl {

using Fixtures = std::map<std::string, std::vector<double>>;

// tests/inner/data/FILE: a line each: name, number of values, values.
inline Fixtures read_fixtures(const std::string& file) {
  std::ifstream in(std::string(ATOLL_SOURCE_DIR "/tests/inner/data/") + file);
  std::string line;
  std::getline(in, line);
  REQUIRE(line.starts_with("torch 2."));
  Fixtures all;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name, value;
    std::size_t n = 0;
    words >> name >> n;
    while (words >> value) all[name].push_back(std::stod(value));
    REQUIRE(all[name].size() == n);
  }
  return all;
}

inline ModelConfig grouped() {
  return {.layers = 2,
          .width = 16,
          .heads = 4,
          .kv_heads = 2,
          .ffn = 32,
          .context = 8,
          .vocabulary = 11,
          .tied = false,
          .qk_norm = true};
}
inline ModelConfig tied() {
  return {.layers = 1,
          .width = 8,
          .heads = 2,
          .kv_heads = 2,
          .ffn = 16,
          .context = 6,
          .vocabulary = 7,
          .tied = true,
          .qk_norm = false};
}
inline InnerConfig settings() {
  return {.lr = 1e-2,
          .schedule = LrSchedule::cosine,
          .warmup_steps = 2,
          .final_lr_fraction = 0.05,
          .weight_decay = 0.1,
          .clip = 0.5,
          .z_loss = 1e-2,
          .total_steps = 6};
}

// The formulas of make_fixtures.py.
inline void fill(const ModelConfig& model, const ParamLayout& layout, std::span<float> values) {
  const std::vector<ParamSpec> canonical = model_params(model);
  for (std::size_t number = 0; number < canonical.size(); ++number) {
    const ParamLayout::Entry& entry = layout.at(canonical[number].name);
    for (std::size_t i = 0; i < entry.span.count; ++i)
      values[entry.span.offset + i] =
          static_cast<float>(0.3 * std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(number)) +
                             (entry.spec.shape.size() == 1 ? 1.0 : 0.0));
  }
}
inline Batch batch_of(const ModelConfig& model, std::size_t step, std::size_t sequences = 3) {
  Batch batch{.sequences = sequences, .length = model.context, .tokens = {}};
  for (std::size_t s = 0; s < sequences; ++s)
    for (std::size_t i = 0; i <= model.context; ++i)
      batch.tokens.push_back(static_cast<std::int32_t>((7 * s + 3 * i + i * i + step) % model.vocabulary));
  return batch;
}

inline double worst(std::span<const float> got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(got[i] - want[i]));
  return most;
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace atl
