// The transformer against PyTorch's numbers (tests/inner/make_fixtures.py), against finite differences in double, and against itself.
#include "inner/transformer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "fixtures.h"
#include "inner/transformer_inner.h"

using namespace atl;

TEST_CASE("transformer: loss, gradients and six steps of AdamW are PyTorch's, in any order of the tensors") {
  const Fixtures want = read_fixtures("pytorch.txt");
  for (const bool reversed : {false, true}) {
    for (const std::string name : {"grouped", "tied"}) {
      CAPTURE(name);
      CAPTURE(reversed);
      const ModelConfig model = name == "grouped" ? grouped() : tied();
      std::vector<ParamSpec> specs = model_params(model);
      if (reversed) std::reverse(specs.begin(), specs.end());
      const ParamLayout layout(specs);
      const auto inner = make_transformer(model, settings(), layout);
      fill(model, layout, inner->local());

      const double loss = inner->compute_gradients(batch_of(model, 1), nullptr);
      CHECK(std::abs(loss - want.at(name + ".loss")[0]) < 2e-6);
      for (const ParamLayout::Entry& entry : layout.entries()) {
        CAPTURE(entry.spec.name);
        // gradients here are below 2; fp32 sums of some hundred terms in another order
        CHECK(worst(slice(std::span<const float>(inner->gradients()), entry.span),
                    want.at(name + ".gradient." + entry.spec.name)) < 5e-6);
      }
      for (std::size_t step = 1; step <= 6; ++step) {
        const StepReport report = inner->step(batch_of(model, step));
        CHECK(std::abs(report.loss - want.at(name + ".trained")[step - 1]) < 5e-5);
      }
      CHECK(inner->steps_done() == 6);
      for (const ParamLayout::Entry& entry : layout.entries()) {
        CAPTURE(entry.spec.name);
        // Adam divides by the root of a gradient's square: where that is tiny, rounding moves a step of size lr (1e-2) a little
        CHECK(worst(slice(std::span<const float>(inner->local()), entry.span),
                    want.at(name + ".after." + entry.spec.name)) < 2e-4);
      }
    }
  }
}

TEST_CASE("transformer: gradients agree with finite differences in double") {
  for (ModelConfig model : {grouped(), tied()}) {
    model = resolved(model);
    const ParamLayout layout(model_params(model));
    std::vector<float> start(layout.size());
    fill(model, layout, start);
    at::Tensor flat =
        at::from_blob(start.data(), {static_cast<std::int64_t>(start.size())}, at::kFloat).to(at::kDouble);
    const Batch batch = batch_of(model, 2);
    const at::Tensor ids = at::from_blob(const_cast<std::int32_t*>(batch.tokens.data()),
                                         {3, static_cast<std::int64_t>(model.context) + 1}, at::kInt)
                               .to(at::kLong);
    const Rotary turns = rotary(model, flat);
    const auto objective = [&](const at::Tensor& values) {
      const TransformerParams params = transformer_params(model, [&](const std::string& name) {
        const ParamLayout::Entry& e = layout.at(name);
        return values.narrow(0, static_cast<std::int64_t>(e.span.offset), static_cast<std::int64_t>(e.span.count))
            .view(e.spec.shape);
      });
      const auto length = static_cast<std::int64_t>(model.context);
      return transformer_loss(transformer_logits(model, params, turns, ids.narrow(1, 0, length)),
                              ids.narrow(1, 1, length), 1e-2)
          .objective;
    };
    const at::Tensor leaf = flat.clone().requires_grad_(true);
    objective(leaf).backward();
    const at::Tensor gradient = leaf.grad();
    // central differences with h = 1e-5: error of order h^2 times the third derivative, and 1e-16 / h of rounding
    const torch::autograd::AutoGradMode off(false);
    double most = 0;
    for (std::int64_t i = 0; i < flat.size(0); i += 7) {
      const at::Tensor up = flat.clone(), down = flat.clone();
      up[i] += 1e-5;
      down[i] -= 1e-5;
      const double slope = (objective(up).item<double>() - objective(down).item<double>()) / 2e-5;
      most = std::max(most, std::abs(slope - gradient[i].item<double>()));
    }
    CHECK(most < 1e-8);
  }
}

