#include "app/recorder.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <limits>

#include "app/safetensors.h"
#include "inner/transformer_inner.h"
#include "kernels/finite.h"

namespace atl {

// ---------------------------------------------------------------------------------------------- evaluation

Evaluator::Evaluator(const RunParts& parts, RunFolder& folder, Progress* progress, RunClock& clock)
    : parts_(parts), folder_(folder), progress_(progress), clock_(clock) {
  constexpr std::size_t kBatch = 32;
  windows_ = parts.data->validation(parts.config.eval.windows, kBatch);
  for (const Batch& batch : windows_) count_ += batch.sequences;
}

bool Evaluator::due(std::uint64_t completed_round) const {
  const std::uint64_t every = parts_.config.eval.every_rounds;
  return every > 0 && completed_round > 0 && completed_round % every == 0;
}

double Evaluator::evaluate(Site& site, Inner& inner, std::uint64_t round) {
  const double start = steady_seconds();
  const double loss = inner.evaluate(site.global(), windows_);
  if (std::isfinite(loss)) save_model(folder_.model_path(), parts_, site, inner.place());
  if (progress_ != nullptr) progress_->evaluated(site.steps_done(), round, loss);
  spdlog::info("round={} step={} eval_loss={:.4f} windows={}", round, site.steps_done(), loss, count_);
  clock_.pause(steady_seconds() - start);
  last_ = loss;
  return loss;
}

void save_model(const std::filesystem::path& file, const RunParts& parts, const Site& site, Place place) {
  if (!kernels::all_finite(site.global(), place)) {
    spdlog::warn("step={} the parameters are not finite: {} is left as it was", site.steps_done(), file.string());
    return;
  }
  const Metadata metadata{{"format", "pt"},
                          {"atoll.step", std::to_string(site.steps_done())},
                          {"atoll.global_hash", site.global_hash().hex()}};
  if (place.on_host()) return write_safetensors(file, parts.plan.layout, site.global(), metadata);
  std::vector<float> host(site.global().size());
  copy(site.global(), place, host, {});
  write_safetensors(file, parts.plan.layout, host, metadata);
}

// ---------------------------------------------------------------------------------------------- records

Recorder::Recorder(const RunParts& parts, RunFolder& folder, Progress* progress, const RunClock& clock, int rank,
                   int line)
    : parts_(parts), folder_(folder), progress_(progress), clock_(clock), rank_(rank), line_(line) {}

void Recorder::stepped(const Site& site) {
  const StepReport& report = site.report();
  folder_.write(StepRecord{.site = rank_,
                           .step = site.steps_done(),
                           .loss = report.loss,
                           .gradient_norm = report.gradient_norm,
                           .lr = report.lr,
                           .tokens = site.tokens_done(),
                           .seconds = clock_.seconds()});
  loss_sum_ += report.loss;
  ++loss_steps_;
  if (progress_ != nullptr) progress_->step(line_, site.steps_done(), report.loss);
}

void Recorder::applied(const Site& site, const std::vector<Applied>& answers, const ObservedExchange& exchange,
                       double wait_s, double apply_s, std::optional<double> modelled_s) {
  completed_round_ = 0;
  if (answers.empty()) return;
  const bool ddp = answers.front().gradient;
  const auto fragments = site.settings().fragments.size();
  for (const Applied& a : answers) {
    payload_total_ += a.answer.payload_bytes;
    wire_total_ += a.answer.wire_bytes;
    const bool one_record = ddp && &a != &answers.front();  // the later buckets of a step go into its record
    if (!one_record) {
      flush();
      held_ = RoundRecord{.site = rank_,
                          .exchange = a.answer.number,
                          .round = a.round,
                          .step = site.steps_done(),
                          .slot = a.slot,
                          .loss_mean = loss_steps_ > 0 ? loss_sum_ / static_cast<double>(loss_steps_) : 0,
                          .delta_norm = a.delta_norm,
                          .mean_norm = a.mean_norm};
    }
    held_->tokens = site.tokens_done() * static_cast<std::uint64_t>(site.settings().sites);
    held_->seconds = clock_.seconds();
    held_->payload_bytes += a.answer.payload_bytes;
    held_->header_bytes += a.answer.header_bytes;
    held_->wire_bytes += a.answer.wire_bytes;
    held_->payload_bytes_total = payload_total_;
    held_->wire_bytes_total = wire_total_;
    held_->link_s += a.answer.link_s;
    held_->retransmitted_bytes += a.answer.retransmitted_bytes;
    held_->received_bytes += a.answer.received_bytes;
    held_->encode_s += exchange.encoded_s(a.gradient ? a.slot : site.buckets() + a.slot);
    if (&a == &answers.front()) {
      held_->wait_s = wait_s;
      held_->apply_s = apply_s;
    }
    held_->hidden_s = std::max(0.0, held_->link_s - held_->wait_s);
    held_->modelled_s = modelled_s;
    answers_ += ddp ? 0 : 1;
    if (!ddp)
      spdlog::info(
          "{}round={} step={} fragment={} loss={:.4f} delta_norm={:.3e} mean_norm={:.3e} payload_bytes={} "
          "wire_bytes={} "
          "wait_s={:.3f} link_s={:.3f}",
          a.in_cluster ? "cluster " : "", a.round, site.steps_done(), a.slot, held_->loss_mean, a.delta_norm,
          a.mean_norm, a.answer.payload_bytes, a.answer.wire_bytes, wait_s, a.answer.link_s);
  }
  loss_sum_ = 0;
  loss_steps_ = 0;
  if (ddp) ++ddp_rounds_;
  outer_rounds_ = ddp_rounds_ + (answers_ + fragments - 1) / fragments;
  if (ddp || answers_ % fragments == 0) completed_round_ = outer_rounds_;
  if (progress_ != nullptr) progress_->round(line_, outer_rounds_);
}

void Recorder::evaluated(double loss) {
  if (held_) held_->eval_loss = loss;
}

void Recorder::flush() {
  if (held_) folder_.write(*held_);
  held_.reset();
}

void apply_answers(Site& site, ObservedExchange& exchange, Recorder& recorder, After after,
                   const std::function<std::optional<double>()>& modelled_s) {
  const double waited = exchange.waited_s(), start = steady_seconds();
  const std::vector<Applied> answers = after == After::end ? site.drain() : site.collect();
  const double wait_s = exchange.waited_s() - waited;
  const double apply_s = steady_seconds() - start - wait_s;
  if (after == After::step) recorder.stepped(site);
  recorder.applied(site, answers, exchange, wait_s, apply_s, modelled_s ? modelled_s() : std::nullopt);
}

Summary summarize(const RunParts& parts, const Site& site, const ExchangeTotals& totals, const std::string& command) {
  const RunConfig& c = parts.config;
  return {.name = c.run.name,
          .method = c.run.method,
          .command = command,
          .seed = c.run.seed,
          .sites = c.sites.count,
          .params = parts.plan.layout.size(),
          .tokens = site.tokens_done() * static_cast<std::uint64_t>(c.sites.count),
          .inner_steps = site.steps_done(),
          .data_hash = parts.data->hash().hex(),
          .payload_bytes_per_site = totals.payload_bytes,
          .header_bytes_per_site = totals.header_bytes,
          .wire_bytes_per_site = totals.wire_bytes,
          .retransmitted_bytes_per_site = totals.retransmitted_bytes,
          .received_bytes_per_site = totals.received_bytes,
          .global_hash = site.global_hash().hex(),
          .generations = totals.generations,
          .backend = describe_backend(c.inner)};
}

}  // namespace atl
