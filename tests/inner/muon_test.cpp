// Muon against numbers worked in double by another way (make_muon_fixtures.py: a singular value decomposition), and the
// state of every optimizer through a restart.
#include "inner/muon.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "fixtures.h"
#include "inner/transformer_inner.h"

using namespace atl;

namespace {

double value(std::size_t i, std::size_t number, std::size_t step) {  // of the script
  return std::cos(0.37 * static_cast<double>(i * i % 1009) + 1.1 * static_cast<double>(number) +
                  0.6 * static_cast<double>(step));
}

at::Tensor matrix(std::int64_t rows, std::int64_t cols) {
  at::Tensor m = at::empty({rows, cols}, at::kFloat);
  for (std::int64_t i = 0; i < rows * cols; ++i)
    m.data_ptr<float>()[i] = static_cast<float>(0.01 * value(static_cast<std::size_t>(i), 3, 1));
  return m;
}

InnerConfig muon_settings() {
  InnerConfig config = settings();
  config.optimizer = InnerOptimizer::muon;
  return config;
}

// The gradients of step `step` by formula, then an update.
void step_by_formula(Inner& inner, const ModelConfig& model, std::size_t step) {
  const std::vector<ParamSpec> canonical = model_params(model);
  for (std::size_t number = 0; number < canonical.size(); ++number) {
    const Span span = inner.layout().at(canonical[number].name).span;
    for (std::size_t i = 0; i < span.count; ++i)
      inner.gradients()[span.offset + i] = static_cast<float>(0.01 * value(i, number, step));
  }
  inner.update();
}

}  // namespace

TEST_CASE("muon: five Newton-Schulz steps do to the singular values what the polynomial does, square, wide and tall") {
  const Fixtures want = read_fixtures("muon.txt");
  for (const auto& [rows, cols] : {std::pair{8, 8}, {5, 12}, {12, 5}, {1, 7}}) {
    const std::string name = text("orthogonalised.", rows, "x", cols);
    CAPTURE(name);
    const at::Tensor got = orthogonalised(matrix(rows, cols), Precision::fp32).contiguous();
    const std::span<const float> values(got.data_ptr<float>(), static_cast<std::size_t>(got.numel()));
    // A rounding of 2^-24 beside a small singular value grows with it, at most 4.0848 * 3.9505 * 3.7418 * 2.8769 * 2.8366 = 493
    // times; three roundings each of five steps
    CHECK(worst(values, want.at(name)) < 15 * 493 * std::ldexp(1.0, -24));
    const at::Tensor rough = orthogonalised(matrix(rows, cols), Precision::bf16).contiguous();
    CHECK((rough.scalar_type() == at::kFloat));
    CHECK((rough - got).norm().item<double>() <
          0.25 * got.norm().item<double>());  // bf16 has 8 bits: it still points there
  }
  CHECK(at::equal(orthogonalised(at::zeros({3, 4}), Precision::fp32), at::zeros({3, 4})));
}

TEST_CASE("muon: q, k and v, gate and up count by themselves; embedding, head and norms are not Muon's") {
  const ModelConfig model = grouped();
  const ParamLayout layout(model_params(model));
  const auto shapes = [&](const std::string& name) {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (const MuonMatrix& m : muon_matrices(model, layout.at(name))) all.emplace_back(m.rows, m.cols);
    return all;
  };
  using Shapes = std::vector<std::pair<std::int64_t, std::int64_t>>;
  CHECK(shapes("layers.1.qkv") == Shapes{{16, 16}, {8, 16}, {8, 16}});
  CHECK(shapes("layers.0.gate_up") == Shapes{{32, 16}, {32, 16}});
  CHECK(shapes("layers.0.down") == Shapes{{16, 32}});
  CHECK(shapes("layers.0.attention_out") == Shapes{{16, 16}});
  for (const char* name : {"embedding", "head", "final_norm", "layers.0.attention_norm", "layers.0.q_norm"})
    CHECK_FALSE(is_muon(layout.at(name).spec));
}

