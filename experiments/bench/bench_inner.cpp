// bench_inner: tokens a second of the inner loop, against the same model written the plain way: torch::nn modules, a Linear
// for each matrix, torch::nn::utils::clip_grad_norm_ and torch::optim::AdamW.  Same weights, batches, math and thread; in turn;
// medians.  Losses of both are compared, so that neither computes something else.
// Last line: ratio=NUMBER, our speed over the plain one's, the worst of all cases.  The goal is 1.0.
//   bench_inner [--threads N] [--case TEXT]      TEXT: only cases whose name holds it
#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "inner/transformer_inner.h"

using namespace atl;

namespace {

constexpr int kRepetitions = 15;
constexpr double kRepetitionSeconds = 0.4;

// The plain baseline.

struct RmsNormImpl : torch::nn::Module {
  explicit RmsNormImpl(std::int64_t width) : weight(register_parameter("weight", torch::ones({width}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::rms_norm(x, weight.sizes(), weight, 1e-6); }
  torch::Tensor weight;
};
TORCH_MODULE(RmsNorm);

struct Angles {
  torch::Tensor cos, sin;  // [T, d]
};

torch::Tensor rotate(const torch::Tensor& x, const Angles& angles) {  // [B, heads, T, d]
  const auto halves = x.chunk(2, -1);
  return x * angles.cos + torch::cat({-halves[1], halves[0]}, -1) * angles.sin;
}

torch::nn::Linear matrix(std::size_t in, std::size_t out) {
  return torch::nn::Linear(
      torch::nn::LinearOptions(static_cast<std::int64_t>(in), static_cast<std::int64_t>(out)).bias(false));
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const ModelConfig& m)
      : model(m),
        head_width(m.width / m.heads),
        attention_norm(register_module("attention_norm", RmsNorm(m.width))),
        wq(register_module("wq", matrix(m.width, m.width))),
        wk(register_module("wk", matrix(m.width, m.kv_heads * head_width))),
        wv(register_module("wv", matrix(m.width, m.kv_heads * head_width))),
        wo(register_module("wo", matrix(m.width, m.width))),
        q_norm(register_module("q_norm", RmsNorm(head_width))),
        k_norm(register_module("k_norm", RmsNorm(head_width))),
        ffn_norm(register_module("ffn_norm", RmsNorm(m.width))),
        gate(register_module("gate", matrix(m.width, m.ffn))),
        up(register_module("up", matrix(m.width, m.ffn))),
        down(register_module("down", matrix(m.ffn, m.width))) {}

  torch::Tensor forward(torch::Tensor x, const Angles& angles) {
    const auto batch = x.size(0), length = x.size(1), d = static_cast<std::int64_t>(head_width);
    const torch::Tensor normed = attention_norm(x);
    const torch::Tensor q = rotate(q_norm(wq(normed).view({batch, length, -1, d})).transpose(1, 2), angles);
    const torch::Tensor k = rotate(k_norm(wk(normed).view({batch, length, -1, d})).transpose(1, 2), angles);
    const torch::Tensor v = wv(normed).view({batch, length, -1, d}).transpose(1, 2);
    const auto like = v.scalar_type();
    const torch::Tensor mixed = torch::scaled_dot_product_attention(q.to(like), k.to(like), v, {}, 0.0, true,
                                                                    std::nullopt, model.heads != model.kv_heads);
    x = x + wo(mixed.transpose(1, 2).reshape({batch, length, -1}));
    const torch::Tensor y = ffn_norm(x);
    return x + down(torch::silu(gate(y)) * up(y));
  }

  ModelConfig model;
  std::size_t head_width;
  RmsNorm attention_norm;
  torch::nn::Linear wq, wk, wv, wo;
  RmsNorm q_norm, k_norm, ffn_norm;
  torch::nn::Linear gate, up, down;
};
TORCH_MODULE(Block);

struct PlainImpl : torch::nn::Module {
  explicit PlainImpl(const ModelConfig& m)
      : embedding(register_module("embedding", torch::nn::Embedding(m.vocabulary, m.width))),
        final_norm(register_module("final_norm", RmsNorm(m.width))),
        head(register_module("head", matrix(m.width, m.vocabulary))) {
    for (std::size_t l = 0; l < m.layers; ++l) blocks.push_back(register_module("block" + std::to_string(l), Block(m)));
    const auto d = static_cast<std::int64_t>(m.width / m.heads);
    const auto speed = torch::pow(10'000.0, torch::arange(0, d, 2, torch::kDouble) / -static_cast<double>(d));
    const auto angle = torch::outer(torch::arange(static_cast<std::int64_t>(m.context), torch::kDouble), speed);
    const auto both = torch::cat({angle, angle}, -1);
    angles = {both.cos().to(torch::kFloat), both.sin().to(torch::kFloat)};
  }
  torch::Tensor forward(const torch::Tensor& inputs) {  // [B, T] -> [B T, V]
    torch::Tensor x = embedding(inputs);
    for (auto& block : blocks) x = block(x, angles);
    return head(final_norm(x)).flatten(0, 1);
  }
  torch::nn::Embedding embedding;
  std::vector<Block> blocks;
  RmsNorm final_norm;
  torch::nn::Linear head;
  Angles angles;
};
TORCH_MODULE(Plain);

class PlainTrainer {
 public:
  PlainTrainer(const ModelConfig& m, const InnerConfig& c, const ParamLayout& layout, std::span<const float> start)
      : config_(c),
        model_(m),
        optimizer_(groups(), torch::optim::AdamWOptions(c.lr).betas({c.betas[0], c.betas[1]}).eps(c.eps)) {
    const torch::NoGradGuard no_grad;
    const auto tensor = [&](const std::string& name) {
      const auto& entry = layout.at(name);
      return torch::from_blob(const_cast<float*>(start.data()) + entry.span.offset, entry.spec.shape);
    };
    const auto fill = [](torch::Tensor& to, const torch::Tensor& from) { to.copy_(from); };
    fill(model_->embedding->weight, tensor("embedding"));
    fill(model_->head->weight, tensor("head"));
    const auto d = static_cast<std::int64_t>(m.width / m.heads);
    const auto q = static_cast<std::int64_t>(m.heads) * d, kv = static_cast<std::int64_t>(m.kv_heads) * d;
    const auto ffn = static_cast<std::int64_t>(m.ffn);
    for (std::size_t l = 0; l < m.layers; ++l) {  // norms are 1 in both
      const std::string at = "layers." + std::to_string(l) + ".";
      Block& block = model_->blocks[l];
      fill(block->wq->weight, tensor(at + "qkv").narrow(0, 0, q));
      fill(block->wk->weight, tensor(at + "qkv").narrow(0, q, kv));
      fill(block->wv->weight, tensor(at + "qkv").narrow(0, q + kv, kv));
      fill(block->wo->weight, tensor(at + "attention_out"));
      fill(block->gate->weight, tensor(at + "gate_up").narrow(0, 0, ffn));
      fill(block->up->weight, tensor(at + "gate_up").narrow(0, ffn, ffn));
      fill(block->down->weight, tensor(at + "down"));
    }
  }