TEST_CASE("transformer: micro-batches give the large batch's gradient, to rounding, also when they do not divide it") {
  const ModelConfig model = grouped();
  const ParamLayout layout(model_params(model));
  InnerConfig whole = settings();
  const auto large = make_transformer(model, whole, layout);
  const double loss = large->compute_gradients(batch_of(model, 1, 7), nullptr);
  for (const std::size_t micro : {1U, 2U, 3U, 7U, 9U}) {
    CAPTURE(micro);
    InnerConfig parts = settings();
    parts.micro_batch = micro;
    const auto small = make_transformer(model, parts, layout);
    CHECK(std::abs(small->compute_gradients(batch_of(model, 1, 7), nullptr) - loss) < 1e-6);
    for (std::size_t i = 0; i < layout.size(); ++i)
      CHECK(std::abs(small->gradients()[i] - large->gradients()[i]) < 2e-6);
  }
}

TEST_CASE(
    "transformer: each tensor's gradient is announced once a batch, in its last micro-batch, on the calling thread") {
  for (const ModelConfig& model : {grouped(), tied()}) {
    const ParamLayout layout(model_params(model));
    InnerConfig config = settings();
    config.micro_batch = 2;
    const auto inner = make_transformer(model, config, layout);
    for (int batch = 0; batch < 2; ++batch) {
      std::map<std::size_t, int> seen;
      const auto caller = std::this_thread::get_id();
      std::vector<float> when(layout.size());
      inner->compute_gradients(batch_of(model, 1, 5), [&](Span tensor) {
        ++seen[tensor.offset];
        CHECK(std::this_thread::get_id() == caller);
        const auto now = slice(std::span<const float>(inner->gradients()), tensor);
        std::copy(now.begin(), now.end(), when.begin() + static_cast<std::ptrdiff_t>(tensor.offset));
      });
      CHECK(seen.size() == layout.entries().size());
      for (const auto& [offset, times] : seen) CHECK(times == 1);
      CHECK(when == copy_of(inner->gradients()));  // what was announced was final
    }
  }
}

TEST_CASE("transformer: initial weights depend on seed and names alone, not on the order") {
  const ModelConfig model = grouped();
  std::vector<ParamSpec> specs = model_params(model);
  const ParamLayout layout(specs);
  std::reverse(specs.begin(), specs.end());
  const ParamLayout reversed(specs);
  InnerConfig config = settings();
  const auto a = make_transformer(model, config, layout), b = make_transformer(model, config, reversed);
  config.seed = 2;
  const auto other = make_transformer(model, config, layout);
  for (const ParamLayout::Entry& entry : layout.entries()) {
    const auto here = slice(a->local(), entry.span), there = slice(b->local(), reversed.at(entry.spec.name).span);
    CHECK(copy_of(here) == copy_of(there));
    if (entry.spec.shape.size() == 2) CHECK(copy_of(here) != copy_of(slice(other->local(), entry.span)));
    if (entry.spec.shape.size() == 1) CHECK(copy_of(here) == std::vector<float>(here.size(), 1.0F));
  }
}

// Not a test: what the next one starts as a process of its own.
TEST_CASE("transformer-weights-of-a-process" * doctest::skip()) {
  const auto inner = make_transformer(grouped(), settings(), ParamLayout(model_params(grouped())));
  std::printf("weights %s\n", hash_bytes(std::as_bytes(inner->local())).hex().c_str());
}

TEST_CASE("transformer: processes that were started apart have the same initial weights") {
  const auto inner = make_transformer(grouped(), settings(), ParamLayout(model_params(grouped())));
  const std::string want = "weights " + hash_bytes(std::as_bytes(inner->local())).hex();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const char* environment : {"OMP_NUM_THREADS=1 LC_ALL=C", "OMP_NUM_THREADS=2 LC_ALL=de_DE.UTF-8"}) {
    const std::string command =
        std::string(environment) + " '" + self + "' --no-skip --test-case=transformer-weights-of-a-process";
    FILE* pipe = popen(command.c_str(), "r");  // NOLINT: a fixed command, without outside input
    REQUIRE(pipe != nullptr);
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out.push_back(static_cast<char>(c));
    CHECK(pclose(pipe) == 0);
    CHECK(out.find(want) != std::string::npos);
  }
}

