// Site: one replica of the model at one place, as a state machine over an Exchange.  Read site.cpp first: it is the
// algorithm in the order of the paper.
//
// No I/O here: no socket, clock, file or sleep.  simulate steps M of these in lockstep over an in-process exchange;
// launch and train run one a process over a link.  All give the same Θ, bit for bit, for the same settings.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/param_layout.h"
#include "comm/codec.h"
#include "comm/exchange.h"
#include "data/batch.h"
#include "inner/inner.h"
#include "kernels/buffer.h"
#include "outer/buckets.h"
#include "outer/merge.h"
#include "outer/outer_optimizer.h"
#include "outer/outer_schedule.h"
#include "outer/schedule.h"

namespace atl {

struct SiteSettings {
  std::string name = "site-0";
  int rank = 0;
  int sites = 1;
  std::uint64_t steps = 1;  // inner steps of the run
  std::size_t batch = 1;    // sequences of this site an inner step
  bool same_data = false;   // every site reads the samples of rank 0 (tests of the averaging)
  // The first steps average gradients (DDP); all of them: the outer settings below are unused.  Fewer: post-local SGD,
  // whose schedule counts from there.
  std::uint64_t ddp_steps = 0;
  ScheduleConfig schedule;
  std::vector<Span> fragments;  // [P], cover the layout
  OuterConfig optimizer;
  OuterScheduleConfig rates;
  bool inner_lr_scaled = false;  // the momentum is kept in units of the inner learning rate (SlowMo)
  Merge merge = Merge::mix;
  float mix = 0;                   // α of Merge::mix
  int clusters = 1;                // of sites / clusters neighbours in rank order; 1: no cluster rounds
  std::uint64_t global_every = 1;  // clusters > 1: every so many rounds all sites average, in the others each cluster
  CodecConfig codec;
  float feedback = 0;                     // β of the residual; 0: none is kept
  std::size_t bucket_values = 1U << 18U;  // ddp: values in a bucket at most

  bool only_ddp() const { return ddp_steps >= steps; }
  // Is a fragment's round averaged within the clusters only, unless it is the run's last?
  bool is_cluster_round(std::uint32_t round) const { return clusters > 1 && round % global_every != 0; }
};

// The slots that a site with these settings sends: one a bucket (of DDP steps, if there are any), then one a fragment.
std::vector<SlotSpec> slots_of(const SiteSettings& settings, const ParamLayout& layout);

// The fragments that are sent once more when the schedule has come to its end after step t, ascending: those whose work no
// delta has carried to all sites.
std::vector<int> left_at_end(const SiteSettings& settings, const Schedule& schedule, std::uint64_t t);

// Samples [position, position + count) of the run's order.
using Samples = std::function<Batch(std::uint64_t position, std::size_t count)>;

// What one answer did to this site; for rounds.jsonl.
struct Applied {
  bool gradient = false;    // a bucket of a DDP step, not a fragment
  bool in_cluster = false;  // averaged within the site's cluster only
  int slot = 0;             // the bucket or fragment
  std::uint32_t round = 0;
  std::uint64_t sent_after = 0;  // inner step after which the payload was sent
  double delta_norm = 0;         // of this site's own delta (bucket: 0)
  double mean_norm = 0;          // of the mean over sites (bucket: 0)
  Answer answer;                 // its mean may no longer be read
};

class Site {
 public:
  // `inner` and `exchange` must outlive the site.  Θ starts as a copy of inner.local().
  // Throws ConfigError for settings that cannot be (schedule, fragments that do not cover the layout).
  Site(SiteSettings settings, Inner& inner, Exchange& exchange, Samples samples);

