// One site, in the order of the paper: DiLoCo, arXiv:2311.08105, Algorithm 1, with the fragments, delay and mix of
// Streaming DiLoCo, arXiv:2501.18512 (docs/algorithms.md, 1 to 3), and fully synchronous data parallel training (DDP).
#include "app/site.h"

#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "kernels/add.h"
#include "kernels/finite.h"
#include "kernels/hash.h"
#include "kernels/norm.h"
#include "outer/delta.h"

namespace atl {

// ---------------------------------------------------------------------------------------------- one round

void Site::step() {
  ATOLL_CHECK(!done() && due_.empty(), "step ", t_ + 1, " of ", settings_.steps, " with ", due_.size(), " answers due");
  const bool gradients = averages_gradients();
  const Batch batch = next_batch();
  ++t_;
  if (gradients) {
    report_.loss = inner_.compute_gradients(batch, [this](Span tensor) {  // overlaps with the backward pass
      for (const int b : bucket_queue_->ready(tensor)) send_bucket(b);
    });
    bucket_queue_->reset();
  } else {
    report_ = inner_.step(batch);
  }
  if (!std::isfinite(report_.loss))
    throw ConfigError(
        text(settings_.name, ", step ", t_, ": the training loss is ", report_.loss,
             ": nothing of it was applied anywhere; try a lower inner.lr, or a longer inner.warmup_steps"));
  tokens_ += step_tokens_;
  if (gradients) return;

  const std::vector<int> fragments = schedule_.sends_after(outer_step());
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    const bool more = i + 1 < fragments.size();
    send_fragment(fragments[i],
                  more ? fragments[i + 1] : schedule_.next_send(outer_step(), settings_.steps - settings_.ddp_steps),
                  false);
  }
  due_ = schedule_.applies_after(outer_step());
}

// next: the fragment that will be sent after this one, -1 when that is not known.  last: for good; all sites average.
void Site::send_fragment(int p, int next, bool last) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const auto fragment_delta = delta_.values().first(span.count);
  const std::uint32_t round = schedule_.round_of(p, outer_step());

  // Δ = Θ − θ (or from where the site started); the sign has one home, outer/delta.h
  delta(start(span), slice(std::span<const float>(inner_.local()), span), fragment_delta, place);
  const double norm = std::sqrt(kernels::sum_of_squares(fragment_delta, place));
  const auto own = encode(p, fragment_delta);

  const std::uint64_t steps = schedule_.steps_since_last_send(p, outer_step());
  const bool in_cluster = !last && settings_.is_cluster_round(round);
  sent_[static_cast<std::size_t>(p)] = {.after = t_,
                                        .round = round,
                                        .in_cluster = in_cluster,
                                        .tokens = steps * step_tokens_,
                                        .inner_lr = report_.lr,
                                        .delta_norm = norm};
  exchange_.send(
      {.slot = slot_of(p),
       .round = round,
       .step = t_,
       .tokens = steps * step_tokens_,
       .finite = kernels::all_finite(fragment_delta, place),
       .first_of_group = true,
       .in_cluster = in_cluster,
       .next_slot = next < 0 ? -1 : slot_of(next),
       .next_in_cluster = next >= 0 && !last && settings_.is_cluster_round(schedule_.round_of(next, outer_step() + 1)),
       .global_hash = shared_hash(span)});
  if (restarts_at_send()) restart(p, own);
  if (settings_.merge == Merge::corrected)
    copy(slice(std::span<const float>(inner_.local()), span), place, slice(at_send_.values(), span), place);
}

// Writes the payload.  With feedback, what was lost before is added first: a = Δ + β e, e ← a − decode(encode(a)).
// Returns what the others will decode, if anything here needs it.
std::span<float> Site::encode(int p, std::span<float> fragment_delta) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const auto payload = exchange_.payload(slot_of(p));
  if (decoded_.values().empty()) {
    codec_->encode(fragment_delta, place, payload);
    return {};
  }
  const auto decoded = decoded_.values().first(span.count);
  if (settings_.feedback > 0)
    kernels::add_scaled(fragment_delta, slice(std::as_const(residual_).values(), span), settings_.feedback, place);
  codec_->encode(fragment_delta, place, payload, decoded);
  if (settings_.feedback > 0) delta(fragment_delta, decoded, slice(next_residual_.values(), span), place);
  return decoded;
}

