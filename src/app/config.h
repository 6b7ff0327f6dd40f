// RunConfig: everything one run is made from, as the TOML file and --set gave it, checked and resolved.
//
// src/app/config.cpp is the only reader of TOML and the only place with rules.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/codec.h"
#include "comm/emulated_uplink.h"
#include "inner/config.h"
#include "outer/fragments.h"
#include "outer/merge.h"
#include "outer/outer_optimizer.h"
#include "outer/outer_schedule.h"
#include "outer/schedule.h"

namespace atl {

struct RunConfig {
  struct Run {
    std::string name = "run";
    std::string method = "diloco";  // one of methods() in src/app/presets.h
    std::uint64_t steps = 1000;     // inner steps; resolved from tokens (rounded up) when that is given instead
    std::uint64_t tokens = 0;       // all sites together; always steps * batch * context when resolved
    std::uint64_t seed = 1;
  } run;
  struct Sites {
    int count = 4;                   // M; the length of names
    std::vector<std::string> names;  // rank order; default site-0 ... site-(count-1)
  } sites;
  ModelConfig model;
  struct Data {
    std::string path;               // a folder of `atoll data prepare`
    std::string deal = "disjoint";  // "same": every site reads the same samples (tests of the averaging)
  } data;
  InnerConfig inner;
  std::size_t batch =
      16;  // sequences an inner step, all sites together ("same": each site's batch is batch / count too)
  struct Outer {
    ScheduleConfig schedule;
    FragmentBy fragment_by = FragmentBy::layers;
    Merge merge = Merge::mix;
    float mix = 0.0F;  // α
    OuterConfig optimizer;
    OuterScheduleConfig rates;
    bool inner_lr_scaled = false;
    std::uint64_t ddp_steps = 0;  // before the first round
    int clusters = 1;
    std::uint64_t global_every = 1;
  } outer;
  struct Comm {
    CodecConfig codec, mean_codec{.name = ""};  // "" resolves to codec's value (sparse codecs: fp32, and is not used)
    float error_feedback = 0;                   // β
    bool allow_loopback = false;                // train: an interface that only this machine can reach
    int streams = 4;
    double piece_mib = 16;
    std::string congestion;  // "": the system's
    double timeout_s = 30;
    double start_timeout_s = 600;  // of waiting for all sites at the start: people start them one by one
    std::string interface;         // train: must be given; launch: "lo"
    double bucket_mib = 1;         // ddp
  } comm;
  struct Store {
    std::string url;
  } store;  // train: file:///folder
  struct Eval {
    std::uint64_t every_rounds = 0;  // 0: at the end only
    std::size_t windows = 256;       // 0: all
  } eval;
  link::Emulate emulate;  // [network] emulate: each site's uplink in launch and train; off without a bandwidth
  struct Clock {          // simulate: the modelled clock; all 0: none
    double step_seconds = 0, bandwidth_mbit = 0, rtt_ms = 0;
  } clock;

  bool ddp() const { return run.method == "ddp"; }
  std::uint64_t ddp_steps() const { return ddp() ? run.steps : outer.ddp_steps; }
  std::size_t site_batch() const { return batch / static_cast<std::size_t>(sites.count); }
};

// Reads FILE ("" is the defaults), applies "section.key=value" overrides, resolves presets, checks.  Throws ConfigError
// with every mistake at once, each with file:line, key, value, rule.  `train_site` (--site) adds the rules of `train`:
// the sites, an interface that others can reach and a store are given, and the site is one of them.
RunConfig read_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                      const std::optional<std::string>& train_site = {});
RunConfig parse_config(const std::string& toml, const std::string& name, const std::vector<std::string>& overrides,
                       const std::optional<std::string>& train_site = {});

// The resolved settings as TOML with a one-line reason beside each key; reading it gives the same RunConfig.
std::string to_toml(const RunConfig& config);

// What must agree between sites: (key, value), without paths, interface, device, threads, names of the store.
std::vector<std::pair<std::string, std::string>> agreed_settings(const RunConfig& config);

}  // namespace atl
