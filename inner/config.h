// Settings of the inner loop: the model, its optimizer, its learning-rate schedule.  No torch here: src/app/config.cpp
// reads these from TOML and checks them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/param_layout.h"

namespace atl {

struct ModelConfig {
  std::size_t layers = 2;
  std::size_t width = 64;
  std::size_t heads = 4;         // width must be a multiple
  std::size_t kv_heads = 0;      // grouped-query attention; heads must be a multiple; 0 means heads
  std::size_t ffn = 0;           // SwiGLU's inner width; 0 means 8/3 of width, rounded up to a multiple of 16
  std::size_t context = 64;      // T, tokens
  std::size_t vocabulary = 256;  // from the data, not a setting
  bool tied = false;             // output projection = embedding
  bool qk_norm = true;           // RMSNorm on queries and keys, per head (arXiv:2302.05442)
};

enum class InnerOptimizer { adamw, sgd, muon };
enum class LrSchedule { constant, cosine, wsd };
enum class Precision { fp32, bf16 };

struct InnerConfig {
  InnerOptimizer optimizer = InnerOptimizer::adamw;
  double lr = 4e-3;             // peak
  double muon_lr = 0.02;        // muon: peak for the matrices of the blocks; lr is for the rest, by AdamW
  double muon_momentum = 0.95;  // muon: Nesterov's
  LrSchedule schedule = LrSchedule::cosine;
  std::uint64_t warmup_steps = 0;   // linear from lr / warmup_steps to lr
  double final_lr_fraction = 0.05;  // of lr, reached at the last step
  double wsd_decay_fraction = 0.2;  // wsd: the last part of the steps in which lr falls linearly
  double weight_decay = 0.1;        // decoupled; matrices only, not norms
  std::array<double, 2> betas{0.9, 0.99};
  double eps = 1e-8;
  double clip = 1.0;                      // of the inner gradient's global norm; 0: no clip
  double z_loss = 1e-4;                   // weight of mean(log Z squared); 0: none
  std::size_t micro_batch = 0;            // sequences a forward pass; 0: the whole batch of the site
  Precision precision = Precision::fp32;  // bf16: autocast, fp32 master weights
  std::string device = "cpu";             // "cpu", "cuda", "cuda:1"
  int threads = 1;                        // CPU threads of one site
  std::uint64_t total_steps = 1;          // for the schedule
  std::uint64_t seed = 1;                 // initial weights; the same at every site
};

// The learning rate of inner step t (1 .. total_steps): a pure function.  t beyond total_steps: that of the last step.
double learning_rate(const InnerConfig& config, std::uint64_t t);
// The same with another peak than config.lr.
double learning_rate(const InnerConfig& config, double peak, std::uint64_t t);

// With kv_heads and ffn filled in.  Throws ConfigError for a shape that cannot be, naming the setting.
ModelConfig resolved(ModelConfig config);

// The model's tensors in canonical order, with their layers (outer/fragments.h may reorder them).
std::vector<ParamSpec> model_params(const ModelConfig& config);

}  // namespace atl
