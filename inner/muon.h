// Muon: momentum whose matrices are orthogonalised, W <- W - lr sqrt(rows / cols) O, O near the U V^T of G = U S V^T.
//
// For the matrices of the blocks; embedding, head and norms stay with AdamW (inner/transformer_inner.cpp).  A fused matrix
// counts as what it holds: q, k and v of qkv, gate and up of gate_up, each by itself.
// Source: K. Jordan et al., "Muon", 2024 (Nesterov's momentum, Newton-Schulz); the five steps' coefficients and sqrt(fan_out / fan_in)
// as used in MuLoCo, arXiv:2505.23725.  Includes libtorch: for inner/ and its tests only.
#pragma once
#include <vector>

#include "base/param_layout.h"
#include "inner/config.h"
#include "inner/torch.h"

namespace atl {

// Is this tensor a matrix of a block?
bool is_muon(const ParamSpec& spec);

// One matrix, a stretch of rows of a tensor of the layout.
struct MuonMatrix {
  Span span;  // of the flat vector
  std::int64_t rows = 0, cols = 0;
};

// The matrices of one tensor of a block, in the order of its rows.  They cover it.
std::vector<MuonMatrix> muon_matrices(const ModelConfig& model, const ParamLayout::Entry& entry);

// Five Newton-Schulz steps X <- a X + (b A + c A^2) X, A = X X^T, from X = G / (|G| + 1e-7), |G| Frobenius's, turned on its side when
// rows > cols.  Singular values come out near 1 (a matrix of zeros: 0).  In bf16 when `precision` is.  [rows, cols], dtype of g.
at::Tensor orthogonalised(const at::Tensor& g, Precision precision);

}  // namespace atl
