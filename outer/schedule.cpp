#include "outer/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace atl {
namespace {

// The inner step after which fragment p is first sent: t_p.
std::uint64_t first_of(const ScheduleConfig& c, int p) {
  return c.first_send + static_cast<std::uint64_t>(p) * (c.period / static_cast<std::uint64_t>(c.fragments));
}

bool sent_after(const ScheduleConfig& c, int p, std::uint64_t t) {
  const std::uint64_t first = first_of(c, p);
  return t >= first && (t - first) % c.period == 0;
}

// The last step <= t after which p was sent; 0 when it was not yet.
std::uint64_t last_send(const ScheduleConfig& c, int p, std::uint64_t t) {
  const std::uint64_t first = first_of(c, p);
  return t < first ? 0 : t - (t - first) % c.period;
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config) : config_(config) {
  const auto P = static_cast<std::uint64_t>(config.fragments);
  if (config.fragments < 1) throw ConfigError(text("outer.fragments = ", config.fragments, ", but it must be at least 1"));
  if (config.period == 0 || config.period % P != 0) {
    const std::uint64_t below = config.period / P * P, above = below + P;
    throw ConfigError(text("outer.period = ", config.period, ", but it must be a multiple of outer.fragments (", P, "): try ",
                           below > 0 ? text(below, " or ") : "", above));
  }
  if (config.delay >= config.period)
    throw ConfigError(text("outer.delay = ", config.delay, ", but it must be below outer.period (", config.period,
                           "): a fragment is never in flight twice"));
  if (config.first_send > config.period)
    throw ConfigError(text("outer.first_send = ", config.first_send, ", but it must be at most outer.period (", config.period, ")"));
  if (config_.first_send == 0) config_.first_send = config.period / P;
}

std::vector<int> Schedule::sends_after(std::uint64_t t) const {
  std::vector<int> sent;
  for (int p = 0; p < config_.fragments; ++p)
    if (sent_after(config_, p, t)) sent.push_back(p);
  return sent;
}

std::vector<int> Schedule::applies_after(std::uint64_t t) const {
  return t <= config_.delay ? std::vector<int>{} : sends_after(t - config_.delay);
}

std::vector<int> Schedule::in_flight(std::uint64_t t) const {
  std::vector<int> flying;
  const std::uint64_t oldest = t > config_.delay ? t - config_.delay + 1 : 1;
  for (std::uint64_t sent = oldest; sent <= t; ++sent)
    for (const int p : sends_after(sent)) flying.push_back(p);
  return flying;
}

std::vector<int> Schedule::unsent(std::uint64_t t) const {
  std::vector<int> left;
  for (int p = 0; p < config_.fragments; ++p)
    if (last_send(config_, p, t) < t) left.push_back(p);
  return left;
}

std::uint64_t Schedule::steps_since_last_send(int p, std::uint64_t t) const {
  return t == 0 ? 0 : t - last_send(config_, p, t - 1);
}

std::uint32_t Schedule::round_of(int p, std::uint64_t t) const {
  // The drain's send falls into the round after the last scheduled one.
  const std::uint64_t first = first_of(config_, p);
  if (t <= first) return 1;
  return static_cast<std::uint32_t>((t - first + config_.period - 1) / config_.period + 1);
}

int Schedule::next_send(std::uint64_t t, std::uint64_t last_step) const {
  std::uint64_t soonest = last_step + 1;
  int next = -1;
  for (int p = 0; p < config_.fragments; ++p) {
    const std::uint64_t last = last_send(config_, p, t);
    const std::uint64_t at = last == 0 ? first_of(config_, p) : last + config_.period;
    if (at < soonest) {  // ties go to the lower fragment, as sends_after lists them
      soonest = at;
      next = p;
    }
  }
  return next;
}

}  // namespace atl
