// The transformer's forward pass over tensors that somebody else owns: live parameters, others to evaluate, doubles in a test.
// Includes libtorch: for inner/ and its tests only.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "inner/config.h"
#include "inner/torch.h"

namespace atl {

// One block's parameters.  D width, h heads, k key-value heads, d = D / h, F ffn.
struct BlockParams {
  at::Tensor attention_norm;  // [D]
  at::Tensor qkv;             // [(h + 2 k) d, D]
  at::Tensor q_norm, k_norm;  // [d]; undefined without QK-norm
  at::Tensor attention_out;   // [D, h d]
  at::Tensor ffn_norm;        // [D]
  at::Tensor gate_up;         // [2 F, D]
  at::Tensor down;            // [D, F]
};

struct TransformerParams {
  at::Tensor embedding;  // [V, D]
  std::vector<BlockParams> blocks;
  at::Tensor final_norm;  // [D]
  at::Tensor head;        // [V, D]; the embedding when tied
};

// `tensor(name)` gives the parameter of that name (model_params).
TransformerParams transformer_params(const ModelConfig& model,
                                     const std::function<at::Tensor(const std::string&)>& tensor);

// Cosines and sines of the rotary embedding, [T, 1, d/2] each, for the dtype and device of `like`.
struct Rotary {
  at::Tensor cos, sin;
};
Rotary rotary(const ModelConfig& model, const at::Tensor& like);

struct TransformerLoss {
  at::Tensor cross_entropy;  // mean over tokens, a scalar
  at::Tensor objective;      // cross_entropy + z_loss * mean(logsumexp^2): what is minimised
};

// inputs, targets: int64 [B, T], T at most the context.
at::Tensor transformer_logits(const ModelConfig& model, const TransformerParams& params, const Rotary& rotary,
                              const at::Tensor& inputs);  // [B T, V]
TransformerLoss transformer_loss(const at::Tensor& logits, const at::Tensor& targets, double z_loss);

}  // namespace atl
