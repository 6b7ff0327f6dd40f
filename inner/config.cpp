#include "inner/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace atl {

double learning_rate(const InnerConfig& c, std::uint64_t t) { return learning_rate(c, c.lr, t); }

double learning_rate(const InnerConfig& c, double peak, std::uint64_t t) {
  const double step = static_cast<double>(std::clamp<std::uint64_t>(t, 1, std::max<std::uint64_t>(1, c.total_steps)));
  const double warmup = static_cast<double>(c.warmup_steps), total = static_cast<double>(c.total_steps);
  if (step <= warmup) return peak * step / warmup;
  switch (c.schedule) {
    case LrSchedule::constant:
      return peak;
    case LrSchedule::cosine: {
      const double done = (step - warmup) / std::max(1.0, total - warmup);  // 1 at the last step
      return peak * (c.final_lr_fraction + (1 - c.final_lr_fraction) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
    }
    case LrSchedule::wsd: {
      const double decay = std::min(c.wsd_decay_fraction * total, total - warmup);  // steps in which it falls
      const double done = decay > 0 ? std::max(0.0, (step - (total - decay)) / decay) : 0;
      return peak * (1 - (1 - c.final_lr_fraction) * done);
    }
  }
  throw Bug("a learning-rate schedule without a formula");
}

ModelConfig resolved(ModelConfig m) {
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.ffn == 0) m.ffn = (m.width * 8 / 3 + 15) / 16 * 16;
  const auto refuse = [](const std::string& what) { throw ConfigError("model: " + what); };
  if (m.layers == 0 || m.width == 0 || m.heads == 0 || m.context == 0 || m.vocabulary == 0)
    refuse("layers, width, heads, context and the vocabulary must be at least 1");
  if (m.width % m.heads != 0)
    refuse(text("model.width = ", m.width, ", but it must be a multiple of model.heads (", m.heads, ")"));
  if (m.width / m.heads % 2 != 0)
    refuse(text("model.width / model.heads = ", m.width / m.heads,
                ", but it must be even (rotary embedding turns pairs)"));
  if (m.heads % m.kv_heads != 0)
    refuse(text("model.heads = ", m.heads, ", but it must be a multiple of model.kv_heads (", m.kv_heads, ")"));
  return m;
}

std::vector<ParamSpec> model_params(const ModelConfig& config) {
  const ModelConfig m = resolved(config);
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const std::int64_t width = size(m.width), head = width / size(m.heads), ffn = size(m.ffn),
                     vocabulary = size(m.vocabulary);
  std::vector<ParamSpec> params{{"embedding", {vocabulary, width}, ParamSpec::kEmbedding}};
  for (int l = 0; l < static_cast<int>(m.layers); ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    params.push_back({at + "attention_norm", {width}, l});
    params.push_back({at + "qkv", {size(m.heads + 2 * m.kv_heads) * head, width}, l});
    if (m.qk_norm) {
      params.push_back({at + "q_norm", {head}, l});
      params.push_back({at + "k_norm", {head}, l});
    }
    params.push_back({at + "attention_out", {width, width}, l});
    params.push_back({at + "ffn_norm", {width}, l});
    params.push_back({at + "gate_up", {2 * ffn, width}, l});
    params.push_back({at + "down", {width, ffn}, l});
  }
  const int last = m.tied ? ParamSpec::kEmbedding : ParamSpec::kHead;  // a norm alone makes no fragment
  params.push_back({"final_norm", {width}, last});
  if (!m.tied) params.push_back({"head", {vocabulary, width}, last});
  return params;
}

}  // namespace atl
