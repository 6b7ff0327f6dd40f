// One site, in the order of the paper: DiLoCo, arXiv:2311.08105, Algorithm 1, with the fragments, delay and mix of
// Streaming DiLoCo, arXiv:2501.18512 (docs/algorithms.md, 1 and 2), and fully synchronous data parallel training (DDP).
#include "app/site.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "kernels/finite.h"
#include "kernels/hash.h"
#include "kernels/norm.h"
#include "outer/delta.h"

namespace atl {

// ---------------------------------------------------------------------------------------------- one round

void Site::step() {
  ATOLL_CHECK(!done() && due_.empty(), "step ", t_ + 1, " of ", settings_.steps, " with ", due_.size(), " answers due");
  const Batch batch = next_batch();
  ++t_;
  if (settings_.ddp) {
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
  if (settings_.ddp) return;

  const std::vector<int> fragments = schedule_.sends_after(t_);
  for (std::size_t i = 0; i < fragments.size(); ++i)
    send_fragment(fragments[i], i + 1 < fragments.size() ? fragments[i + 1] : schedule_.next_send(t_, settings_.steps));
  due_ = schedule_.applies_after(t_);
}

void Site::send_fragment(int p, int next_slot) {
  const Span span = settings_.fragments[static_cast<std::size_t>(p)];
  const Place place = inner_.place();
  const auto global = slice(std::as_const(global_).values(), span);
  const auto local = slice(std::span<const float>(inner_.local()), span);
  const auto fragment_delta = delta_.values().first(span.count);

  delta(global, local, fragment_delta, place);  // Δ = Θ − θ; the sign has one home, outer/delta.h
  codec_->encode(fragment_delta, place, exchange_.payload(p));

  const std::uint64_t steps = schedule_.steps_since_last_send(p, t_);
  const double norm = std::sqrt(kernels::sum_of_squares(fragment_delta, place));
  sent_[static_cast<std::size_t>(p)] = {.after = t_, .round = schedule_.round_of(p, t_), .delta_norm = norm};
  exchange_.send({.slot = p,
                  .round = schedule_.round_of(p, t_),
                  .step = t_,
                  .tokens = steps * step_tokens_,
                  .finite = kernels::all_finite(fragment_delta, place),
                  .first_of_group = true,
                  .next_slot = next_slot,
                  .global_hash = shared_hash(span)});
}

// Θ of the span and its outer momentum: what every site must hold the same bits of.
Hash128 Site::shared_hash(Span span) {
  const Place place = inner_.place();
  const Hash128 parameters = kernels::hash_values(slice(std::as_const(global_).values(), span), span.offset, place);
  const auto momentum = std::span<const float>(outer_.momentum());
  if (momentum.empty()) return parameters;
  return kernels::combine(parameters,
                          kernels::hash_values(slice(momentum, span), global_.values().size() + span.offset, place));
}

std::vector<Applied> Site::collect() {
  std::vector<Applied> applied;
  for (const int slot : std::exchange(due_, {})) applied.push_back(settings_.ddp ? take_bucket(slot) : apply(slot));
  if (settings_.ddp && !applied.empty()) {
    const double loss = report_.loss;
    report_ = inner_.update();  // clips the averaged gradient
    report_.loss = loss;
  }
  return applied;
}

Applied Site::apply(int p) {
  const Span span = settings_.fragments[static_cast<std::size_t>(p)];
  const Place place = inner_.place();
  const Sent& sent = sent_[static_cast<std::size_t>(p)];
  Applied done{.slot = p,
               .round = sent.round,
               .sent_after = sent.after,
               .delta_norm = sent.delta_norm,
               .answer = exchange_.wait(p)};

  const auto mean = at_place(done.answer.mean);
  done.mean_norm = std::sqrt(kernels::sum_of_squares(mean, place));
  outer_.step(p, slice(global_.values(), span), mean);  // the same bits at every site
  mix(slice(inner_.local(), span), slice(std::as_const(global_).values(), span), settings_.mix, place);
  return done;
}

std::vector<Applied> Site::drain() {
  ATOLL_CHECK(due_.empty(), due_.size(), " answers are due");
  std::vector<Applied> applied;
  if (settings_.ddp) return applied;
  for (const int p : schedule_.in_flight(t_)) applied.push_back(apply(p));
  due_ = schedule_.unsent(t_, settings_.mix > 0);
  for (std::size_t i = 0; i < due_.size(); ++i) send_fragment(due_[i], i + 1 < due_.size() ? due_[i + 1] : -1);
  return applied;
}

// ---------------------------------------------------------------------------------------------- DDP

void Site::send_bucket(int b) {
  const auto gradient = slice(std::span<const float>(inner_.gradients()), buckets_[static_cast<std::size_t>(b)]);
  const Place place = inner_.place();
  codec_->encode(gradient, place, exchange_.payload(b));
  const bool first = b == 0;
  const bool last = b + 1 == static_cast<int>(buckets_.size());
  // Replicas are compared now and then: a hash of all parameters a step would cost as much as the averaging.
  constexpr std::uint64_t kHashEvery = 100;
  exchange_.send({.slot = b,
                  .round = static_cast<std::uint32_t>(t_),
                  .step = t_,
                  .tokens = step_tokens_,
                  .finite = kernels::all_finite(gradient, place),
                  .first_of_group = first,
                  .next_slot = !last ? b + 1 : (t_ < settings_.steps ? 0 : -1),
                  .next_first_of_group = last,
                  .global_hash = first && t_ % kHashEvery == 1 ? global_hash() : Hash128{}});
  sent_[static_cast<std::size_t>(b)] = {.after = t_, .round = static_cast<std::uint32_t>(t_), .delta_norm = 0};
  due_.push_back(b);
}

Applied Site::take_bucket(int b) {
  Applied done{.slot = b, .round = static_cast<std::uint32_t>(t_), .sent_after = t_, .answer = exchange_.wait(b)};
  // A later bucket of a step has no header with a vote; but its mean is the same bits everywhere, so all sites stop here.
  if (!kernels::all_finite(done.answer.mean, {}))
    throw ConfigError(
        text(settings_.name, ", step ", t_,
             ": the averaged gradient holds a NaN or an infinity: no site applies it; try a lower inner.lr"));
  copy(done.answer.mean, {}, slice(inner_.gradients(), buckets_[static_cast<std::size_t>(b)]), inner_.place());
  return done;
}

// ---------------------------------------------------------------------------------------------- parts

std::vector<SlotSpec> slots_of(const SiteSettings& settings, const ParamLayout& layout) {
  std::vector<SlotSpec> slots;
  for (const Span& span : settings.ddp ? plan_buckets(layout, settings.bucket_values) : settings.fragments)
    slots.push_back({.values = span.count});
  return slots;
}

Site::Site(SiteSettings settings, Inner& inner, Exchange& exchange, Samples samples)
    : settings_(std::move(settings)),
      inner_(inner),
      exchange_(exchange),
      samples_(std::move(samples)),
      schedule_(settings_.ddp ? ScheduleConfig{.period = 1} : settings_.schedule),
      codec_(make_codec(settings_.codec)),
      outer_(settings_.optimizer, settings_.ddp ? std::vector<Span>{} : settings_.fragments, inner.place()) {
  const std::size_t n = inner_.layout().size();
  if (settings_.ddp) {
    buckets_ = plan_buckets(inner_.layout(), settings_.bucket_values);
    bucket_queue_ = std::make_unique<BucketQueue>(inner_.layout(), buckets_);
    sent_.resize(buckets_.size());
    return;
  }
  std::size_t covered = 0, largest = 0;
  for (const Span& span : settings_.fragments) {
    ATOLL_CHECK(span.offset == covered, "a fragment starts at ", span.offset, ", the one before ends at ", covered);
    covered = span.end();
    largest = std::max(largest, span.count);
  }
  ATOLL_CHECK(covered == n, "fragments cover ", covered, " values, the model has ", n);
  ATOLL_CHECK(settings_.fragments.size() == static_cast<std::size_t>(settings_.schedule.fragments),
              settings_.fragments.size(), " fragments, ", settings_.schedule.fragments, " in the schedule");
  sent_.resize(settings_.fragments.size());
  global_ = Buffer(n, inner_.place());
  delta_ = Buffer(largest, inner_.place());
  if (!inner_.place().on_host()) mean_ = Buffer(largest, inner_.place());
  copy(inner_.local(), inner_.place(), global_.values(), inner_.place());
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
  return settings_.ddp ? std::span<const float>(inner_.local()) : global_.values();
}

Hash128 Site::global_hash() const { return kernels::hash_values(global(), 0, inner_.place()); }

std::vector<StateSpan> Site::state() {
  std::vector<StateSpan> all;
  if (!settings_.ddp) {
    all.push_back({"global", global_.values()});
    if (!outer_.momentum().empty()) all.push_back({"outer.momentum", outer_.momentum()});
  }
  all.push_back({"local", inner_.local()});
  for (const StateSpan& s : inner_.state()) all.push_back({"inner." + s.name, s.values});
  return all;
}

}  // namespace atl
