// The only reader of TOML and the only place with rules about settings.
//
// settings() lists every setting once: key, place, rule, words.  Three visitors walk it: reading, writing, comparing.
#include "app/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "app/config_reader.h"
#include "app/presets.h"
#include "app/toml_value.h"
#include "base/error.h"
#include "base/file.h"
#include "comm/codec.h"

namespace atl {

namespace {

enum class Agree { no, yes };  // must every site of a run have the same value?

template <class Enum>
using Names = std::vector<std::pair<std::string, Enum>>;

const auto any = [](const auto&) { return true; };
const auto positive = [](const auto& x) { return x > 0; };
const auto not_negative = [](const auto& x) { return x >= 0; };
const auto up_to_one = [](const auto& x) { return x >= 0 && x <= 1; };
const auto below_one = [](const auto& x) { return x >= 0 && x < 1; };
const auto is_codec = [](const std::string& x) { return x.empty() || std::ranges::count(codec_names(), x) > 0; };

// A site's or a run's name becomes a file's name and a key of the store.
bool is_name(const std::string& x) {
  const auto is_alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto fits = [&](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-'; };
  return !x.empty() && x.size() <= 64 && is_alnum(x.front()) && std::ranges::all_of(x, fits);
}
bool are_names(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::all_of(names, is_name) && std::ranges::adjacent_find(sorted) == sorted.end();
}
bool is_device(const std::string& x) {
  if (x == "cpu" || x == "cuda") return true;
  const std::string number = x.starts_with("cuda:") ? x.substr(5) : "";
  return !number.empty() && number.size() <= 3 &&
         std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

// Every setting, in the order of the file.  C is RunConfig or const RunConfig.
template <class C, class V>
void settings(C& c, V& v) {
  v.section("run");
  v.key("run.name", c.run.name, is_name, "1 to 64 letters, digits, '.', '_' or '-'", "names the run folder runs/NAME",
        Agree::no);
  v.key("run.method", c.run.method, any, "", "a method of docs/algorithms.md, 3: sets the defaults of what follows",
        Agree::yes);
  v.key("run.steps", c.run.steps, positive, "a whole number above 0", "inner steps of each site", Agree::yes);
  v.instead("run.tokens", c.run.tokens, positive, "a whole number above 0",
            "instead of steps: of all sites together, rounded up to whole steps");
  v.key("run.seed", c.run.seed, any, "a whole number, 0 or above", "of initial weights and the order of samples",
        Agree::yes);

  v.section("sites");
  v.key(
      "sites.count", c.sites.count, [](int x) { return x >= 1 && x <= 4096; }, "a whole number from 1 to 4096",
      "M; the first of sites.names is rank 0", Agree::yes);
  v.instead("sites.names", c.sites.names, are_names,
            "a list of different names, each 1 to 64 letters, digits, '.', '_' or '-'", "default site-0, site-1, ...");

  v.section("model");
  v.key("model.layers", c.model.layers, positive, "a whole number above 0", "blocks of attention and SwiGLU",
        Agree::yes);
  v.key("model.width", c.model.width, positive, "a whole number above 0", "a multiple of heads", Agree::yes);
  v.key("model.heads", c.model.heads, positive, "a whole number above 0", "attention heads", Agree::yes);
  v.key("model.kv_heads", c.model.kv_heads, any, "a whole number, 0 or above",
        "heads of keys and values; heads must be a multiple; 0: as many as heads", Agree::yes);
  v.key("model.ffn", c.model.ffn, any, "a whole number, 0 or above",
        "SwiGLU's inner width; 0: 8/3 of width, rounded up to a multiple of 16", Agree::yes);
  v.key("model.context", c.model.context, positive, "a whole number above 0", "T, tokens a sequence", Agree::yes);
  v.key("model.tied", c.model.tied, any, "true or false", "output projection = embedding", Agree::yes);
  v.key("model.qk_norm", c.model.qk_norm, any, "true or false", "RMSNorm on queries and keys", Agree::yes);

  v.section("data");
  v.key("data.path", c.data.path, any, "a text", "a folder that `atoll data prepare` wrote", Agree::no);
  v.key(
      "data.deal", c.data.deal, [](const std::string& x) { return x == "disjoint" || x == "same"; },
      R"("disjoint" or "same")", "disjoint; same: every site reads the same samples (tests of the averaging)",
      Agree::yes);

  v.section("inner");
  v.choice("inner.optimizer", c.inner.optimizer,
           Names<InnerOptimizer>{
               {"adamw", InnerOptimizer::adamw}, {"sgd", InnerOptimizer::sgd}, {"muon", InnerOptimizer::muon}},
           "adamw, sgd or muon (for matrices of blocks; adamw for the rest)");
  v.key("inner.lr", c.inner.lr, positive, "a number above 0", "peak", Agree::yes);
  const bool muon = c.inner.optimizer == InnerOptimizer::muon;
  v.key_if(muon, "inner.muon_lr", c.inner.muon_lr, positive, "a number above 0",
           "muon: peak for the matrices of blocks; lr is for the rest");
  v.key_if(muon, "inner.muon_momentum", c.inner.muon_momentum, below_one, "a number in [0, 1)", "muon: Nesterov's");
  v.choice(
      "inner.schedule", c.inner.schedule,
      Names<LrSchedule>{{"constant", LrSchedule::constant}, {"cosine", LrSchedule::cosine}, {"wsd", LrSchedule::wsd}},
      "constant, cosine or wsd (warm-up, stable, decay), behind the warm-up");
  v.key("inner.warmup_steps", c.inner.warmup_steps, any, "a whole number, 0 or above", "linear, from 0 to lr",
        Agree::yes);
  v.key("inner.final_lr_fraction", c.inner.final_lr_fraction, up_to_one, "a number from 0 to 1",
        "of lr, reached at the last step", Agree::yes);
  v.key("inner.wsd_decay_fraction", c.inner.wsd_decay_fraction, up_to_one, "a number from 0 to 1",
        "wsd: the last part of the steps, in which lr falls", Agree::yes);
  v.key("inner.weight_decay", c.inner.weight_decay, not_negative, "a number, 0 or above", "decoupled; matrices only",
        Agree::yes);
  v.key(
      "inner.betas", c.inner.betas, [](const auto& b) { return below_one(b[0]) && below_one(b[1]); },
      "two numbers in [0, 1), as in [0.9, 0.99]", "adamw", Agree::yes);
  v.key("inner.eps", c.inner.eps, positive, "a number above 0", "adamw", Agree::yes);
  v.key("inner.clip", c.inner.clip, not_negative, "a number, 0 or above",
        "of the inner gradient's global norm; 0: no clip", Agree::yes);
  v.key("inner.z_loss", c.inner.z_loss, not_negative, "a number, 0 or above", "weight of mean(log Z squared); 0: none",
        Agree::yes);
  v.key("inner.batch", c.batch, positive, "a whole number above 0", "sequences a step, all sites together", Agree::yes);
  v.key("inner.micro_batch", c.inner.micro_batch, any, "a whole number, 0 or above",
        "sequences a forward pass; 0: the whole batch of a site", Agree::no);
  v.choice("inner.precision", c.inner.precision, Names<Precision>{{"fp32", Precision::fp32}, {"bf16", Precision::bf16}},
           "fp32, or bf16 (autocast, fp32 master weights)");
  v.key("inner.device", c.inner.device, is_device, R"("cpu", "cuda" or "cuda:NUMBER")", "cpu, cuda or cuda:1",
        Agree::no);
  v.key(
      "inner.threads", c.inner.threads, [](int x) { return x >= 1 && x <= 1024; }, "a whole number from 1 to 1024",
      "CPU threads of one site", Agree::no);

  if (v.wants_outer(c)) {
    v.section("outer");
    v.key("outer.period", c.outer.schedule.period, positive, "a whole number above 0",
          "H, inner steps a round; a multiple of fragments", Agree::yes);
    v.key("outer.fragments", c.outer.schedule.fragments, positive, "a whole number above 0",
          "P, messages a round; 1 exchanges the whole model at once", Agree::yes);
    v.choice("outer.fragment_by", c.outer.fragment_by,
             Names<FragmentBy>{{"layers", FragmentBy::layers}, {"bytes", FragmentBy::bytes}},
             "layers (every so many) or bytes (equal spans)");
    v.key("outer.delay", c.outer.schedule.delay, any, "a whole number, 0 or above",
          "tau, inner steps between sending and applying; below period", Agree::yes);
    v.key("outer.first_send", c.outer.schedule.first_send, any, "a whole number, 0 or above",
          "inner step after which fragment 0 is first sent; 0: period / fragments", Agree::yes);
    v.key("outer.mix", c.outer.mix, up_to_one, "a number from 0 to 1",
          "alpha: share of its own parameters that a site keeps after an outer step", Agree::yes);
    v.choice(
        "outer.merge", c.outer.merge,
        Names<Merge>{
            {"mix", Merge::mix}, {"corrected", Merge::corrected}, {"delayed", Merge::delayed}, {"eager", Merge::eager}},
        "mix; corrected (keeps the tau local steps whole); delayed, eager (start the next round when sending)");
    v.choice("outer.optimizer", c.outer.optimizer.kind,
             Names<OuterKind>{{"sgd", OuterKind::sgd},
                              {"nesterov", OuterKind::nesterov},
                              {"heavy_ball", OuterKind::heavy_ball},
                              {"adam", OuterKind::adam}},
             "nesterov, sgd, heavy_ball (SlowMo's) or adam");
    v.key("outer.lr", c.outer.optimizer.lr, positive, "a number above 0", "eta", Agree::yes);
    v.key("outer.momentum", c.outer.optimizer.momentum, below_one, "a number in [0, 1)", "mu (adam: beta1)",
          Agree::yes);
    v.key("outer.beta2", c.outer.optimizer.beta2, below_one, "a number in [0, 1)", "adam", Agree::yes);
    v.key("outer.eps", c.outer.optimizer.eps, positive, "a number above 0", "adam", Agree::yes);
    v.key("outer.inner_lr_scaled", c.outer.inner_lr_scaled, any, "true or false",
          "heavy_ball: keep the momentum in units of the inner lr, as SlowMo does", Agree::yes);
    v.choice("outer.schedule", c.outer.rates.schedule,
             Names<OuterLrSchedule>{{"constant", OuterLrSchedule::constant},
                                    {"linear", OuterLrSchedule::linear},
                                    {"cosine", OuterLrSchedule::cosine}},
             "of lr over the rounds: constant, linear or cosine, behind the warm-up");
    v.key("outer.warmup_rounds", c.outer.rates.warmup_rounds, any, "a whole number, 0 or above",
          "lr rises linearly to its value", Agree::yes);
    v.key("outer.final_lr_fraction", c.outer.rates.final_lr_fraction, up_to_one, "a number from 0 to 1",
          "linear, cosine: of lr, reached in the last round", Agree::yes);
    v.key("outer.momentum_warmup_rounds", c.outer.rates.momentum_warmup_rounds, any, "a whole number, 0 or above",
          "momentum rises linearly to its value", Agree::yes);
    v.key("outer.restart_every", c.outer.rates.restart_every, any, "a whole number, 0 or above",
          "rounds after which the momentum starts at 0 again; 0: never", Agree::yes);
    v.key("outer.ddp_steps", c.outer.ddp_steps, any, "a whole number, 0 or above",
          "inner steps at the start that average gradients (post-local SGD)", Agree::yes);
    v.key(
        "outer.clusters", c.outer.clusters, [](int x) { return x >= 1 && x <= 4096; }, "a whole number from 1 to 4096",
        "groups of neighbouring sites that average among themselves between global rounds; 1: none", Agree::yes);
    v.key("outer.global_every", c.outer.global_every, positive, "a whole number above 0",
          "clusters > 1: every so many rounds all sites average", Agree::yes);
  }

  v.section("comm");
  v.key("comm.codec", c.comm.codec.name, is_codec, "one of " + list(codec_names()),
        list(codec_names()) + ": of what a site sends", Agree::yes);
  v.key("comm.codec_block", c.comm.codec.block, any, "a whole number, 0 or above",
        "values that share a scale or codebook; 0: the codec's own", Agree::yes);
  v.key("comm.codec_keep", c.comm.codec.keep, any, "a whole number, 0 or above",
        "topk: values kept of a block; 0: the codec's own", Agree::yes);
  v.key("comm.error_feedback", c.comm.error_feedback, up_to_one, "a number from 0 to 1",
        "beta: share of what the codec lost that is added to the next delta; 0: none", Agree::yes);
  v.key("comm.mean_codec", c.comm.mean_codec.name, is_codec, "one of " + list(codec_names()),
        "of the mean that comes back with 3 sites or more; default: as codec", Agree::yes);
  v.key("comm.mean_block", c.comm.mean_codec.block, any, "a whole number, 0 or above",
        "as codec_block, of the mean; default: as codec_block", Agree::yes);
  v.key("comm.bucket_mib", c.comm.bucket_mib, positive, "a number above 0", "ddp: gradients a message", Agree::yes);
  v.key(
      "comm.streams", c.comm.streams, [](int x) { return x >= 1 && x <= 64; }, "a whole number from 1 to 64",
      "TCP connections to each other site", Agree::yes);
  v.key("comm.piece_mib", c.comm.piece_mib, positive, "a number above 0", "a message travels in pieces of this size",
        Agree::yes);
  v.key("comm.congestion", c.comm.congestion, any, "a text",
        "TCP's congestion control, by the kernel's name, as in bbr or cubic; empty: the system's", Agree::no);
  v.key("comm.timeout_s", c.comm.timeout_s, positive, "a number above 0", "of one exchange, and of waiting for a site",
        Agree::no);
  v.key("comm.start_timeout_s", c.comm.start_timeout_s, positive, "a number above 0",
        "of waiting for all sites at the start: people start them one by one", Agree::no);
  v.key("comm.interface", c.comm.interface, any, "a text",
        "train: the network card or address that faces the other sites", Agree::no);
  v.key("comm.allow_loopback", c.comm.allow_loopback, any, "true or false",
        "train: let the interface be one that only this machine can reach", Agree::no);

  v.section("store");
  v.key("store.url", c.store.url, any, "a text", "train: file:///folder that all sites see", Agree::no);

  v.section("network");
  v.key("network.emulate.bandwidth_mbit", c.emulate.bandwidth_mbit, not_negative, "a number, 0 or above",
        "launch, train: hold what this site sends back, as a slow link would; 0: do not", Agree::no);
  v.key("network.emulate.rtt_ms", c.emulate.rtt_ms, not_negative, "a number, 0 or above", "round trip between sites",
        Agree::no);
  v.key("network.emulate.jitter_ms", c.emulate.jitter_ms, not_negative, "a number, 0 or above",
        "a message may come so much later", Agree::no);
  v.key(
      "network.emulate.loss_percent", c.emulate.loss_percent, [](double x) { return x >= 0 && x <= 50; },
      "a number from 0 to 50", "of packets: lowers the rate to what CUBIC reaches", Agree::no);

  v.section("eval");
  v.key("eval.every_rounds", c.eval.every_rounds, any, "a whole number, 0 or above",
        "rounds (ddp: steps) between evaluations; 0: at the end only", Agree::no);
  v.key("eval.windows", c.eval.windows, any, "a whole number, 0 or above", "validation windows; 0: all", Agree::no);

  v.section("clock");
  v.key("clock.step_seconds", c.clock.step_seconds, not_negative, "a number, 0 or above",
        "simulate: modelled time of an inner step; 0: no model", Agree::no);
  v.key("clock.bandwidth_mbit", c.clock.bandwidth_mbit, not_negative, "a number, 0 or above",
        "simulate: of each site, each direction", Agree::no);
  v.key("clock.rtt_ms", c.clock.rtt_ms, not_negative, "a number, 0 or above", "simulate: round trip between sites",
        Agree::no);
}

// ---- reading

struct Reading {
  ConfigReader& in;
  void section(const char*) {}
  template <class T, class Ok>
  void key(const std::string& key, T& value, Ok ok, const std::string& rule, const std::string&, Agree) {
    in.read(key, value, ok, rule);
  }
  template <class T, class Ok>
  void instead(const std::string& key, T& value, Ok ok, const std::string& rule, const std::string&) {
    in.read(key, value, ok, rule);
  }
  template <class T, class Ok>
  void key_if(bool, const std::string& key, T& value, Ok ok, const std::string& rule, const std::string&) {
    in.read(key, value, ok, rule);  // whether it has an effect: check_inner
  }
  template <class Enum>
  void choice(const std::string& key, Enum& value, const Names<Enum>& names, const std::string&) {
    std::vector<std::string> words;
    for (const auto& [name, unused] : names) words.push_back(name);
    std::string found;
    in.read(
        key, found, [&](const std::string& x) { return std::ranges::count(words, x) > 0; }, "one of " + list(words));
    for (const auto& [name, each] : names)
      if (name == found) value = each;
  }
  bool wants_outer(const RunConfig&) const { return true; }  // so that a mistake in it is found with ddp too
};

// ---- writing

template <class Enum>
std::string name_in(const Names<Enum>& names, Enum value) {
  for (const auto& [name, each] : names)
    if (each == value) return name;
  throw Bug(text("value ", static_cast<int>(value), " of an enumeration has no name"));
}

std::string last_part(const std::string& key) { return key.substr(key.find('.') + 1); }

struct Writing {
  std::ostringstream out;
  bool names_are_default = false;

  void section(const char* name) { out << (out.tellp() > 0 ? "\n[" : "[") << name << "]\n"; }
  void line(const std::string& left, const std::string& comment) {
    out << left << std::string(left.size() < 34 ? 34 - left.size() : 2, ' ') << "# " << comment << '\n';
  }
  template <class T, class Ok>
  void key(const std::string& key, const T& value, Ok, const std::string&, const std::string& comment, Agree) {
    line(last_part(key) + " = " + toml_value(value), comment);
  }
  // Another way to say the key above it: given as a comment, but for names that somebody chose.
  template <class T, class Ok>
  void instead(const std::string& key, const T& value, Ok, const std::string&, const std::string& comment) {
    const bool chosen = key == "sites.names" && !names_are_default;
    line((chosen ? "" : "# ") + last_part(key) + " = " + toml_value(value), comment);
  }
  // A key that has an effect only with another setting: else a comment, since it would be refused.
  template <class T, class Ok>
  void key_if(bool effect, const std::string& key, const T& value, Ok, const std::string&, const std::string& comment) {
    line((effect ? "" : "# ") + last_part(key) + " = " + toml_value(value), comment);
  }
  template <class Enum>
  void choice(const std::string& key, const Enum& value, const Names<Enum>& names, const std::string& comment) {
    line(last_part(key) + " = " + toml_value(name_in(names, value)), comment);
  }
  bool wants_outer(const RunConfig& c) const { return !c.ddp(); }
};

// ---- comparing

struct Comparing {
  std::vector<std::pair<std::string, std::string>> found;

  void section(const char*) {}
  template <class T, class Ok>
  void key(const std::string& key, const T& value, Ok, const std::string&, const std::string&, Agree agree) {
    if (agree == Agree::yes) found.emplace_back(key, toml_value(value));
  }
  template <class T, class Ok>
  void instead(const std::string& key, const T& value, Ok, const std::string&, const std::string&) {
    if (key == "sites.names") found.emplace_back(key, toml_value(value));
  }
  template <class T, class Ok>
  void key_if(bool effect, const std::string& key, const T& value, Ok, const std::string&, const std::string&) {
    if (effect) found.emplace_back(key, toml_value(value));
  }
  template <class Enum>
  void choice(const std::string& key, const Enum& value, const Names<Enum>& names, const std::string&) {
    found.emplace_back(key, toml_value(name_in(names, value)));
  }
  bool wants_outer(const RunConfig& c) const { return !c.ddp(); }
};

// ---- resolving, and rules between settings

std::vector<std::string> default_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("site-" + std::to_string(i));
  return names;
}

// Two keys of which the second replaces the first.  --set beats the file.
void resolve_alternative(ConfigReader& in, const std::string& key, const std::string& instead) {
  if (!in.given(key) || !in.given(instead)) return;
  if (in.overridden(instead) && !in.overridden(key))
    in.forget(key);
  else if (in.overridden(key) && !in.overridden(instead))
    in.forget(instead);
  else
    in.complain(instead, "but " + key + " is given too: give one of them");
}

void resolve_sites(ConfigReader& in, RunConfig& c) {
  if (!in.sound("sites.count") || !in.sound("sites.names")) return;
  const auto named = static_cast<int>(c.sites.names.size());
  if (in.given("sites.names") && named == 0) return in.complain("sites.names", "but it must hold at least one name");
  if (in.given("sites.names") && in.given("sites.count") && named != c.sites.count)
    return in.complain("sites.names", text("but sites.count is ", c.sites.count, ": the names are ", named));
  if (named > 0)
    c.sites.count = named;
  else
    c.sites.names = default_names(c.sites.count);
}

void resolve_steps(ConfigReader& in, RunConfig& c) {
  if (!in.sound("run.tokens") || !in.sound("inner.batch") || !in.sound("model.context")) return;
  if (c.batch > (1ULL << 32U)) return in.complain("inner.batch", "but it must be at most 2^32");
  if (c.model.context > (1ULL << 24U)) return in.complain("model.context", "but it must be at most 2^24");
  const std::uint64_t step = c.batch * c.model.context;
  if (in.given("run.tokens")) c.run.steps = c.run.tokens / step + (c.run.tokens % step > 0 ? 1 : 0);
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();  // of TOML
  if (c.run.steps > most / step)
    return in.complain(in.given("run.tokens") ? "run.tokens" : "run.steps", "but it must stay below 2^63 tokens");
  c.run.tokens = c.run.steps * step;
}

void check_model(ConfigReader& in, const RunConfig& c) {
  const ModelConfig& m = c.model;
  if (!in.sound("model.heads") || !in.sound("model.width") || !in.sound("model.kv_heads")) return;
  if (m.width % m.heads != 0)
    in.complain("model.width", text("but it must be a multiple of model.heads (", m.heads, ")"), toml_value(m.width));
  else if (m.width / m.heads % 2 != 0)  // rotary embedding turns pairs of values
    in.complain("model.width", text("but a head must have an even width, and width / heads is ", m.width / m.heads),
                toml_value(m.width));
  if (m.kv_heads > 0 && m.heads % m.kv_heads != 0)
    in.complain("model.kv_heads", text("but model.heads (", m.heads, ") must be a multiple of it"));
}

void check_batch(ConfigReader& in, const RunConfig& c) {
  if (!in.sound("inner.batch") || !in.sound("sites.count") || !in.sound("sites.names")) return;
  const auto sites = static_cast<std::size_t>(c.sites.count);
  if (c.batch % sites != 0) {
    const std::size_t below = c.batch / sites * sites;
    in.complain("inner.batch",
                text("but it is the batch of all sites together and must be a multiple of their number (", sites,
                     "): try ", below > 0 ? text(below, " or ") : "", below + sites),
                toml_value(c.batch));
  } else if (in.sound("inner.micro_batch") && c.inner.micro_batch > c.site_batch()) {
    in.complain("inner.micro_batch", text("but it must be at most the batch of a site (", c.batch, " / ", sites, " = ",
                                          c.site_batch(), "), or 0"));
  }
}

void check_inner(ConfigReader& in, const RunConfig& c) {
  if (in.sound("inner.warmup_steps") && in.sound("run.steps") && in.sound("run.tokens") &&
      c.inner.warmup_steps > c.run.steps)
    in.complain("inner.warmup_steps", text("but it must be at most run.steps (", c.run.steps, ")"));
  if (c.inner.optimizer != InnerOptimizer::muon && in.sound("inner.optimizer"))
    for (const char* key : {"inner.muon_lr", "inner.muon_momentum"})
      if (in.given(key))
        in.complain(key, text("but it has no effect with inner.optimizer = \"",
                              c.inner.optimizer == InnerOptimizer::sgd ? "sgd" : "adamw",
                              "\": leave it out, or set inner.optimizer = \"muon\""));
}

void check_schedule(ConfigReader& in, const RunConfig& c) {
  if (!in.sound("outer.period") || !in.sound("outer.fragments")) return;
  const ScheduleConfig& s = c.outer.schedule;
  const auto fragments = static_cast<std::uint64_t>(s.fragments);
  if (s.period % fragments != 0) {
    const std::uint64_t below = s.period / fragments * fragments;
    in.complain("outer.period",
                text("but it must be a multiple of outer.fragments (", fragments, "): try ",
                     below > 0 ? text(below, " or ") : "", below + fragments),
                toml_value(s.period));
  }
  if (s.delay >= s.period && in.sound("outer.delay"))
    in.complain("outer.delay", text("but it must be below outer.period (", s.period, ")"));
  if (s.first_send > s.period && in.sound("outer.first_send"))
    in.complain("outer.first_send", text("but it must be at most outer.period (", s.period, ")"));
}

bool is_sparse(const CodecConfig& codec) { return make_codec(codec.name)->sparse(); }
bool is_lossless(const CodecConfig& codec) { return codec.name == "fp32"; }

void check_codec(ConfigReader& in, const CodecConfig& codec, const std::string& key) {
  try {
    make_codec(codec);
  } catch (const ConfigError& e) {
    const std::string block = key == "comm.codec" ? "comm.codec_block" : "comm.mean_block";
    in.complain(codec.keep != 0 && codec.block == 0 ? "comm.codec_keep" : block, std::string("but ") + e.what());
  }
}

void resolve_mean_codec(ConfigReader& in, RunConfig& c) {
  CodecConfig& mean = c.comm.mean_codec;
  if (is_sparse(c.comm.codec)) {
    const std::string why = text("but with comm.codec = \"", c.comm.codec.name,
                                 "\" every site gets every payload, and no mean is sent back: leave it out");
    if (!mean.name.empty() && mean.name != "fp32" && in.sound("comm.mean_codec")) in.complain("comm.mean_codec", why);
    if (mean.block != 0 && in.sound("comm.mean_block")) in.complain("comm.mean_block", why);
    mean = {};
    return;
  }
  if (mean.name.empty()) {
    const std::size_t block = in.given("comm.mean_block") ? mean.block : c.comm.codec.block;
    mean = {.name = c.comm.codec.name, .block = block, .keep = 0};
  }
  if (is_sparse(mean)) in.complain("comm.mean_codec", "but a mean is not sparse: name a dense codec");
}

void check_comm(ConfigReader& in, RunConfig& c) {
  if (c.comm.codec.name.empty()) in.complain("comm.codec", "but it must be one of " + list(codec_names()));
  if (in.sound("comm.codec") && in.sound("comm.mean_codec")) {
    resolve_mean_codec(in, c);
    check_codec(in, c.comm.codec, "comm.codec");
    const bool own_mean = in.given("comm.mean_codec") || in.given("comm.mean_block");
    if (own_mean && in.sound("comm.mean_codec")) check_codec(in, c.comm.mean_codec, "comm.mean_codec");
    if (c.comm.error_feedback > 0 && is_lossless(c.comm.codec) && in.sound("comm.error_feedback"))
      in.complain("comm.error_feedback", "but comm.codec = \"fp32\" loses nothing: leave one of them out");
    if (c.ddp_steps() > 0 && c.comm.codec.name != "fp32" && c.comm.codec.name != "bf16")
      in.complain("comm.codec", text("but ", c.ddp() ? "run.method = \"ddp\"" : "outer.ddp_steps",
                                     " averages gradients, which have no error feedback here: fp32 or bf16"));
    if (c.ddp() && c.comm.error_feedback > 0 && in.sound("comm.error_feedback"))
      in.complain("comm.error_feedback",
                  "but run.method = \"ddp\" averages gradients and keeps no residual: leave it out");
  }
  if (c.comm.piece_mib > 1024 && in.sound("comm.piece_mib"))
    in.complain("comm.piece_mib", "but it must be at most 1024");
  if (c.comm.bucket_mib > 65536 && in.sound("comm.bucket_mib"))
    in.complain("comm.bucket_mib", "but it must be at most 65536");
  for (const auto& [key, seconds] :
       {std::pair{"comm.timeout_s", c.comm.timeout_s}, {"comm.start_timeout_s", c.comm.start_timeout_s}})
    if (seconds > 1e6 && in.sound(key)) in.complain(key, "but it must be at most 1000000");
}

// Settings of [outer] that have no effect, or none that anyone can mean, beside others.
void check_outer(ConfigReader& in, const RunConfig& c) {
  if (c.ddp()) return;
  const auto& o = c.outer;
  const OuterConfig plain;
  const auto complain = [&](const char* key, bool set, const std::string& what) {
    if (set && in.given(key) && in.sound(key)) in.complain(key, what);
  };
  complain("outer.mix", o.merge != Merge::mix && o.mix > 0,
           "but only outer.merge = \"mix\" mixes: leave one of them out");
  if (o.optimizer.kind != OuterKind::adam) {
    complain("outer.beta2", o.optimizer.beta2 != plain.beta2, "but only outer.optimizer = \"adam\" has it");
    complain("outer.eps", o.optimizer.eps != plain.eps, "but only outer.optimizer = \"adam\" has it");
  }
  if (o.inner_lr_scaled && o.optimizer.kind != OuterKind::heavy_ball)
    in.complain("outer.inner_lr_scaled", "but it is only defined for outer.optimizer = \"heavy_ball\"", "true");
  complain("outer.final_lr_fraction", o.rates.schedule == OuterLrSchedule::constant && o.rates.final_lr_fraction != 0,
           "but outer.schedule is constant: choose linear or cosine");
  if (o.optimizer.kind == OuterKind::sgd) {
    const std::string why = "but outer.optimizer = \"sgd\" has no momentum: leave it out";
    complain("outer.momentum_warmup_rounds", o.rates.momentum_warmup_rounds > 0, why);
    complain("outer.restart_every", o.rates.restart_every > 0, why);
  }
  if (o.ddp_steps > 0 && o.ddp_steps >= c.run.steps && in.sound("outer.ddp_steps"))
    in.complain("outer.ddp_steps",
                text("but it must be below run.steps (", c.run.steps, "); for DDP alone: run.method = \"ddp\""));
  if (o.clusters == 1)
    return complain("outer.global_every", o.global_every > 1,
                    "but outer.clusters is 1: all sites average in every round");
  if (!in.sound("outer.clusters")) return;
  if (c.sites.count % o.clusters != 0)
    in.complain("outer.clusters", text("but the sites (", c.sites.count, ") must be a multiple of it"));
  else if (o.merge != Merge::mix)
    in.complain("outer.clusters", "but it goes with outer.merge = \"mix\" only");
  else if (c.comm.error_feedback > 0)
    in.complain("outer.clusters", "but it does not go with comm.error_feedback: leave one of them out");
}

void check_store(ConfigReader& in, const RunConfig& c) {
  const std::string& url = c.store.url;
  if (url.empty()) return;
  if (url.starts_with("redis://"))
    in.complain("store.url", "but redis:// is not there yet; exists: file:///FOLDER");
  else if (!url.starts_with("file:///"))
    in.complain("store.url", "but it must be file:///FOLDER, with the folder's full path");
}

void check_network(ConfigReader& in, const RunConfig& c) {
  if (c.emulate.on() || !in.sound("network.emulate.bandwidth_mbit")) return;
  const std::pair<const char*, double> others[] = {{"network.emulate.rtt_ms", c.emulate.rtt_ms},
                                                   {"network.emulate.jitter_ms", c.emulate.jitter_ms},
                                                   {"network.emulate.loss_percent", c.emulate.loss_percent}};
  for (const auto& [key, value] : others)
    if (value > 0 && in.sound(key))
      in.complain(key, "but network.emulate.bandwidth_mbit is not given: nothing is emulated without it");
}

void check_clock(ConfigReader& in, const RunConfig& c) {
  const auto& k = c.clock;
  if (!in.sound("clock.step_seconds") || !in.sound("clock.bandwidth_mbit") || !in.sound("clock.rtt_ms")) return;
  if (k.step_seconds > 0 && k.bandwidth_mbit <= 0)
    in.complain("clock.step_seconds", "but clock.bandwidth_mbit is not given: the modelled time needs both");
  if (k.step_seconds <= 0 && k.bandwidth_mbit > 0)
    in.complain("clock.bandwidth_mbit", "but clock.step_seconds is not given: the modelled time needs both");
  if (k.step_seconds <= 0 && k.bandwidth_mbit <= 0 && k.rtt_ms > 0)
    in.complain("clock.rtt_ms",
                "but clock.step_seconds and clock.bandwidth_mbit are not given: the modelled time needs them");
}

bool is_loopback(const std::string& interface) {
  return interface == "lo" || interface == "localhost" || interface == "::1" || interface.starts_with("127.");
}

// What `train` needs beside: there is no default for where the other sites are.
void check_train(ConfigReader& in, const RunConfig& c, const std::string& site) {
  if (!in.given("sites.names") && !in.given("sites.count"))
    in.complain_about_file(
        "train needs to know all sites: give sites.names, in the same order at every site, or sites.count");
  else if (in.sound("sites.names") && in.sound("sites.count") && std::ranges::count(c.sites.names, site) == 0)
    in.complain_about_file(
        text("--site ", site, " is none of the sites: ", list(c.sites.names), near_miss(site, c.sites.names)));
  if (c.comm.interface.empty())
    in.complain_about_file(
        "train needs comm.interface: the network card (eth0) or address of this machine that the other sites reach");
  else if (is_loopback(c.comm.interface) && !c.comm.allow_loopback)
    in.complain(
        "comm.interface",
        "but only this machine can reach it: name the card that faces the other sites, or set comm.allow_loopback = "
        "true when all sites run on this machine");
  if (c.store.url.empty())
    in.complain_about_file(
        "train needs store.url, where the sites find each other: file:///FOLDER in a file system that all of them see");
}

}  // namespace

RunConfig parse_config(const std::string& toml, const std::string& name, const std::vector<std::string>& overrides,
                       const std::optional<std::string>& train_site) {
  ConfigReader in(toml, name, overrides);
  RunConfig c;
  resolve_alternative(in, "run.steps", "run.tokens");
  if (in.overridden("sites.count") && !in.overridden("sites.names")) in.forget("sites.names");
  if (in.overridden("sites.names") && !in.overridden("sites.count")) in.forget("sites.count");
  apply_preset(in, c);
  Reading reading{in};
  settings(c, reading);
  resolve_sites(in, c);
  resolve_steps(in, c);
  check_preset(in, c);
  check_model(in, c);
  check_batch(in, c);
  check_inner(in, c);
  check_schedule(in, c);
  check_comm(in, c);
  check_outer(in, c);
  check_store(in, c);
  check_network(in, c);
  check_clock(in, c);
  if (train_site) check_train(in, c, *train_site);
  in.finish();
  return c;
}

RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                      const std::optional<std::string>& train_site) {
  if (file.empty()) return parse_config("", "defaults", overrides, train_site);
  return parse_config(read_text(file, 1U << 20U), file.string(), overrides, train_site);
}

std::string to_toml(const RunConfig& config) {
  Writing writing;
  writing.names_are_default = config.sites.names == default_names(config.sites.count);
  settings(config, writing);
  return writing.out.str();
}

std::vector<std::pair<std::string, std::string>> agreed_settings(const RunConfig& config) {
  Comparing comparing;
  settings(config, comparing);
  return comparing.found;
}

}  // namespace atl
