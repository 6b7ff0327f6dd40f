// Sites in lockstep, in the fewest lines: inner steps, Schedule, delta, mean, OuterOptimizer, mix.  The engine without
// codec, exchange and records, so that a wrong number here is outer's own.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "inner/inner.h"
#include "outer/delta.h"
#include "outer/outer_optimizer.h"
#include "outer/schedule.h"

namespace atl {

struct Lockstep {
  std::vector<std::unique_ptr<Inner>> sites;
  std::vector<Span> fragments;
  Schedule schedule;
  OuterOptimizer outer;
  float alpha = 0;
  std::vector<float> global;                          // Θ
  std::map<int, std::vector<float>> means_in_flight;  // by fragment
  std::uint64_t t = 0;

  Lockstep(std::vector<std::unique_ptr<Inner>> models, std::vector<Span> spans, const ScheduleConfig& when,
           const OuterConfig& how, float mix)
      : sites(std::move(models)), fragments(std::move(spans)), schedule(when), outer(how, fragments, {}), alpha(mix) {
    global.assign(sites[0]->local().begin(), sites[0]->local().end());
  }

  Span span(int p) const { return fragments[static_cast<std::size_t>(p)]; }
  std::span<float> local(std::size_t m) { return sites[m]->local(); }

  // One inner step of every site; returns their losses before it.
  std::vector<double> step() {
    std::vector<double> losses;
    for (auto& site : sites) losses.push_back(site->step({}).loss);
    ++t;
    for (const int p : schedule.sends_after(t)) send(p);
    for (const int p : schedule.applies_after(t)) apply(p);
    return losses;
  }
  void drain() {
    for (const int p : schedule.in_flight(t)) apply(p);
    const auto unsent = schedule.unsent(t, alpha > 0);
    for (const int p : unsent) send(p);
    for (const int p : unsent) apply(p);
  }

  // The mean over the sites, in their order, summed in double and rounded once.
  void send(int p) {
    const Span s = span(p);
    std::vector<double> sum(s.count, 0.0);
    std::vector<float> own(s.count);
    for (auto& site : sites) {
      delta(slice(std::span<const float>(global), s), slice(std::span<const float>(site->local()), s), own, {});
      for (std::size_t i = 0; i < s.count; ++i) sum[i] += double{own[i]};
    }
    std::vector<float> mean;
    for (const double x : sum) mean.push_back(static_cast<float>(x / static_cast<double>(sites.size())));
    if (!means_in_flight.emplace(p, mean).second) throw std::logic_error("a fragment is in flight twice");
  }
  void apply(int p) {
    const Span s = span(p);
    outer.step(p, slice(std::span(global), s), means_in_flight.at(p));
    for (auto& site : sites) mix(slice(site->local(), s), slice(std::span<const float>(global), s), alpha, {});
    means_in_flight.erase(p);
  }
};

}  // namespace atl
