// The transformer of the Llama family with AdamW, SGD or Muon, on libtorch: the Inner that atoll trains.
//
// RMSNorm, rotary embedding, SwiGLU, grouped-query attention (arXiv:2302.13971, 2104.09864, 2002.05202, 2305.13245).
// Parameters and gradients are views into two flat fp32 buffers in the order of `layout`.
#pragma once
#include <memory>

#include "inner/config.h"
#include "inner/inner.h"

namespace atl {

// `layout` holds the tensors of model_params(model), in any order.  Initial weights depend on seed and tensor name alone,
// never on the order.  Throws ConfigError when the device is not there or the layout is not the model's.
std::unique_ptr<Inner> make_transformer(const ModelConfig& model, const InnerConfig& config, const ParamLayout& layout);

// "libtorch 2.11.0, cpu, 1 thread" / "..., cuda:0 NVIDIA H200, ...": for logs and `atoll --version`.
// Throws ConfigError when the device is not there.
std::string describe_backend(const InnerConfig& config);

}  // namespace atl
