// Three pieces of the transformer with backward passes of their own: fewer passes over memory than autograd would make of the
// same formulas.  Any dtype and device.  Includes libtorch: for inner/ and its tests only.
#pragma once
#include "inner/torch.h"

namespace atl {

// x: [..., d].  Turns the pairs (i, i + d/2): y_i = x_i cos - x_{i+d/2} sin, y_{i+d/2} = x_{i+d/2} cos + x_i sin.
// cos, sin: broadcast to [..., d/2].  Rotary embedding, arXiv:2104.09864.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

// gate_up: [..., 2 F]: silu(first half) * second half, [..., F].  SwiGLU, arXiv:2002.05202.
at::Tensor swiglu(const at::Tensor& gate_up);

struct TokenLoss {
  at::Tensor cross_entropy;  // mean over tokens; not differentiable: for reports
  at::Tensor objective;      // cross_entropy + z_loss * mean(log Z squared)
};
// logits: [N, V]; targets: int64 [N].  z-loss: arXiv:2204.02311, section 5.
TokenLoss token_loss(const at::Tensor& logits, const at::Tensor& targets, double z_loss);

}  // namespace atl