TEST_CASE("transformer: two of them give the same bits, step for step; bf16 trains too") {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    InnerConfig config = settings();
    config.precision = precision;
    config.total_steps = 40;
    const ModelConfig model = grouped();
    const ParamLayout layout(model_params(model));
    const auto a = make_transformer(model, config, layout), b = make_transformer(model, config, layout);
    double first = 0, last = 0;
    for (std::size_t step = 1; step <= 40; ++step) {
      last = a->step(batch_of(model, step)).loss;
      if (step == 1) first = last;
      CHECK(b->step(batch_of(model, step)).loss == last);
    }
    CHECK(copy_of(a->local()) == copy_of(b->local()));
    CHECK(last < first - 0.3);
  }
}

TEST_CASE("transformer: evaluate takes other parameters and leaves its own alone; batches do not change the mean") {
  const ModelConfig model = grouped();
  const ParamLayout layout(model_params(model));
  const auto inner = make_transformer(model, settings(), layout);
  const auto before = copy_of(inner->local());
  std::vector<float> other(layout.size());
  fill(model, layout, other);
  const double loss = inner->evaluate(other, {batch_of(model, 1)});
  CHECK(std::abs(loss - read_fixtures("pytorch.txt").at("grouped.loss")[0]) < 2e-6);
  CHECK(copy_of(inner->local()) == before);
  // 3 + 1 sequences in two batches weigh as 4 in one
  Batch three = batch_of(model, 5), all = batch_of(model, 5, 4),
        one{.sequences = 1, .length = model.context, .tokens = {}};
  one.tokens.assign(all.tokens.begin() + static_cast<std::ptrdiff_t>(three.tokens.size()), all.tokens.end());
  CHECK(std::abs(inner->evaluate(other, {three, one}) - inner->evaluate(other, {all})) < 1e-6);
  CHECK_THROWS_WITH_AS(inner->evaluate(other, {}), doctest::Contains("no window to evaluate on"), ConfigError);
}

TEST_CASE("transformer: evaluate takes shorter windows, and refuses those that do not hold what they say") {
  const ModelConfig model = grouped();
  const ParamLayout layout(model_params(model));
  const auto inner = make_transformer(model, settings(), layout);
  ModelConfig shorter = model;
  shorter.context = 5;
  const auto other = make_transformer(shorter, settings(), layout);
  CHECK(std::abs(inner->evaluate(inner->local(), {batch_of(shorter, 1)}) -
                 other->evaluate(inner->local(), {batch_of(shorter, 1)})) < 1e-6);
  CHECK_THROWS_WITH_AS(other->evaluate(other->local(), {batch_of(model, 1)}),
                       doctest::Contains("3 sequences of 8 + 1 in 27 tokens; context 5"), Bug);
  for (const std::size_t tokens : {0U, 26U, 28U}) {
    Batch cut = batch_of(model, 1);
    cut.tokens.resize(tokens);
    CHECK_THROWS_WITH_AS(inner->evaluate(inner->local(), {batch_of(model, 1), cut}),
                         doctest::Contains(text("3 sequences of 8 + 1 in ", tokens, " tokens; context 8").c_str()),
                         Bug);
    CHECK_THROWS_WITH_AS(inner->compute_gradients(cut, nullptr),
                         doctest::Contains(text("3 sequences of 8 + 1 in ", tokens, " tokens").c_str()), Bug);
  }
  const Batch none{.sequences = 0, .length = model.context, .tokens = {}};
  CHECK_THROWS_WITH_AS(inner->evaluate(inner->local(), {none}), doctest::Contains("0 sequences"), Bug);
}

TEST_CASE("transformer: a backward pass leaves the thread's autograd setting as it was, also when it throws") {
  const ModelConfig model = tied();
  const auto inner = make_transformer(model, settings(), ParamLayout(model_params(model)));
  auto& state = c10::AutogradState::get_tls_state();
  for (const bool before : {true, false}) {
    state.set_multithreading_enabled(before);
    bool during = true;
    inner->compute_gradients(batch_of(model, 1), [&](Span) { during = state.get_multithreading_enabled(); });
    CHECK_FALSE(during);  // so that CUDA's nodes run on this thread too
    CHECK(state.get_multithreading_enabled() == before);
    CHECK_THROWS_AS(inner->compute_gradients(batch_of(model, 1), [](Span) { throw ConfigError("no"); }),
                    std::exception);
    CHECK(state.get_multithreading_enabled() == before);
  }
  state.set_multithreading_enabled(true);
}

