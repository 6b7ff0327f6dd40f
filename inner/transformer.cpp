#include "inner/transformer.h"

#include "inner/functions.h"
#include "inner/norm_rotate.h"

namespace atl {
namespace {

constexpr double kRotaryBase = 10'000;  // arXiv:2104.09864
constexpr double kNormEps = 1e-6;

// Under autocast on the CPU our own passes are the faster ones.
bool fused(const at::Tensor& x) { return x.is_cpu() && at::autocast::is_autocast_enabled(at::kCPU); }

// In the weight's precision: under autocast queries and keys come in bf16.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  if (fused(x)) return norm_bf16(x, weight, kNormEps);
  return at::rms_norm(x.to(weight.scalar_type()), weight.sizes(), weight, kNormEps);
}

at::Tensor attention(const ModelConfig& m, const BlockParams& p, const Rotary& r, const at::Tensor& x) {
  const auto batch = x.size(0), length = x.size(1);
  const auto heads = static_cast<std::int64_t>(m.heads), kv = static_cast<std::int64_t>(m.kv_heads);
  const auto d = static_cast<std::int64_t>(m.width) / heads;
  const at::Tensor qkv = at::linear(x, p.qkv).view({batch, length, heads + 2 * kv, d});
  const auto parts = at::split_with_sizes(qkv, {heads, kv, kv}, 2);
  const at::Tensor v = parts[2];
  const auto turned = [&](const at::Tensor& part, const at::Tensor& norm) {
    if (m.qk_norm && fused(part)) return norm_rotate_bf16(part, norm, kNormEps, r.cos, r.sin).transpose(1, 2);
    return rotate(m.qk_norm ? rms_norm(part, norm) : part, r.cos, r.sin).to(v.scalar_type()).transpose(1, 2);
  };
  const at::Tensor q = turned(parts[0], p.q_norm), k = turned(parts[1], p.k_norm);
  const at::Tensor mixed =
      at::scaled_dot_product_attention(q, k, v.transpose(1, 2), {}, 0.0, /*is_causal=*/true, std::nullopt,
                                       /*enable_gqa=*/heads != kv);
  return at::linear(mixed.transpose(1, 2).reshape({batch, length, heads * d}), p.attention_out);
}

at::Tensor feed_forward(const BlockParams& p, const at::Tensor& x) {
  return at::linear(swiglu(at::linear(x, p.gate_up)), p.down);
}

}  // namespace

TransformerParams transformer_params(const ModelConfig& m,
                                     const std::function<at::Tensor(const std::string&)>& tensor) {
  TransformerParams params{
      .embedding = tensor("embedding"), .blocks = {}, .final_norm = tensor("final_norm"), .head = {}};
  for (std::size_t l = 0; l < m.layers; ++l) {
    const std::string at = "layers." + std::to_string(l) + ".";
    params.blocks.push_back({.attention_norm = tensor(at + "attention_norm"),
                             .qkv = tensor(at + "qkv"),
                             .q_norm = m.qk_norm ? tensor(at + "q_norm") : at::Tensor(),
                             .k_norm = m.qk_norm ? tensor(at + "k_norm") : at::Tensor(),
                             .attention_out = tensor(at + "attention_out"),
                             .ffn_norm = tensor(at + "ffn_norm"),
                             .gate_up = tensor(at + "gate_up"),
                             .down = tensor(at + "down")});
  }
  params.head = m.tied ? params.embedding : tensor("head");
  return params;
}

Rotary rotary(const ModelConfig& m, const at::Tensor& like) {
  const auto d = static_cast<std::int64_t>(m.width / m.heads), length = static_cast<std::int64_t>(m.context);
  const auto fp64 = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor speed = at::pow(kRotaryBase, at::arange(0, d, 2, fp64).div(-static_cast<double>(d)));  // [d/2]
  const at::Tensor angle = at::outer(at::arange(length, fp64), speed).unsqueeze(1);                       // [T, 1, d/2]
  return {angle.cos().to(like.options()), angle.sin().to(like.options())};
}

at::Tensor transformer_logits(const ModelConfig& m, const TransformerParams& params, const Rotary& r,
                              const at::Tensor& inputs) {
  const Rotary turns{r.cos.narrow(0, 0, inputs.size(1)), r.sin.narrow(0, 0, inputs.size(1))};
  at::Tensor x = at::embedding(params.embedding, inputs);  // [B, T, D]
  for (const BlockParams& block : params.blocks) {
    x = x + attention(m, block, turns, rms_norm(x, block.attention_norm));
    x = x + feed_forward(block, rms_norm(x, block.ffn_norm));
  }
  return at::linear(rms_norm(x, params.final_norm), params.head).flatten(0, 1);
}

TransformerLoss transformer_loss(const at::Tensor& logits, const at::Tensor& targets, double z_loss) {
  // In fp32 at least: under autocast logits are bf16.
  const at::Tensor wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  const TokenLoss loss = token_loss(wide, targets.reshape({-1}), z_loss);
  return {loss.cross_entropy, loss.objective};
}

}  // namespace atl
