#include "outer/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace atl {

namespace {

// src/app/config.cpp finds the same mistakes first, with file and line; this is for whoever makes a Schedule directly.
void check(const ScheduleConfig& c) {
  if (c.fragments < 1) throw ConfigError(text("outer.fragments = ", c.fragments, ", but it must be 1 or more"));
  const auto fragments = static_cast<std::uint64_t>(c.fragments);
  if (c.period < 1 || c.period % fragments != 0) {
    const std::uint64_t below = c.period / fragments * fragments;
    throw ConfigError(text("outer.period = ", c.period, ", but it must be a multiple of outer.fragments (", fragments,
                           "): try ", below > 0 ? text(below, " or ") : "", below + fragments));
  }
  if (c.delay >= c.period)
    throw ConfigError(text("outer.delay = ", c.delay, ", but it must be below outer.period (", c.period, ")"));
  if (c.first_send > c.period)
    throw ConfigError(
        text("outer.first_send = ", c.first_send, ", but it must be at most outer.period (", c.period, ")"));
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config) : config_(config) {
  check(config);
  spacing_ = config.period / static_cast<std::uint64_t>(config.fragments);
  if (config_.first_send == 0) config_.first_send = spacing_;
}

std::uint64_t Schedule::sends_until(std::uint64_t t) const {
  return t < config_.first_send ? 0 : (t - config_.first_send) / spacing_ + 1;
}

std::uint64_t Schedule::sends_until(int p, std::uint64_t t) const {
  ATOLL_CHECK(p >= 0 && p < config_.fragments, "fragment ", p, " of ", config_.fragments);
  const std::uint64_t first = config_.first_send + static_cast<std::uint64_t>(p) * spacing_;
  return t < first ? 0 : (t - first) / config_.period + 1;
}

std::optional<std::uint64_t> Schedule::last_send(int p, std::uint64_t t) const {
  const std::uint64_t sends = sends_until(p, t);
  if (sends == 0) return std::nullopt;
  return config_.first_send + static_cast<std::uint64_t>(p) * spacing_ + (sends - 1) * config_.period;
}

std::vector<int> Schedule::sends_after(std::uint64_t t) const {
  if (t < config_.first_send || (t - config_.first_send) % spacing_ != 0) return {};
  return {fragment_of(sends_until(t) - 1)};
}

std::vector<int> Schedule::applies_after(std::uint64_t t) const {
  return t < config_.delay ? std::vector<int>{} : sends_after(t - config_.delay);
}

std::vector<int> Schedule::in_flight(std::uint64_t t) const {
  std::vector<int> fragments;
  const std::uint64_t applied = t < config_.delay ? 0 : sends_until(t - config_.delay);
  for (std::uint64_t send = applied; send < sends_until(t); ++send) fragments.push_back(fragment_of(send));
  return fragments;
}

std::vector<int> Schedule::unsent(std::uint64_t t, bool keeps_local) const {
  std::vector<int> fragments;
  for (int p = 0; p < config_.fragments; ++p) {
    const auto last = last_send(p, t);
    const std::uint64_t carried = last ? *last + (keeps_local ? 0 : config_.delay) : 0;
    if (t > carried) fragments.push_back(p);
  }
  return fragments;
}

std::uint64_t Schedule::steps_since_last_send(int p, std::uint64_t t) const {
  ATOLL_CHECK(t > 0, "fragment ", p, " is sent before the first inner step");
  return t - last_send(p, t - 1).value_or(0);
}

std::uint32_t Schedule::round_of(int p, std::uint64_t t) const {
  ATOLL_CHECK(t > 0, "fragment ", p, " is sent before the first inner step");
  return static_cast<std::uint32_t>(sends_until(p, t - 1) + 1);
}

int Schedule::next_send(std::uint64_t t, std::uint64_t last_step) const {
  const std::uint64_t send = sends_until(t);  // the number of the first one after t
  return config_.first_send + send * spacing_ <= last_step ? fragment_of(send) : -1;
}

}  // namespace atl
