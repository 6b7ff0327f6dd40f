#include "app/presets.h"

#include <algorithm>

#include "base/error.h"

namespace atl {

namespace {

const OuterConfig kPlainMean{.kind = OuterKind::sgd, .lr = 1, .momentum = 0};

// A method: the defaults it sets before the file is read, and what it asks for afterwards.
struct Method {
  std::string name;
  void (*defaults)(RunConfig&);
  void (*check)(ConfigReader&, RunConfig&);
};

void nothing(RunConfig&) {}
void general(ConfigReader&, RunConfig&) {}  // every outer setting may be given

// Complains unless the setting has the method's value.
void must_be(ConfigReader& in, const RunConfig& c, const std::string& key, bool right, const std::string& value,
             const std::string& why) {
  if (!right && in.sound(key))
    in.complain(key, text("but it must be ", value, " with run.method = \"", c.run.method, "\", ", why));
}

// ddp averages gradients: an outer setting would have no effect, and whoever gave one expects one.
void check_ddp(ConfigReader& in, RunConfig&) {
  for (const std::string& key : in.given_in("outer"))
    if (in.sound(key))
      in.complain(key,
                  R"(but run.method = "ddp" averages gradients in every step and has no outer step: leave it out)");
}

// The plain mean of the parameters: an outer step with η = 1, μ = 0.
void check_plain_mean(ConfigReader& in, RunConfig& c) {
  const OuterConfig& outer = c.outer.optimizer;
  const std::string why = R"(which takes the plain mean; for other values use "diloco")";
  must_be(in, c, "outer.optimizer", outer.kind == OuterKind::sgd, "\"sgd\"", why);
  must_be(in, c, "outer.lr", outer.lr == 1, "1", why);
  must_be(in, c, "outer.momentum", outer.momentum == 0, "0", why);
}

void check_post_local(ConfigReader& in, RunConfig& c) {
  check_plain_mean(in, c);
  if (!in.given("outer.ddp_steps")) c.outer.ddp_steps = std::max<std::uint64_t>(1, c.run.steps / 2);
  must_be(in, c, "outer.ddp_steps", c.outer.ddp_steps > 0, "above 0", "which starts with DDP");
}

void check_slowmo(ConfigReader& in, RunConfig& c) {
  must_be(in, c, "outer.optimizer", c.outer.optimizer.kind == OuterKind::heavy_ball, "\"heavy_ball\"",
          "which is defined by it");
}

void check_lookahead(ConfigReader& in, RunConfig& c) {
  must_be(in, c, "sites.count", c.sites.count == 1, "1", "which has one site");
  must_be(in, c, "outer.optimizer", c.outer.optimizer.kind == OuterKind::sgd, "\"sgd\"", "which is defined by it");
}

void check_snoo(ConfigReader& in, RunConfig& c) {
  must_be(in, c, "sites.count", c.sites.count == 1, "1", "which has one site");
  must_be(in, c, "outer.optimizer", c.outer.optimizer.kind == OuterKind::nesterov, "\"nesterov\"",
          "which is defined by it");
}

template <Merge merge>
void check_merge(ConfigReader& in, RunConfig& c) {
  must_be(in, c, "outer.merge", c.outer.merge == merge,
          text('"', c.run.method == "delay_corrected" ? "corrected" : c.run.method, '"'), "which is defined by it");
  // The answer is needed when the next one is sent, and not before: the exchange has the whole round.
  if (!in.given("outer.delay") && c.outer.schedule.period > 0)
    c.outer.schedule.delay = merge == Merge::corrected ? std::min<std::uint64_t>(5, c.outer.schedule.period - 1)
                                                       : c.outer.schedule.period - 1;
}

void check_sparseloco(ConfigReader& in, RunConfig& c) {
  check_plain_mean(in, c);
  must_be(in, c, "comm.codec", c.comm.codec.name == "topk", "\"topk\"", "which is defined by it");
}

void check_muloco(ConfigReader& in, RunConfig& c) {
  must_be(in, c, "inner.optimizer", c.inner.optimizer == InnerOptimizer::muon, "\"muon\"", "which is defined by it");
}

// docs/algorithms.md, 3.
const std::vector<Method>& table() {
  static const std::vector<Method> methods{
      {"ddp", nothing, check_ddp},
      {"local_sgd", [](RunConfig& c) { c.outer.optimizer = kPlainMean; }, check_plain_mean},
      {"post_local_sgd", [](RunConfig& c) { c.outer.optimizer = kPlainMean; }, check_post_local},
      {"diloco", nothing, general},
      {"slowmo",
       [](RunConfig& c) {
         c.outer.optimizer = {.kind = OuterKind::heavy_ball, .lr = 1, .momentum = 0.7F};
         c.outer.inner_lr_scaled = true;
       },
       check_slowmo},
      {"streaming",
       [](RunConfig& c) {
         c.outer.schedule.fragments = 3;
         c.outer.schedule.delay = 1;
         c.outer.mix = 0.5F;
         c.outer.optimizer.lr = 0.4F;
         c.comm.codec.name = "e3m0";
       },
       general},
      {"eager", [](RunConfig& c) { c.outer.merge = Merge::eager; }, check_merge<Merge::eager>},
      {"delayed", [](RunConfig& c) { c.outer.merge = Merge::delayed; }, check_merge<Merge::delayed>},
      {"delay_corrected", [](RunConfig& c) { c.outer.merge = Merge::corrected; }, check_merge<Merge::corrected>},
      {"muloco",
       [](RunConfig& c) {
         c.inner.optimizer = InnerOptimizer::muon;
         c.outer.optimizer.momentum = 0.6F;
       },
       check_muloco},
      {"sparseloco",
       [](RunConfig& c) {
         c.outer.optimizer = kPlainMean;
         c.comm.codec.name = "topk";
         c.comm.error_feedback = 0.95F;
       },
       check_sparseloco},
      {"lookahead",
       [](RunConfig& c) {
         c.sites.count = 1;
         c.outer.schedule.period = 5;
         c.outer.optimizer = {.kind = OuterKind::sgd, .lr = 0.5F, .momentum = 0};
       },
       check_lookahead},
      {"snoo", [](RunConfig& c) { c.sites.count = 1; }, check_snoo},
  };
  return methods;
}

// Of docs/algorithms.md, 3, in later versions.
bool comes_later(const std::string& name) { return name == "async_dn" || name == "decoupled" || name == "noloco"; }

const Method* find(const std::string& name) {
  const auto found = std::ranges::find(table(), name, &Method::name);
  return found == table().end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> methods() {
  std::vector<std::string> names;
  for (const Method& method : table()) names.push_back(method.name);
  return names;
}

void apply_preset(ConfigReader& in, RunConfig& config) {
  std::string name = config.run.method;
  in.read(
      "run.method", name, [](const std::string&) { return true; }, "a text");
  if (!in.sound("run.method")) return;
  if (const Method* method = find(name)) return method->defaults(config);
  in.complain("run.method", comes_later(name)
                                ? "which is not there yet; exist: " + list(methods())
                                : "but it must be one of " + list(methods()) + near_miss(name, methods()));
}

void check_preset(ConfigReader& in, RunConfig& config) {
  OuterConfig& outer = config.outer.optimizer;
  const bool without_momentum = outer.kind == OuterKind::sgd;
  if (without_momentum && !in.given("outer.momentum")) outer.momentum = 0;  // a preset's is another optimizer's
  if (const Method* method = in.sound("run.method") ? find(config.run.method) : nullptr) method->check(in, config);
  if (without_momentum && outer.momentum != 0 && in.sound("outer.momentum") && !config.ddp())
    in.complain("outer.momentum", R"(but outer.optimizer = "sgd" has no momentum: leave it out)");
}

}  // namespace atl
