#include "app/evaluate_run.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "app/assemble.h"
#include "app/run_folder.h"
#include "app/safetensors.h"
#include "base/error.h"

namespace atl {

std::string evaluate_run(const EvaluateOptions& options) {
  const auto config_file = options.run / "config.toml", model_file = options.run / "model.safetensors";
  if (!std::filesystem::exists(config_file))
    throw ConfigError(options.run.string() + ": is no run folder: it holds no config.toml");
  if (!std::filesystem::exists(model_file))
    throw ConfigError(options.run.string() + ": holds no model.safetensors yet");

  const RunParts parts = assemble(read_config(config_file, options.overrides));
  const std::unique_ptr<Inner> inner = make_inner(parts);
  std::vector<float> values(parts.plan.layout.size());
  const Metadata metadata = read_safetensors(model_file, parts.plan.layout, values);
  copy(values, {}, inner->local(), inner->place());

  constexpr std::size_t kBatch = 32;
  const std::vector<Batch> windows = parts.data->validation(parts.config.eval.windows, kBatch);
  std::size_t count = 0;
  for (const Batch& batch : windows) count += batch.sequences;
  const double loss = inner->evaluate(inner->local(), windows);

  const auto step = metadata.find("atoll.step");
  return fmt::format(
      "held-out loss {:.4f} nats a token   perplexity {:.3f}   {:.4f} bits a token\n"
      "{}{}, {} of {} windows of {} tokens of {}\n",
      loss, std::exp(loss), loss / std::numbers::ln2, model_file.string(),
      step == metadata.end() ? "" : ", step " + step->second, count, parts.data->val_windows(),
      parts.config.model.context, parts.config.data.path);
}

}  // namespace atl
