#include "app/presets.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace atl {

namespace {

const std::string kExisting = "ddp, local_sgd, diloco";

// Of docs/algorithms.md, 3, in later versions.
const std::vector<std::string> kNotYet{"post_local_sgd",  "slowmo",    "streaming",  "eager",     "delayed",
                                       "delay_corrected", "muloco",    "sparseloco", "lookahead", "snoo",
                                       "async_dn",        "decoupled", "noloco"};

const std::vector<std::string> kOuterKeys{"outer.period",    "outer.fragments",  "outer.fragment_by",
                                          "outer.delay",     "outer.first_send", "outer.mix",
                                          "outer.optimizer", "outer.lr",         "outer.momentum"};

// ddp averages gradients: an outer setting would have no effect, and whoever gave one expects one.
void check_ddp(ConfigReader& in) {
  for (const std::string& key : kOuterKeys)
    if (in.given(key) && in.sound(key))
      in.complain(key,
                  R"(but run.method = "ddp" averages gradients in every step and has no outer step: leave it out)");
}

// Local SGD is the plain mean of the parameters (arXiv:1805.09767): an outer step with eta = 1, mu = 0.
void check_local_sgd(ConfigReader& in, const RunConfig& config) {
  const OuterConfig& outer = config.outer.optimizer;
  const std::string other =
      R"( with run.method = "local_sgd", which takes the plain mean; for other values use "diloco")";
  if (outer.kind != OuterKind::sgd && in.sound("outer.optimizer"))
    in.complain("outer.optimizer", R"(but it must be "sgd")" + other);
  if (outer.lr != 1.0F && in.sound("outer.lr")) in.complain("outer.lr", "but it must be 1" + other);
  if (outer.momentum != 0.0F && in.sound("outer.momentum")) in.complain("outer.momentum", "but it must be 0" + other);
}

// diloco is the general case: every outer setting may be given.
void check_diloco(ConfigReader& in, RunConfig& config) {
  OuterConfig& outer = config.outer.optimizer;
  if (outer.kind != OuterKind::sgd) return;
  if (!in.given("outer.momentum")) outer.momentum = 0;  // the preset's is Nesterov's
  if (outer.momentum != 0.0F && in.sound("outer.momentum"))
    in.complain("outer.momentum", R"(but outer.optimizer = "sgd" has no momentum: leave it out)");
}

}  // namespace

void apply_preset(ConfigReader& in, RunConfig& config) {
  const auto exists = [](const std::string& x) { return x == "ddp" || x == "local_sgd" || x == "diloco"; };
  std::string method = config.run.method;
  in.read(
      "run.method", method, [](const std::string&) { return true; }, "a text");
  if (in.sound("run.method") && !exists(method)) {
    const bool later = std::ranges::count(kNotYet, method) > 0;
    in.complain("run.method",
                later ? "which is not there yet; exist: " + kExisting
                      : "but it must be one of " + kExisting + near_miss(method, {"ddp", "local_sgd", "diloco"}));
    return;
  }
  if (method == "local_sgd") config.outer.optimizer = {.kind = OuterKind::sgd, .lr = 1.0F, .momentum = 0.0F};
}

void check_preset(ConfigReader& in, RunConfig& config) {
  if (!in.sound("run.method")) return;
  if (config.run.method == "ddp") check_ddp(in);
  if (config.run.method == "local_sgd") check_local_sgd(in, config);
  if (config.run.method == "diloco") check_diloco(in, config);
}

}  // namespace atl
