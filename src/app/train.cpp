// train: one site, over its link process.  The loop is Site's; this file starts and ends it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "app/drivers.h"
#include "app/observed_exchange.h"
#include "app/recorder.h"
#include "app/signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "comm/link_client.h"
#include "inner/transformer_inner.h"

namespace atl {
namespace {

int rank_of(const RunConfig& config, const std::string& site) {
  const auto& names = config.sites.names;
  const auto found = std::find(names.begin(), names.end(), site);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw ConfigError(text("--site ", site, " is not in sites.names: it must be one of ", known));
}

LinkConfig link_config(const RunParts& parts, const std::string& site, const std::string& log_level) {
  const RunConfig& c = parts.config;
  LinkConfig link{.site = site,
                  .sites = c.sites.names,
                  .store = c.store.url,
                  .interface = c.comm.interface,
                  .streams = c.comm.streams,
                  .piece_bytes = static_cast<std::size_t>(c.comm.piece_mib * (1U << 20U)),
                  .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(c.comm.timeout_s * 1000)),
                  .start_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(c.comm.start_timeout_s * 1000)),
                  .codec = c.comm.codec,
                  .mean_codec = c.comm.mean_codec,
                  .clusters = c.ddp() ? 1 : c.outer.clusters,
                  .congestion = c.comm.congestion,
                  .emulate = c.emulate,
                  .slots = parts.slots,
                  .layout_hash = parts.plan.layout.hash(),
                  .settings = agreed_settings(c),
                  .program = {},
                  .log_level = log_level};
  link.settings.emplace_back("data (hash of the files in data.path)", parts.data->hash().hex());
  link.interrupted = stop_requested;
  return link;
}

// Where this site's summary and (when the run broke off) its Θ go: the run folder, or a site's part of one that launch
// made.
std::filesystem::path own_folder(const RunFolder& folder, const RunOptions& options, const std::string& site) {
  return options.join ? folder.path() / "sites" / site : folder.path();
}

}  // namespace

int run_train(const RunConfig& config, const RunOptions& options, const std::string& name) {
  watch_for_stop();
  const int rank = rank_of(config, name);
  const RunParts parts = assemble(config);
  const RunConfig& c = parts.config;
  const std::unique_ptr<Inner> inner = make_inner(parts);

  RunFolder folder(c, options);
  init_log(options.log_level, name, folder.log_path());
  const std::filesystem::path own = own_folder(folder, options, name);
  std::filesystem::create_directories(own);
  spdlog::info("method={} sites={} params={} steps={} batch={} site_batch={} backend=\"{}\"", c.run.method,
               c.sites.count, parts.plan.layout.size(), c.run.steps, c.batch, c.site_batch(),
               describe_backend(c.inner));

  std::optional<Progress> progress;  // launch shows its sites itself
  if (!options.join)
    progress.emplace(Progress::Options{.sites = {name},
                                       .steps = c.run.steps,
                                       .tokens_a_step = c.site_batch() * c.model.context,
                                       .show = options.quiet ? Progress::Show::nothing : Progress::Show::automatic});
  Progress* shown = progress ? &*progress : nullptr;

  std::unique_ptr<LinkClient> link;
  try {
    link = std::make_unique<LinkClient>(link_config(parts, name, options.log_level));
  } catch (const Interrupted&) {
    spdlog::warn("stopped by {} before all sites were there", stop_reason());
    return 0;
  }
  ObservedExchange exchange(*link);
  if (shown != nullptr) exchange.on_wait = [shown](int) { shown->state(0, "waiting for the other sites"); };
  Site site(site_settings(parts, rank), *inner, exchange, samples_of(parts));
  RunClock clock;
  Recorder recorder(parts, folder, shown, clock, rank, 0);
  Evaluator evaluator(parts, folder, shown, clock);

  double computed_s = 0;  // in inner steps
  const auto finish = [&](RunStatus status, const std::string& error) {
    recorder.flush();
    Summary summary = summarize(parts, site, link->totals(), "train");
    summary.site = name;
    summary.status = status;
    summary.error = error;
    summary.rounds = recorder.rounds();
    summary.eval_loss = evaluator.last();
    summary.eval_windows = evaluator.windows();
    summary.seconds = clock.seconds();
    summary.tokens_per_s = static_cast<double>(summary.tokens) / summary.seconds;
    summary.exchange_wait_s = exchange.waited_s();
    summary.compute_s = computed_s;
    summary.utilisation = computed_s / summary.seconds;
    write_atomically(own / "summary.json", to_json(summary));
  };
  const auto evaluate = [&] {  // rank 0 does it for all: Θ is the same everywhere
    if (rank == 0) recorder.evaluated(evaluator.evaluate(site, *inner, recorder.rounds()));
  };

  try {
    while (!site.done() && !stop_requested()) {
      const double start = steady_seconds() - exchange.encoded_s();
      site.step();
      computed_s += steady_seconds() - exchange.encoded_s() - start;
      apply_answers(site, exchange, recorder, After::step);
      if (shown != nullptr) shown->state(0, "computing");
      if (evaluator.due(recorder.completed_round()) && !site.done()) evaluate();
    }
    if (!stop_requested()) {
      apply_answers(site, exchange, recorder, After::end);
      apply_answers(site, exchange, recorder, After::drain);
      exchange.finish();
    }
  } catch (const Interrupted&) {  // Θ is that of the last whole outer step
  } catch (const std::exception& e) {
    link->leave(e.what());
    save_model(own / "model.safetensors", parts, site, inner->place());
    finish(RunStatus::failed, e.what());
    throw;
  }
  if (stop_requested()) {
    link->leave(text("stopped by its user (", stop_reason(), ") after step ", site.steps_done()));
    save_model(own / "model.safetensors", parts, site, inner->place());
    spdlog::warn("stopped by {} after step {} of {}: {} holds what was reached", stop_reason(), site.steps_done(),
                 c.run.steps, own.string());
    finish(RunStatus::interrupted, "");
    return 0;
  }
  evaluate();
  if (rank != 0 && !options.join) save_model(folder.model_path(), parts, site, inner->place());
  finish(RunStatus::finished, "");
  return 0;
}

}  // namespace atl
