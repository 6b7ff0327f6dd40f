// Evaluate a run's model (Θ, model.safetensors) on the fixed validation windows: `atoll eval`.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace atl {

struct EvaluateOptions {
  std::filesystem::path run = {};
  std::vector<std::string> overrides = {};  // of --set
};

// A few lines for people: loss, perplexity, bits a token, on how many windows, of which step.  Throws ConfigError when
// the folder is no run, has no model yet, or its model or data do not fit.
std::string evaluate_run(const EvaluateOptions& options);

}  // namespace atl
