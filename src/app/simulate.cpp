// simulate: M sites in one process.  First all take a step, then all collect: what is sent in a step is there when it
// is waited for, so one thread is enough.
#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <vector>

#include "app/clock_model.h"
#include "app/drivers.h"
#include "app/observed_exchange.h"
#include "app/recorder.h"
#include "app/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/in_process.h"
#include "inner/transformer_inner.h"

namespace atl {
namespace {

// One virtual site with its recorder.
struct Virtual {
  std::unique_ptr<Inner> inner;
  std::unique_ptr<ObservedExchange> exchange;
  std::unique_ptr<Site> site;
  std::unique_ptr<Recorder> recorder;
};

// Site 0's traffic moves the modelled clock.
void observe(ObservedExchange& exchange, ClockModel& clock, const RunParts& parts, int buckets) {
  const RunConfig& c = parts.config;
  exchange.on_send = [&clock, &parts, &c, buckets, codec = std::shared_ptr<Codec>(make_codec(c.comm.codec)),
                      mean_codec = std::shared_ptr<Codec>(make_codec(c.comm.mean_codec))](const Outgoing& out,
                                                                                          std::size_t) {
    const Traffic traffic = traffic_of(parts.slots[static_cast<std::size_t>(out.slot)].values,
                                       out.in_cluster ? c.sites.count / c.outer.clusters : c.sites.count, c.sites.count,
                                       *codec, *mean_codec, out.first_of_group);
    if (out.slot < buckets)
      clock.sent_during_step(out.slot, traffic, out.slot, buckets);
    else
      clock.sent(out.slot, traffic);
  };
  exchange.on_wait = [&clock](int slot) { clock.waited(slot); };
}

}  // namespace

int run_simulate(const RunConfig& config, const RunOptions& options) {
  watch_for_stop();
  const RunParts parts = assemble(config);
  const RunConfig& c = parts.config;
  std::vector<Virtual> fleet(static_cast<std::size_t>(c.sites.count));
  for (Virtual& v : fleet) v.inner = make_inner(parts);

  RunFolder folder(c, options);
  init_log(options.log_level, "sim", folder.log_path());
  spdlog::info("method={} sites={} params={} steps={} site_batch={} backend=\"{}\"", c.run.method, c.sites.count,
               parts.plan.layout.size(), c.run.steps, c.site_batch(), describe_backend(c.inner));

  InProcessHub hub({.sites = c.sites.count,
                    .slots = parts.slots,
                    .names = c.sites.names,
                    .codec = c.comm.codec,
                    .mean_codec = c.comm.mean_codec,
                    .clusters = c.ddp() ? 1 : c.outer.clusters});
  std::optional<ClockModel> model;
  if (c.clock.step_seconds > 0)
    model.emplace(ClockModel::Config{c.clock.step_seconds, c.clock.bandwidth_mbit, c.clock.rtt_ms}, parts.slots.size());
  Progress progress({.sites = c.sites.names,
                     .steps = c.run.steps,
                     .tokens_a_step = c.site_batch() * c.model.context,
                     .show = options.quiet ? Progress::Show::nothing : Progress::Show::automatic});
  RunClock clock;
  Evaluator evaluator(parts, folder, &progress, clock);
  for (int rank = 0; rank < c.sites.count; ++rank) {
    Virtual& v = fleet[static_cast<std::size_t>(rank)];
    v.exchange = std::make_unique<ObservedExchange>(hub.site(rank));
    v.site = std::make_unique<Site>(site_settings(parts, rank), *v.inner, *v.exchange, samples_of(parts));
    v.recorder = std::make_unique<Recorder>(parts, folder, &progress, clock, rank, rank);
  }
  if (model) observe(*fleet[0].exchange, *model, parts, fleet[0].site->buckets());
  const auto modelled_now = [&] { return model ? std::optional(model->now()) : std::nullopt; };
  Virtual& first = fleet[0];

  const auto evaluate = [&] {
    first.recorder->evaluated(evaluator.evaluate(*first.site, *first.inner, first.recorder->rounds()));
  };
  const auto mean_totals = [&] {
    ExchangeTotals mean;
    for (Virtual& v : fleet) {
      const ExchangeTotals totals = v.exchange->totals();
      mean.payload_bytes += totals.payload_bytes;
      mean.header_bytes += totals.header_bytes;
      mean.generations = totals.generations;
    }
    mean.payload_bytes /= fleet.size();
    mean.header_bytes /= fleet.size();
    return mean;
  };
  const auto finish = [&](RunStatus status, const std::string& error) {
    for (Virtual& v : fleet) v.recorder->flush();
    Summary summary = summarize(parts, *first.site, mean_totals(), "simulate");
    summary.status = status;
    summary.error = error;
    summary.rounds = first.recorder->rounds();
    summary.eval_loss = evaluator.last();
    summary.eval_windows = evaluator.windows();
    summary.seconds = clock.seconds();
    summary.tokens_per_s = static_cast<double>(summary.tokens) / summary.seconds;
    if (model)
      summary.modelled = Summary::Clock{c.clock.step_seconds, c.clock.bandwidth_mbit, c.clock.rtt_ms, model->now(),
                                        model->utilisation()};
    folder.write(summary);
  };

  try {
    while (!first.site->done() && !stop_requested()) {
      const bool sends_within = first.site->averages_gradients();  // then its sends fall into the step
      if (model && !sends_within) model->step();
      for (Virtual& v : fleet) v.site->step();
      if (model && sends_within) model->step();
      for (Virtual& v : fleet) apply_answers(*v.site, *v.exchange, *v.recorder, After::step, modelled_now);
      if (evaluator.due(first.recorder->completed_round()) && !first.site->done()) evaluate();
    }
    if (!stop_requested()) {
      for (Virtual& v : fleet) apply_answers(*v.site, *v.exchange, *v.recorder, After::end, modelled_now);
      for (Virtual& v : fleet) apply_answers(*v.site, *v.exchange, *v.recorder, After::drain, modelled_now);
    }
    evaluate();
    finish(stop_requested() ? RunStatus::interrupted : RunStatus::finished, "");
  } catch (const std::exception& e) {
    finish(RunStatus::failed, e.what());
    throw;
  }
  progress.finish();
  if (stop_requested())
    spdlog::warn("stopped by {} after step {} of {}: {} holds what was reached", stop_reason(),
                 first.site->steps_done(), c.run.steps, folder.path().string());
  return 0;
}

}  // namespace atl