// The site's next round starts without the answer: from Θ as it is, or from the outer step that the others' last deltas
// and the own fresh one would make: Δ̃ = Δ(t−H) + (Δ_m(t) − Δ_m(t−H)) / M (arXiv:2502.12996, section 3).
void Site::restart(int p, std::span<const float> own) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const auto from = slice(start_.values(), span);
  const auto global = slice(std::as_const(global_).values(), span);
  if (settings_.merge == Merge::delayed) {
    copy(global, place, from, place);
  } else {
    const auto estimate = delta_.values().first(span.count);
    copy(slice(std::as_const(others_).values(), span), place, estimate, place);
    kernels::add_scaled(estimate, own, 1.0F / static_cast<float>(settings_.sites), place);
    outer_.look_ahead(p, global, estimate, rates_of(p, sent_[static_cast<std::size_t>(p)]), from);
  }
  copy(from, place, slice(inner_.local(), span), place);
}

// Θ of the span and its outer state: what every site must hold the same bits of.
Hash128 Site::shared_hash(Span span) {
  const Place place = inner_.place();
  Hash128 hash = kernels::hash_values(slice(std::as_const(global_).values(), span), span.offset, place);
  std::size_t at = global_.values().size();
  for (const std::span<const float> state : {outer_.momentum(), outer_.second_moment()}) {
    if (!state.empty())
      hash = kernels::combine(hash, kernels::hash_values(slice(state, span), at + span.offset, place));
    at += global_.values().size();
  }
  return hash;
}

std::vector<Applied> Site::collect() {
  std::vector<Applied> applied;
  const bool gradients = t_ <= settings_.ddp_steps;
  for (const int each : std::exchange(due_, {})) applied.push_back(gradients ? take_bucket(each) : apply(each));
  if (gradients && !applied.empty()) {
    const double loss = report_.loss;
    report_ = inner_.update();  // clips the averaged gradient
    report_.loss = loss;
    if (t_ == settings_.ddp_steps && !settings_.only_ddp()) start_outer();
  }
  return applied;
}

Applied Site::apply(int p) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const Sent& sent = sent_[static_cast<std::size_t>(p)];
  Applied done{.in_cluster = sent.in_cluster,
               .slot = p,
               .round = sent.round,
               .sent_after = sent.after,
               .delta_norm = sent.delta_norm,
               .answer = exchange_.wait(slot_of(p))};

  const auto mean = at_place(done.answer.mean);
  done.mean_norm = std::sqrt(kernels::sum_of_squares(mean, place));
  if (settings_.feedback > 0)
    copy(slice(std::as_const(next_residual_).values(), span), place, slice(residual_.values(), span), place);
  if (sent.in_cluster) {
    merge_cluster(span, mean);
    return done;
  }
  outer_.step(p, slice(global_.values(), span), mean, rates_of(p, sent));  // the same bits at every site
  if (settings_.inner_lr_scaled) last_lr_[static_cast<std::size_t>(p)] = sent.inner_lr;
  if (settings_.merge == Merge::eager) remember_others(p, mean, done.answer.tokens);
  merge(p);
  return done;
}

void Site::merge(int p) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const auto local = slice(inner_.local(), span);
  const auto global = slice(std::as_const(global_).values(), span);
  switch (settings_.merge) {
    case Merge::mix:
      return mix(local, global, settings_.mix, place);
    case Merge::corrected: {
      const auto moved = delta_.values().first(span.count);
      delta(local, slice(std::as_const(at_send_).values(), span), moved, place);
      copy(global, place, local, place);
      return kernels::add_scaled(local, moved, 1, place);
    }
    case Merge::delayed:
    case Merge::eager:
      return;  // the site took over what it takes when it sent
  }
}

// A round within the cluster: the plain mean of its sites' parameters, Θ − mean delta.  Θ and the outer state stay.
void Site::merge_cluster(Span span, std::span<const float> mean) {
  const Place place = inner_.place();
  const auto together = delta_.values().first(span.count);
  delta(slice(std::as_const(global_).values(), span), mean, together, place);
  mix(slice(inner_.local(), span), together, settings_.mix, place);
}

// What the mean holds of the others: the mean without the own share of it.
void Site::remember_others(int p, std::span<const float> mean, std::uint64_t all_tokens) {
  const Span span = span_of(p);
  const Place place = inner_.place();
  const auto own = decoded_.values().first(span.count);
  if (place.on_host()) {
    codec_->decode(exchange_.payload(slot_of(p)), own);
  } else {
    std::vector<float> host(span.count);
    codec_->decode(exchange_.payload(slot_of(p)), host);
    copy(host, {}, own, place);
  }
  const auto others = slice(others_.values(), span);
  const double share = static_cast<double>(sent_[static_cast<std::size_t>(p)].tokens) / static_cast<double>(all_tokens);
  copy(mean, place, others, place);
  kernels::add_scaled(others, own, static_cast<float>(-share), place);
}

