#include "inner/transformer_inner.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "inner/device_name.h"
#include "inner/muon.h"
#include "inner/torch.h"
#include "inner/transformer.h"
#include "kernels/norm.h"

namespace atl {
namespace {

// A stretch of the flat vector with one rule.  Its moments lie together too, from `moments` on.
struct Group {
  Span span;
  std::size_t moments = 0;
  bool decays = false;
  bool muon = false;
};

// Neighbours with the same rule become one stretch: few calls of the fused optimizer.  AdamW's moments and Muon's are each counted
// from 0: those that a tensor does not need take no place.
std::vector<Group> groups_of(const ParamLayout& layout, InnerOptimizer optimizer) {
  std::vector<Group> groups;
  std::size_t adamw = 0, muon = 0;
  for (const ParamLayout::Entry& entry : layout.entries()) {
    const bool decays = entry.spec.shape.size() >= 2;  // matrices, not norms
    const bool by_muon = optimizer == InnerOptimizer::muon && is_muon(entry.spec);
    std::size_t& used = by_muon ? muon : adamw;
    if (!groups.empty() && groups.back().decays == decays && groups.back().muon == by_muon)
      groups.back().span.count += entry.span.count;
    else
      groups.push_back({.span = entry.span, .moments = used, .decays = decays, .muon = by_muon});
    used += entry.span.count;
  }
  return groups;
}

at::Tensor part_of(const at::Tensor& flat, std::size_t offset, std::size_t count) {
  return flat.narrow(0, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(count));
}

at::Tensor view_of(const at::Tensor& flat, const ParamLayout::Entry& entry) {
  return part_of(flat, entry.span.offset, entry.span.count).view(entry.spec.shape);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (const std::int64_t n : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(n);
  return out + "]";
}

at::Device device_of(const InnerConfig& config) {
  if (config.device == "cpu") return at::kCPU;
  std::optional<at::Device> device;
  try {
    device = at::Device(config.device);
  } catch (const std::exception&) {
  }
  if (!device || !device->is_cuda())
    throw ConfigError(text("inner.device = \"", config.device, "\", but it must be \"cpu\", \"cuda\" or \"cuda:N\""));
  if (!at::hasCUDA() || at::getNumGPUs() == 0)
    throw ConfigError(text("inner.device = \"", config.device, "\", but ",
                           at::hasCUDA() ? "no GPU answers" : "this build of atoll has no CUDA (preset cuda)",
                           ": use \"cpu\""));
  const auto index = device->has_index() ? device->index() : at::DeviceIndex{0};
  if (static_cast<std::size_t>(index) >= at::getNumGPUs())
    throw ConfigError(text("inner.device = \"", config.device, "\", but there are only ", at::getNumGPUs(), " GPUs"));
  return at::Device(at::kCUDA, index);
}

// Initial values depend on the seed and the tensor's name alone.  Matrices: normal with standard deviation 1/sqrt(fan-in); those that
// write into the residual stream smaller by sqrt(2 layers) (GPT-2).  Norms: 1.
void initialise(const ModelConfig& model, std::uint64_t seed, const ParamLayout& layout, float* flat) {
  for (const ParamLayout::Entry& entry : layout.entries()) {
    float* values = flat + entry.span.offset;
    if (entry.spec.shape.size() < 2) {
      std::fill(values, values + entry.span.count, 1.0F);
      continue;
    }
    const std::string& name = entry.spec.name;
    const bool residual = name.ends_with("attention_out") || name.ends_with("down");
    double std_dev = 1 / std::sqrt(static_cast<double>(entry.spec.shape[1]));
    if (residual) std_dev /= std::sqrt(2.0 * static_cast<double>(model.layers));
    const std::uint64_t stream = hash_text(name).low;
    for (std::size_t i = 0; i < entry.span.count; i += 2) {
      const auto pair = normal_pair(seed, stream, i / 2);
      values[i] = static_cast<float>(std_dev * pair[0]);
      if (i + 1 < entry.span.count) values[i + 1] = static_cast<float>(std_dev * pair[1]);
    }
  }
}

// Autocast to bf16 for as long as it lives.
class Autocast {
 public:
  Autocast(Precision precision, at::DeviceType device) : on_(precision == Precision::bf16), device_(device) {
    if (!on_) return;
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  at::DeviceType device_;
};

// Backward passes run on the calling thread for as long as it lives: autograd gives CUDA nodes to a thread of its own, and
// GradientReady promises the caller's.
class BackwardHere {
 public:
  BackwardHere() { c10::AutogradState::get_tls_state().set_multithreading_enabled(false); }
  ~BackwardHere() { c10::AutogradState::get_tls_state().set_multithreading_enabled(before_); }
  BackwardHere(const BackwardHere&) = delete;
  BackwardHere& operator=(const BackwardHere&) = delete;

 private:
  bool before_ = c10::AutogradState::get_tls_state().get_multithreading_enabled();
};

struct ReadyHook;

class TransformerInner final : public Inner {
 public:
  TransformerInner(const ModelConfig& model, const InnerConfig& config, const ParamLayout& layout);

  const ParamLayout& layout() const override { return layout_; }
  Place place() const override;
  std::span<float> local() override { return span_of(params_); }
  std::span<float> gradients() override { return span_of(grads_); }
  double compute_gradients(const Batch& batch, const GradientReady& ready) override;
  StepReport update() override;
  double evaluate(std::span<const float> params, const std::vector<Batch>& windows) override;
  std::vector<StateSpan> state() override;
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  friend struct ReadyHook;
  static std::span<float> span_of(at::Tensor& flat) {
    return {flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())};
  }
  // Tokens of `sequences` windows from `first` on, as int64 [sequences, T + 1] on the device.
  at::Tensor tokens_of(const Batch& batch, std::size_t first, std::size_t sequences) const;
  void check(const Batch& batch) const;  // throws Bug unless it holds what it says and fits the context
  void adamw(double lr);
  void muon(double lr);
  void sgd(double lr);

  ModelConfig model_;
  InnerConfig config_;
  ParamLayout layout_;
  at::Device device_;
  at::Tensor params_, grads_;                // flat, [layout size]
  at::Tensor first_moment_, second_moment_;  // AdamW's: of all groups that are not Muon's, in a row
  at::Tensor momentum_;                      // Muon's, likewise
  std::vector<at::Tensor> leaves_;           // views into params_ that autograd knows, in the layout's order
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  TransformerParams live_;
  Rotary rotary_;
  std::vector<Group> groups_;
  std::vector<MuonMatrix> muon_matrices_;  // in the order of momentum_
  std::uint64_t steps_ = 0;
  const GradientReady* ready_ = nullptr;  // set during the backward pass of a batch's last micro-batch
};

// Runs after a leaf's gradient was added into grads_.
struct ReadyHook final : torch::autograd::FunctionPostHook {
  ReadyHook(TransformerInner* owner, Span span) : owner_(owner), span_(span) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (owner_->ready_ != nullptr) (*owner_->ready_)(span_);
    return outputs;
  }
  TransformerInner* owner_;
  Span span_;
};

TransformerInner::TransformerInner(const ModelConfig& model, const InnerConfig& config, const ParamLayout& layout)
    : model_(resolved(model)),
      config_(config),
      layout_(layout),
      device_(device_of(config)),
      groups_(groups_of(layout, config.optimizer)) {
  const std::vector<ParamSpec> wanted = model_params(model_);
  for (const ParamSpec& spec : wanted)
    if (layout_.at(spec.name).spec.shape != spec.shape)
      throw ConfigError(text("the layout gives ", spec.name, " the shape ",
                             shape_text(layout_.at(spec.name).spec.shape), ", the model ", shape_text(spec.shape)));
  if (layout_.entries().size() != wanted.size())
    throw ConfigError(text("the layout has ", layout_.entries().size(), " tensors, the model ", wanted.size()));

  at::set_num_threads(config_.threads);
  const auto n = static_cast<std::int64_t>(layout_.size());
  const at::Tensor initial = at::empty({n}, at::kFloat);
  initialise(model_, config_.seed, layout_, initial.data_ptr<float>());
  params_ = initial.to(device_);
  grads_ = at::zeros({n}, params_.options());
  std::int64_t by_muon = 0;
  for (const Group& group : groups_) by_muon += group.muon ? static_cast<std::int64_t>(group.span.count) : 0;
  if (config_.optimizer != InnerOptimizer::sgd) {
    first_moment_ = at::zeros({n - by_muon}, params_.options());
    second_moment_ = at::zeros({n - by_muon}, params_.options());
  }
  if (config_.optimizer == InnerOptimizer::muon) {
    momentum_ = at::zeros({by_muon}, params_.options());
    for (const ParamLayout::Entry& entry : layout_.entries()) {
      if (!is_muon(entry.spec)) continue;
      const auto matrices = muon_matrices(model_, entry);
      muon_matrices_.insert(muon_matrices_.end(), matrices.begin(), matrices.end());
    }
  }
  for (const ParamLayout::Entry& entry : layout_.entries()) {
    at::Tensor leaf = view_of(params_, entry).detach().requires_grad_(true);
    leaf.mutable_grad() = view_of(grads_, entry);
    auto accumulator = torch::autograd::impl::grad_accumulator(leaf);
    accumulator->add_post_hook(std::make_unique<ReadyHook>(this, entry.span));
    accumulators_.push_back(std::move(accumulator));  // autograd itself keeps only a weak reference
    leaves_.push_back(std::move(leaf));
  }
  live_ = transformer_params(model_, [this](const std::string& name) {
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (layout_.entries()[i].spec.name == name) return leaves_[i];
    throw Bug("no tensor " + name);
  });
  rotary_ = rotary(model_, params_);
}

Place TransformerInner::place() const {
  if (device_.is_cpu()) return {};
  return {.kind = Place::Kind::cuda,
          .device = device_.index(),
          .stream = nullptr};  // torch works on the default stream here
}

at::Tensor TransformerInner::tokens_of(const Batch& batch, std::size_t first, std::size_t sequences) const {
  const std::size_t window = batch.length + 1;
  auto* begin =
      const_cast<std::int32_t*>(batch.tokens.data() + first * window);  // from_blob takes no const; it is only read
  return at::from_blob(begin, {static_cast<std::int64_t>(sequences), static_cast<std::int64_t>(window)}, at::kInt)
      .to(device_, at::kLong);
}

void TransformerInner::check(const Batch& batch) const {
  ATOLL_CHECK(batch.sequences > 0 && batch.length > 0 && batch.length <= model_.context &&
                  batch.tokens.size() == batch.sequences * (batch.length + 1),
              batch.sequences, " sequences of ", batch.length, " + 1 in ", batch.tokens.size(), " tokens; context ",
              model_.context);
}

double TransformerInner::compute_gradients(const Batch& batch, const GradientReady& ready) {
  check(batch);
  ATOLL_CHECK(batch.length == model_.context, batch.length, " tokens a sequence; context ", model_.context);
  const auto length = static_cast<std::int64_t>(batch.length);
  const std::size_t micro = config_.micro_batch == 0 ? batch.sequences : config_.micro_batch;
  const BackwardHere here;
  grads_.zero_();
  double loss = 0;
  for (std::size_t first = 0; first < batch.sequences; first += micro) {
    const std::size_t sequences = std::min(micro, batch.sequences - first);
    const at::Tensor tokens = tokens_of(batch, first, sequences);
    const double share = static_cast<double>(sequences) / static_cast<double>(batch.sequences);
    TransformerLoss parts;
    {
      const Autocast autocast(config_.precision, device_.type());
      parts = transformer_loss(transformer_logits(model_, live_, rotary_, tokens.narrow(1, 0, length)),
                               tokens.narrow(1, 1, length), config_.z_loss);
    }
    const bool last = first + sequences == batch.sequences;
    ready_ = last && ready ? &ready : nullptr;
    try {
      (share == 1.0 ? parts.objective : parts.objective * share).backward();
    } catch (...) {
      ready_ = nullptr;
      throw;
    }
    ready_ = nullptr;
    loss += share * parts.cross_entropy.item<double>();
  }
  return loss;
}

StepReport TransformerInner::update() {
  const torch::autograd::AutoGradMode no_grad(false);
  ++steps_;
  StepReport report{.loss = 0, .gradient_norm = 0, .lr = learning_rate(config_, steps_)};
  if (config_.clip > 0) {
    report.gradient_norm = std::sqrt(kernels::sum_of_squares(span_of(grads_), place()));
    const double scale = config_.clip / (report.gradient_norm + 1e-6);  // as torch.nn.utils.clip_grad_norm_
    if (scale < 1) grads_.mul_(scale);
  }
  switch (config_.optimizer) {
    case InnerOptimizer::sgd:
      sgd(report.lr);
      break;
    case InnerOptimizer::muon:
      muon(learning_rate(config_, config_.muon_lr, steps_));
      [[fallthrough]];  // what is not Muon's
    case InnerOptimizer::adamw:
      adamw(report.lr);
      break;
  }
  return report;
}

void TransformerInner::adamw(double lr) {
  for (const bool decays : {true, false}) {
    std::vector<at::Tensor> params, grads, first, second, steps;
    for (const Group& group : groups_) {
      if (group.decays != decays || group.muon || group.span.count == 0) continue;
      params.push_back(part_of(params_, group.span.offset, group.span.count));
      grads.push_back(part_of(grads_, group.span.offset, group.span.count));
      first.push_back(part_of(first_moment_, group.moments, group.span.count));
      second.push_back(part_of(second_moment_, group.moments, group.span.count));
      steps.push_back(at::full({}, static_cast<double>(steps_), params_.options()));
    }
    if (params.empty()) continue;
    at::_fused_adamw_(params, grads, first, second, {}, steps, lr, config_.betas[0], config_.betas[1],
                      decays ? config_.weight_decay : 0.0, config_.eps, /*amsgrad=*/false, /*maximize=*/false);
  }
}

// M <- mu M + G; W <- W (1 - lr decay) - lr sqrt(rows / cols) orthogonalised(G + mu M).  Whether M holds the sum or, as in some
// programs, the mean (1 - mu) sum, is the same: orthogonalised() takes the scale away.
void TransformerInner::muon(double lr) {
  for (const Group& group : groups_) {
    if (!group.muon || group.span.count == 0) continue;
    part_of(momentum_, group.moments, group.span.count)
        .mul_(config_.muon_momentum)
        .add_(part_of(grads_, group.span.offset, group.span.count));
    if (config_.weight_decay != 0)
      part_of(params_, group.span.offset, group.span.count).mul_(1 - lr * config_.weight_decay);
  }
  std::size_t at = 0;
  for (const MuonMatrix& m : muon_matrices_) {
    const auto matrix = [&](const at::Tensor& flat, std::size_t offset) {
      return part_of(flat, offset, m.span.count).view({m.rows, m.cols});
    };
    const at::Tensor ahead = matrix(grads_, m.span.offset).add(matrix(momentum_, at), config_.muon_momentum);
    const double scale = std::sqrt(static_cast<double>(m.rows) / static_cast<double>(m.cols));
    matrix(params_, m.span.offset).add_(orthogonalised(ahead, config_.precision), -lr * scale);
    at += m.span.count;
  }
}

// torch.optim.SGD without momentum: weight decay is added to the gradient.
void TransformerInner::sgd(double lr) {
  if (config_.weight_decay != 0) {
    for (const Group& group : groups_) {
      if (!group.decays || group.span.count == 0) continue;
      part_of(grads_, group.span.offset, group.span.count)
          .add_(part_of(params_, group.span.offset, group.span.count), config_.weight_decay);
    }
  }
  params_.add_(grads_, -lr);
}

double TransformerInner::evaluate(std::span<const float> params, const std::vector<Batch>& windows) {
  ATOLL_CHECK(params.size() == layout_.size(), params.size(), " parameters, ", layout_.size(), " expected");
  const torch::autograd::AutoGradMode no_grad(false);
  const at::Tensor flat =
      at::from_blob(const_cast<float*>(params.data()), {static_cast<std::int64_t>(params.size())}, params_.options());
  const TransformerParams other =
      transformer_params(model_, [&](const std::string& name) { return view_of(flat, layout_.at(name)); });
  double sum = 0, tokens = 0;
  for (const Batch& batch : windows) {
    check(batch);
    const auto length = static_cast<std::int64_t>(batch.length);
    const at::Tensor ids = tokens_of(batch, 0, batch.sequences);
    const Autocast autocast(config_.precision, device_.type());
    const auto loss = transformer_loss(transformer_logits(model_, other, rotary_, ids.narrow(1, 0, length)),
                                       ids.narrow(1, 1, length), 0);
    const double count = static_cast<double>(batch.token_count());
    sum += count * loss.cross_entropy.item<double>();
    tokens += count;
  }
  if (tokens == 0)
    throw ConfigError("no window to evaluate on: eval.windows and the validation split must give at least one");
  return sum / tokens;
}

std::vector<StateSpan> TransformerInner::state() {
  if (config_.optimizer == InnerOptimizer::sgd) return {};
  std::vector<StateSpan> all{{"adamw.first_moment", span_of(first_moment_)},
                             {"adamw.second_moment", span_of(second_moment_)}};
  if (config_.optimizer == InnerOptimizer::muon) all.push_back({"muon.momentum", span_of(momentum_)});
  return all;
}

}  // namespace

std::unique_ptr<Inner> make_transformer(const ModelConfig& model, const InnerConfig& config,
                                        const ParamLayout& layout) {
  return std::make_unique<TransformerInner>(model, config, layout);
}

std::string describe_backend(const InnerConfig& config) {
  std::string device = config.device;
  if (device != "cpu") {
    const at::Device found = device_of(config);
    device = text("cuda:", found.index(), " ", device_name(found.index()));
  }
  return text("libtorch ", TORCH_VERSION, ", ", device, ", ", config.threads,
              config.threads == 1 ? " thread" : " threads");
}

}  // namespace atl