  // One inner step; sends what is due after it (ddp: each bucket as soon as the backward pass has finished it).
  // Throws ConfigError when the loss is not finite (site, step): nothing was sent of a delta that holds it.
  void step();
  // Waits for the answers that must be applied before the next step, and applies them.  Throws what Exchange::wait
  // throws.
  std::vector<Applied> collect();
  // True when the next step averages gradients.
  bool averages_gradients() const { return t_ < settings_.ddp_steps; }
  int buckets() const { return static_cast<int>(buckets_.size()); }  // the slots below it are of DDP steps
  // After the last step: applies the answers in flight, in the order sent, then sends every fragment that saw an inner
  // step since it was last sent.  A collect() must follow; then Θ holds all work.
  std::vector<Applied> drain();

  std::uint64_t steps_done() const { return t_; }
  bool done() const { return t_ == settings_.steps; }
  const StepReport& report() const { return report_; }   // of the last step; ddp: lr and norm after collect()
  std::uint64_t tokens_done() const { return tokens_; }  // by this site
  std::uint64_t next_position() const;                   // of the next step's first sample, all sites together

  // Θ [layout size] at the inner's place (during DDP steps: θ, which is the same at every site).
  std::span<const float> global() const;
  Hash128 global_hash() const;

  // Everything a checkpoint must hold beside steps_done(): Θ, outer momentum, θ, the inner optimizer's state.
  std::vector<StateSpan> state();

  const SiteSettings& settings() const { return settings_; }

 private:
  struct Sent {  // a payload that has no answer yet
    std::uint64_t after = 0;
    std::uint32_t round = 0;
    bool in_cluster = false;
    std::uint64_t tokens = 0;
    double inner_lr = 0;
    double delta_norm = 0;
  };

  Batch next_batch();
  void send_fragment(int p, int next, bool last);
  void send_bucket(int b);
  void restart(int p, std::span<const float> own);
  std::span<float> encode(int p, std::span<float> fragment_delta);
  Hash128 shared_hash(Span span);
  Applied apply(int p);
  Applied take_bucket(int b);
  void merge(int p);
  void merge_cluster(Span span, std::span<const float> mean);
  void start_outer();
  void remember_others(int p, std::span<const float> mean, std::uint64_t all_tokens);
  OuterRates rates_of(int p, const Sent& sent) const;
  std::span<const float> at_place(std::span<const float> mean);

  std::uint64_t outer_step() const { return t_ - settings_.ddp_steps; }  // what the schedule counts
  bool restarts_at_send() const { return settings_.merge == Merge::delayed || settings_.merge == Merge::eager; }
  int slot_of(int p) const { return static_cast<int>(buckets_.size()) + p; }
  Span span_of(int p) const { return settings_.fragments[static_cast<std::size_t>(p)]; }
  std::span<const float> start(Span span) const;  // what a delta is measured from

  SiteSettings settings_;
  Inner& inner_;
  Exchange& exchange_;
  Samples samples_;
  Schedule schedule_;
  std::unique_ptr<Codec> codec_;
  OuterOptimizer outer_;
  Buffer global_;                    // Θ
  Buffer start_;                     // restarts_at_send(): the point of the last restart
  Buffer others_;                    // eager: the last mean without the own part
  Buffer at_send_;                   // corrected: θ when the fragment was sent
  Buffer residual_, next_residual_;  // with feedback; the next becomes the present one with its answer
  Buffer delta_;                     // Δ of the fragment being sent
  Buffer decoded_;                   // what the others will decode of it
  Buffer mean_;                      // staging for the mean when the model is on a device
  std::vector<double> last_lr_;  // inner_lr_scaled: the inner learning rate at the fragment's last outer step; 0: none
  std::vector<Sent> sent_;       // a fragment
  std::vector<int> due_;         // fragments (DDP step: buckets) to collect before the next step
  std::vector<Span> buckets_;    // of DDP steps
  std::unique_ptr<BucketQueue> bucket_queue_;
  StepReport report_;
  std::uint64_t t_ = 0;  // inner steps done
  std::uint64_t tokens_ = 0;
  std::uint64_t step_tokens_ = 0;  // of the last batch
};

}  // namespace atl