// Rounds are counted for each fragment; with clusters, those that all sites average.
OuterRates Site::rates_of(int p, const Sent& sent) const {
  const std::uint64_t every = settings_.clusters > 1 ? settings_.global_every : 1;
  OuterRates rates = outer_rates(settings_.rates, settings_.optimizer.lr, settings_.optimizer.momentum,
                                 (sent.round + every - 1) / every);
  // SlowMo keeps u = Δ/γ + β u and steps by γ u: with b = γ u, b ← β (γ / γ_before) b + Δ (arXiv:1910.00643, Algorithm 1).
  if (settings_.inner_lr_scaled && last_lr_[static_cast<std::size_t>(p)] > 0)
    rates.momentum *= static_cast<float>(sent.inner_lr / last_lr_[static_cast<std::size_t>(p)]);
  return rates;
}

std::vector<Applied> Site::drain() {
  ATOLL_CHECK(due_.empty(), due_.size(), " answers are due");
  std::vector<Applied> applied;
  if (settings_.only_ddp()) return applied;
  for (const int p : schedule_.in_flight(outer_step())) applied.push_back(apply(p));
  due_ = left_at_end(settings_, schedule_, outer_step());
  for (std::size_t i = 0; i < due_.size(); ++i) send_fragment(due_[i], i + 1 < due_.size() ? due_[i + 1] : -1, true);
  return applied;
}

// ---------------------------------------------------------------------------------------------- DDP

void Site::send_bucket(int b) {
  const auto gradient = slice(std::span<const float>(inner_.gradients()), buckets_[static_cast<std::size_t>(b)]);
  const Place place = inner_.place();
  codec_->encode(gradient, place, exchange_.payload(b));
  const bool first = b == 0;
  const bool last = b + 1 == static_cast<int>(buckets_.size());
  int next = last ? 0 : b + 1;
  const bool last_of_all = last && t_ == settings_.ddp_steps;  // a fragment follows, or nothing
  if (last_of_all) {
    const int p = settings_.only_ddp() ? -1 : schedule_.next_send(0, settings_.steps - settings_.ddp_steps);
    next = p < 0 ? -1 : slot_of(p);
  }
  // Replicas are compared now and then: a hash of all parameters a step would cost as much as the averaging.
  constexpr std::uint64_t kHashEvery = 100;
  exchange_.send({.slot = b,
                  .round = static_cast<std::uint32_t>(t_),
                  .step = t_,
                  .tokens = step_tokens_,
                  .finite = kernels::all_finite(gradient, place),
                  .first_of_group = first,
                  .next_slot = next,
                  .next_first_of_group = last,
                  .next_in_cluster = last_of_all && next >= 0 && settings_.is_cluster_round(1),
                  .global_hash = first && t_ % kHashEvery == 1 ? global_hash() : Hash128{}});
  due_.push_back(b);
}

Applied Site::take_bucket(int b) {
  Applied done{.gradient = true,
               .slot = b,
               .round = static_cast<std::uint32_t>(t_),
               .sent_after = t_,
               .answer = exchange_.wait(b)};
  // A later bucket of a step has no header with a vote; but its mean is the same bits everywhere, so all sites stop here.
  if (!kernels::all_finite(done.answer.mean, {}))
    throw ConfigError(
        text(settings_.name, ", step ", t_,
             ": the averaged gradient holds a NaN or an infinity: no site applies it; try a lower inner.lr"));
  copy(done.answer.mean, {}, slice(inner_.gradients(), buckets_[static_cast<std::size_t>(b)]), inner_.place());
  return done;
}

// DDP steps are over: the parameters, equal at all sites, are the first Θ.
void Site::start_outer() {
  copy(inner_.local(), inner_.place(), global_.values(), inner_.place());
  if (!start_.values().empty()) copy(inner_.local(), inner_.place(), start_.values(), inner_.place());
}

// ---------------------------------------------------------------------------------------------- parts

std::vector<SlotSpec> slots_of(const SiteSettings& settings, const ParamLayout& layout) {
  std::vector<SlotSpec> slots;
  if (settings.ddp_steps > 0)
    for (const Span& span : plan_buckets(layout, settings.bucket_values)) slots.push_back({.values = span.count});
  if (settings.ddp_steps < settings.steps)
    for (const Span& span : settings.fragments) slots.push_back({.values = span.count});
  return slots;
}

std::vector<int> left_at_end(const SiteSettings& settings, const Schedule& schedule, std::uint64_t t) {
  const std::vector<int> unsent = schedule.unsent(t, settings.merge != Merge::mix || settings.mix > 0);
  std::set<int> left(unsent.begin(), unsent.end());
  // Work that only the cluster has seen is sent to all, though no inner step followed.
  for (int p = 0; p < settings.schedule.fragments; ++p)
    if (settings.is_cluster_round(schedule.round_of(p, t + 1) - 1)) left.insert(p);
  return {left.begin(), left.end()};
}