  double step(const Batch& batch) {
    const auto sequences = static_cast<std::int64_t>(batch.sequences), length = static_cast<std::int64_t>(batch.length);
    const auto tokens =
        torch::from_blob(const_cast<std::int32_t*>(batch.tokens.data()), {sequences, length + 1}, torch::kInt)
            .to(torch::kLong);
    const auto targets = tokens.narrow(1, 1, length).reshape({-1});
    optimizer_.zero_grad();
    const bool bf16 = config_.precision == Precision::bf16;
    if (bf16) {
      at::autocast::set_autocast_enabled(at::kCPU, true);
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::increment_nesting();
    }
    const auto logits = model_(tokens.narrow(1, 0, length));
    if (bf16) {
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
    }
    const auto wide = logits.to(torch::kFloat);
    const auto cross_entropy = torch::nn::functional::cross_entropy(wide, targets);
    (cross_entropy + config_.z_loss * torch::logsumexp(wide, 1).square().mean()).backward();
    torch::nn::utils::clip_grad_norm_(model_->parameters(), config_.clip);
    ++steps_;
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(learning_rate(config_, steps_));
    optimizer_.step();
    return cross_entropy.item<double>();
  }

 private:
  std::vector<torch::optim::OptimizerParamGroup> groups() {
    std::vector<torch::Tensor> matrices, norms;
    for (const auto& p : model_->parameters()) (p.dim() >= 2 ? matrices : norms).push_back(p);
    std::vector<torch::optim::OptimizerParamGroup> out;
    for (const bool decays : {true, false}) {
      auto options = std::make_unique<torch::optim::AdamWOptions>(config_.lr);
      options->betas({config_.betas[0], config_.betas[1]})
          .eps(config_.eps)
          .weight_decay(decays ? config_.weight_decay : 0.0);
      out.emplace_back(decays ? matrices : norms, std::move(options));
    }
    return out;
  }
  InnerConfig config_;
  Plain model_;
  torch::optim::AdamW optimizer_;
  std::uint64_t steps_ = 0;
};

// The comparison.

struct Case {
  const char* name;
  ModelConfig model;
  std::size_t sequences;
  Precision precision;
};

std::vector<Batch> batches(const ModelConfig& model, std::size_t sequences) {
  std::vector<Batch> out(16, {.sequences = sequences, .length = model.context, .tokens = {}});
  std::uint64_t at = 0;
  for (Batch& batch : out)
    for (std::size_t i = 0; i < sequences * (model.context + 1); ++i)  // skewed, as text is
      batch.tokens.push_back(static_cast<std::int32_t>(static_cast<double>(model.vocabulary) *
                                                       std::pow(uniform_float(random_words(1, 1, at++)[0]), 3)));
  return out;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class Step>
double timed(int steps, const Step& step) {
  const double start = steady_seconds();
  for (int i = 0; i < steps; ++i) step();
  return steady_seconds() - start;
}

double run(const Case& c, int threads) {
  const ModelConfig model = resolved(c.model);
  const InnerConfig config{.lr = 1e-3, .schedule = LrSchedule::constant, .precision = c.precision, .threads = threads};
  const ParamLayout layout(model_params(model));
  const auto inner = make_transformer(model, config, layout);
  PlainTrainer plain(model, config, layout, inner->local());
  const std::vector<Batch> data = batches(model, c.sequences);
  std::size_t inner_at = 0, plain_at = 0;
  double inner_loss = 0, plain_loss = 0, apart = 0;
  const auto inner_step = [&] { inner_loss = inner->step(data[inner_at++ % data.size()]).loss; };
  const auto plain_step = [&] { plain_loss = plain.step(data[plain_at++ % data.size()]); };

  for (int i = 0; i < 10; ++i) {
    inner_step();
    plain_step();
    apart = std::max(apart, std::abs(inner_loss - plain_loss));
  }
  const double allowed = c.precision == Precision::fp32 ? 1e-4 : 5e-2;
  if (!(apart < allowed)) {
    std::fprintf(stderr, "%s: the losses of the first 10 steps are %g apart: not the same model\n", c.name, apart);
    std::exit(70);
  }
  const int steps = std::max(1, static_cast<int>(kRepetitionSeconds / (timed(5, plain_step) / 5)));
  std::vector<double> inner_s, plain_s, ratios;
  for (int r = 0; r < kRepetitions; ++r) {
    inner_s.push_back(timed(steps, inner_step));
    plain_s.push_back(timed(steps, plain_step));
    ratios.push_back(plain_s.back() / inner_s.back());
  }
  const double tokens = static_cast<double>(static_cast<std::size_t>(steps) * c.sequences * model.context);
  const double ratio = median(ratios);
  std::printf(
      "%-28s %8zu params %4zu x %3zu tokens  atoll %8.0f tokens/s  plain %8.0f tokens/s  ratio %.3f  (losses within "
      "%.1e)\n",
      c.name, layout.size(), c.sequences, model.context, tokens / median(inner_s), tokens / median(plain_s), ratio,
      apart);
  std::fflush(stdout);
  return ratio;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--threads") threads = std::max(1, std::atoi(argv[i + 1]));
    if (std::string(argv[i]) == "--case") only = argv[i + 1];
  }
  const ModelConfig small{.layers = 2, .width = 64, .heads = 4, .context = 64};
  const ModelConfig medium{.layers = 4, .width = 128, .heads = 4, .context = 128};
  std::printf("%s; %d repetitions of about %.1f s in turn, medians\n", describe_backend({.threads = threads}).c_str(),
              kRepetitions, kRepetitionSeconds);
  double worst = INFINITY;
  for (const Case& c :
       {Case{"0.1 M, a quickstart site", small, 4, Precision::fp32},
        Case{"0.1 M, a larger batch", small, 16, Precision::fp32}, Case{"1 M", medium, 4, Precision::fp32},
        Case{"1 M, a larger batch", medium, 16, Precision::fp32}, Case{"1 M, bf16", medium, 16, Precision::bf16}})
    if (std::string(c.name).find(only) != std::string::npos) worst = std::min(worst, run(c, threads));
  std::printf("ratio=%.3f\n", worst);
  return 0;
}