TEST_CASE("muon: four steps with clip, decay and schedule give the numbers worked in double, in any order of tensors") {
  const Fixtures want = read_fixtures("muon.txt");
  const ModelConfig model = grouped();
  for (const bool reversed : {false, true}) {
    CAPTURE(reversed);
    std::vector<ParamSpec> specs = model_params(model);
    if (reversed) std::reverse(specs.begin(), specs.end());
    const ParamLayout layout(specs);
    const auto inner = make_transformer(model, muon_settings(), layout);
    const std::vector<ParamSpec> canonical = model_params(model);
    for (std::size_t number = 0; number < canonical.size(); ++number) {
      const ParamLayout::Entry& entry = layout.at(canonical[number].name);
      for (std::size_t i = 0; i < entry.span.count; ++i)
        inner->local()[entry.span.offset + i] =
            static_cast<float>(0.3 * value(i, number, 0) + (entry.spec.shape.size() == 1 ? 1.0 : 0.0));
    }
    for (std::size_t step = 1; step <= 4; ++step) step_by_formula(*inner, model, step);
    for (const ParamLayout::Entry& entry : layout.entries()) {
      CAPTURE(entry.spec.name);
      // a step is at most lr (0.02) * sqrt(2) times what orthogonalised() gives, with its error
      const double bound = is_muon(entry.spec) ? 4 * 0.02 * std::sqrt(2.0) * 15 * 493 * std::ldexp(1.0, -24) : 1e-6;
      CHECK(worst(slice(std::span<const float>(inner->local()), entry.span), want.at("after." + entry.spec.name)) <
            bound);
    }
  }
}

TEST_CASE("muon: a model trains with it, in fp32 and bf16") {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    InnerConfig config = muon_settings();
    config.precision = precision;
    config.total_steps = 40;
    const ModelConfig model = grouped();
    const auto inner = make_transformer(model, config, ParamLayout(model_params(model)));
    const double first = inner->step(batch_of(model, 1)).loss;
    double last = first;
    for (std::size_t step = 2; step <= 40; ++step) last = inner->step(batch_of(model, step)).loss;
    CAPTURE(last);
    CHECK(last < first - 0.3);
  }
}

TEST_CASE("optimizers: one restored from parameters, state and step count goes on bit for bit") {
  for (const auto& [optimizer, names] :
       {std::pair{InnerOptimizer::sgd, std::vector<std::string>{}},
        {InnerOptimizer::adamw, {"adamw.first_moment", "adamw.second_moment"}},
        {InnerOptimizer::muon, {"adamw.first_moment", "adamw.second_moment", "muon.momentum"}}}) {
    CAPTURE(static_cast<int>(optimizer));
    InnerConfig config = settings();
    config.optimizer = optimizer;
    const ModelConfig model = grouped();
    const ParamLayout layout(model_params(model));
    const auto whole = make_transformer(model, config, layout);
    for (std::size_t step = 1; step <= 3; ++step) whole->step(batch_of(model, step));
    config.seed = 99;  // nothing of the second one's own start may be left
    const auto restored = make_transformer(model, config, layout);
    std::ranges::copy(whole->local(), restored->local().begin());
    const auto from = whole->state(), to = restored->state();
    REQUIRE(from.size() == names.size());
    REQUIRE(to.size() == names.size());
    std::size_t held = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      CHECK(from[i].name == names[i]);
      REQUIRE(from[i].values.size() == to[i].values.size());
      std::ranges::copy(from[i].values, to[i].values.begin());
      held += from[i].values.size();
    }
    std::size_t matrices = 0;  // of blocks: one number of state each with Muon, two for all else
    for (const ParamLayout::Entry& entry : layout.entries()) matrices += is_muon(entry.spec) ? entry.span.count : 0;
    if (optimizer == InnerOptimizer::adamw) CHECK(held == 2 * layout.size());
    if (optimizer == InnerOptimizer::muon) CHECK(held == 2 * layout.size() - matrices);
    restored->set_steps_done(whole->steps_done());
    for (std::size_t step = 4; step <= 6; ++step)
      CHECK(restored->step(batch_of(model, step)).loss == whole->step(batch_of(model, step)).loss);
    CHECK(copy_of(restored->local()) == copy_of(whole->local()));
  }
}
