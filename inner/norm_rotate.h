// RMSNorm, and what may follow it on queries and keys, the rotation, in one pass for bf16 on the CPU: each number is read
// once, worked on in fp32, and rounded once.  libtorch makes about 20 passes of it, forward and back.
// For fp32 and for CUDA there is at::rms_norm.  Includes libtorch: for inner/ and its tests only.
#pragma once
#include "inner/torch.h"

namespace atl {

// x: [..., d], fp32 or bf16, on the CPU, its last dimension contiguous; weight: fp32 [d].  y = x / sqrt(mean(x^2) + eps) * weight in bf16.
at::Tensor norm_bf16(const at::Tensor& x, const at::Tensor& weight, double eps);

// x: [B, T, h, d]; cos, sin: fp32 [T, 1, d/2], contiguous.  The same, then rotate() (inner/functions.h).
at::Tensor norm_rotate_bf16(const at::Tensor& x, const at::Tensor& weight, double eps, const at::Tensor& cos,
                            const at::Tensor& sin);

}  // namespace atl