TEST_CASE("transformer: a layout of another model is refused with both shapes, or both numbers of tensors") {
  const ModelConfig model = grouped();
  std::vector<ParamSpec> specs = model_params(model);
  specs[2].shape = {32, 8};
  CHECK_THROWS_WITH_AS(make_transformer(model, settings(), ParamLayout(specs)),
                       doctest::Contains("the layout gives layers.0.qkv the shape [32, 8], the model [32, 16]"),
                       ConfigError);
  specs = model_params(model);
  specs.push_back({"bias", {16}, ParamSpec::kHead});
  CHECK_THROWS_WITH_AS(make_transformer(model, settings(), ParamLayout(specs)),
                       doctest::Contains("the layout has 20 tensors, the model 19"), ConfigError);
  specs = model_params(model);
  specs.pop_back();
  CHECK_THROWS_WITH_AS(make_transformer(model, settings(), ParamLayout(specs)), doctest::Contains("head"),
                       std::exception);
}

TEST_CASE("transformer: the backend is named with version, device and threads") {
  CHECK(describe_backend({.threads = 2}) == text("libtorch ", TORCH_VERSION, ", cpu, 2 threads"));
}

TEST_CASE("transformer: SGD is torch.optim.SGD: decay joins the gradient, of matrices alone") {
  InnerConfig config = settings();
  config.optimizer = InnerOptimizer::sgd;
  config.schedule = LrSchedule::constant;
  config.warmup_steps = 0;
  config.clip = 0;
  const ModelConfig model = tied();
  const ParamLayout layout(model_params(model));
  const auto inner = make_transformer(model, config, layout);
  const auto before = copy_of(inner->local());
  inner->compute_gradients(batch_of(model, 1), nullptr);
  const auto gradient = copy_of(inner->gradients());
  CHECK(inner->update().lr == 1e-2);
  for (const ParamLayout::Entry& entry : layout.entries())
    for (std::size_t i = entry.span.offset; i < entry.span.end(); ++i) {
      const double decay = entry.spec.shape.size() == 2 ? 0.1 : 0.0;
      const double want = before[i] - 1e-2 * (gradient[i] + decay * before[i]);
      CHECK(std::abs(inner->local()[i] - want) <= std::ldexp(std::abs(want) + std::abs(before[i]), -23));
    }
  CHECK(inner->state().empty());
}

TEST_CASE("transformer: a NaN in the parameters is a NaN in the loss, not an exception") {
  const ModelConfig model = tied();
  const ParamLayout layout(model_params(model));
  const auto inner = make_transformer(model, settings(), layout);
  inner->local()[3] = NAN;
  CHECK(std::isnan(inner->step(batch_of(model, 1)).loss));
}

TEST_CASE("transformer: devices that are not there, layouts and batches of another model are refused") {
  const ModelConfig model = tied();
  const ParamLayout layout(model_params(model));
  InnerConfig config = settings();
  config.device = "gpu";
  CHECK_THROWS_WITH_AS(make_transformer(model, config, layout),
                       doctest::Contains("inner.device = \"gpu\", but it must be \"cpu\", \"cuda\" or \"cuda:N\""),
                       ConfigError);
  if (std::getenv("ATOLL_REQUIRE_GPU") == nullptr) {
    config.device = "cuda:0";
    CHECK_THROWS_WITH_AS(make_transformer(model, config, layout), doctest::Contains("inner.device = \"cuda:0\", but"),
                         ConfigError);
  }
  CHECK_THROWS_AS(make_transformer(model, settings(), ParamLayout(model_params(grouped()))), ConfigError);
  const auto inner = make_transformer(model, settings(), layout);
  CHECK_THROWS_WITH_AS(inner->step(batch_of(grouped(), 1)), doctest::Contains("context 6"), Bug);
}