Site::Site(SiteSettings settings, Inner& inner, Exchange& exchange, Samples samples)
    : settings_(std::move(settings)),
      inner_(inner),
      exchange_(exchange),
      samples_(std::move(samples)),
      schedule_(settings_.only_ddp() ? ScheduleConfig{.period = 1} : settings_.schedule),
      codec_(make_codec(settings_.codec)),
      outer_(settings_.optimizer, settings_.only_ddp() ? std::vector<Span>{} : settings_.fragments, inner.place()) {
  const Place place = inner_.place();
  const std::size_t n = inner_.layout().size();
  if (settings_.ddp_steps > 0) {
    buckets_ = plan_buckets(inner_.layout(), settings_.bucket_values);
    bucket_queue_ = std::make_unique<BucketQueue>(inner_.layout(), buckets_);
  }
  if (settings_.only_ddp()) return;
  std::size_t covered = 0, largest = 0;
  for (const Span& span : settings_.fragments) {
    ATOLL_CHECK(span.offset == covered, "a fragment starts at ", span.offset, ", the one before ends at ", covered);
    covered = span.end();
    largest = std::max(largest, span.count);
  }
  ATOLL_CHECK(covered == n, "fragments cover ", covered, " values, the model has ", n);
  ATOLL_CHECK(settings_.fragments.size() == static_cast<std::size_t>(settings_.schedule.fragments),
              settings_.fragments.size(), " fragments, ", settings_.schedule.fragments, " in the schedule");
  ATOLL_CHECK(settings_.feedback >= 0 && settings_.feedback <= 1, "error feedback ", settings_.feedback);
  ATOLL_CHECK(settings_.clusters >= 1 && settings_.sites % settings_.clusters == 0 && settings_.global_every >= 1,
              settings_.sites, " sites in ", settings_.clusters, " clusters, together every ", settings_.global_every);
  ATOLL_CHECK(settings_.clusters == 1 || (settings_.merge == Merge::mix && settings_.feedback == 0),
              "clusters go with no other merge than mix, and with no error feedback");
  sent_.resize(settings_.fragments.size());
  last_lr_.assign(settings_.fragments.size(), 0);
  global_ = Buffer(n, place);
  delta_ = Buffer(largest, place);
  if (restarts_at_send()) start_ = Buffer(n, place);
  if (settings_.merge == Merge::eager) others_ = Buffer(n, place);
  if (settings_.merge == Merge::corrected) at_send_ = Buffer(n, place);
  if (settings_.feedback > 0) residual_ = Buffer(n, place), next_residual_ = Buffer(n, place);
  if (settings_.feedback > 0 || settings_.merge == Merge::eager) decoded_ = Buffer(largest, place);
  if (!place.on_host()) mean_ = Buffer(largest, place);
  start_outer();
}

std::span<const float> Site::start(Span span) const {
  return slice(restarts_at_send() ? start_.values() : global_.values(), span);
}

Batch Site::next_batch() {
  const std::uint64_t mine = settings_.same_data ? 0 : static_cast<std::uint64_t>(settings_.rank) * settings_.batch;
  Batch batch = samples_(next_position() + mine, settings_.batch);
  step_tokens_ = batch.token_count();
  return batch;
}

std::uint64_t Site::next_position() const {
  const std::uint64_t sites = settings_.same_data ? 1 : static_cast<std::uint64_t>(settings_.sites);
  return t_ * settings_.batch * sites;
}

std::span<const float> Site::at_place(std::span<const float> mean) {
  if (inner_.place().on_host()) return mean;
  copy(mean, {}, mean_.values().first(mean.size()), inner_.place());
  return mean_.values().first(mean.size());
}

std::span<const float> Site::global() const {
  return averages_gradients() || settings_.only_ddp() ? std::span<const float>(inner_.local()) : global_.values();
}

Hash128 Site::global_hash() const { return kernels::hash_values(global(), 0, inner_.place()); }

std::vector<StateSpan> Site::state() {
  std::vector<StateSpan> all;
  const auto add = [&](const char* name, std::span<float> values) {
    if (!values.empty()) all.push_back({name, values});
  };
  add("global", global_.values());
  add("outer.momentum", outer_.momentum());
  add("outer.second_moment", outer_.second_moment());
  add("start", start_.values());
  add("others", others_.values());
  add("at_send", at_send_.values());
  add("residual", residual_.values());
  add("next_residual", next_residual_.values());
  all.push_back({"local", inner_.local()});
  for (const StateSpan& s : inner_.state()) all.push_back({"inner." + s.name, s.values});
  return all;
}

}  // namespace atl
