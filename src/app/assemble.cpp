#include "app/assemble.h"

#include <algorithm>

#include "base/error.h"
#include "inner/transformer_inner.h"

namespace atl {

namespace {

// With the rounds of the run: those after which all sites average.
OuterScheduleConfig outer_rates_of(const RunConfig& c) {
  OuterScheduleConfig rates = c.outer.rates;
  const std::uint64_t a_round =
      c.outer.schedule.period * (c.outer.clusters > 1 ? c.outer.global_every : std::uint64_t{1});
  const std::uint64_t steps = c.run.steps - std::min(c.run.steps, c.ddp_steps());
  rates.total_rounds = std::max<std::uint64_t>(1, (steps + a_round - 1) / a_round);
  return rates;
}

}  // namespace

RunParts assemble(RunConfig config) {
  if (config.data.path.empty())
    throw ConfigError("data.path is not set: it must name a folder that `atoll data prepare FILES --out DIR` wrote");
  auto data = std::make_unique<Dataset>(config.data.path, config.model.context, config.run.seed);
  config.model.vocabulary = data->vocabulary();
  config.inner.total_steps = config.run.steps;
  config.inner.seed = config.run.seed;
  const int fragments = config.ddp() ? 1 : config.outer.schedule.fragments;
  FragmentPlan plan = plan_fragments(model_params(config.model), config.outer.fragment_by, fragments);
  RunParts parts{.config = std::move(config), .data = std::move(data), .plan = std::move(plan), .slots = {}};
  parts.slots = slots_of(site_settings(parts, 0), parts.plan.layout);
  return parts;
}

SiteSettings site_settings(const RunParts& parts, int rank) {
  const RunConfig& c = parts.config;
  return {.name = c.sites.names.at(static_cast<std::size_t>(rank)),
          .rank = rank,
          .sites = c.sites.count,
          .steps = c.run.steps,
          .batch = c.site_batch(),
          .same_data = c.data.deal == "same",
          .ddp_steps = c.ddp_steps(),
          .schedule = c.outer.schedule,
          .fragments = parts.plan.fragments,
          .optimizer = c.outer.optimizer,
          .rates = outer_rates_of(c),
          .inner_lr_scaled = c.outer.inner_lr_scaled,
          .merge = c.outer.merge,
          .mix = c.outer.mix,
          .clusters = c.ddp() ? 1 : c.outer.clusters,
          .global_every = c.outer.global_every,
          .codec = c.comm.codec,
          .feedback = c.ddp() ? 0 : c.comm.error_feedback,
          .bucket_values = static_cast<std::size_t>(c.comm.bucket_mib * (1U << 20U) / sizeof(float))};
}

std::unique_ptr<Inner> make_inner(const RunParts& parts) {
  return make_transformer(parts.config.model, parts.config.inner, parts.plan.layout);
}

Samples samples_of(const RunParts& parts) {
  return [&data = *parts.data](std::uint64_t position, std::size_t count) { return data.train(position, count); };
}

}  // namespace atl
