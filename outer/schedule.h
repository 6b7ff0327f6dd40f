// Schedule: which fragment is sent and which answer is applied after which inner step.  A pure function of the step.
//
// Source: docs/algorithms.md, 2; Streaming DiLoCo, arXiv:2501.18512, section 2.2.
#pragma once
#include <cstdint>
#include <vector>

namespace atl {

struct ScheduleConfig {
  std::uint64_t period = 30;     // H, inner steps a round; a multiple of fragments
  int fragments = 1;             // P
  std::uint64_t delay = 0;       // τ, inner steps between sending and applying; < H
  std::uint64_t first_send = 0;  // inner step after which fragment 0 is first sent; 0 means H / P
};

class Schedule {
 public:
  // Throws ConfigError when H is no multiple of P (names the nearest that is), P < 1, τ >= H or first_send > H.
  explicit Schedule(const ScheduleConfig& config);

  // Fragments to send after inner step t (t = 1, 2, ...), ascending.
  std::vector<int> sends_after(std::uint64_t t) const;
  // Fragments whose answer is applied after inner step t: those sent after step t - τ.
  std::vector<int> applies_after(std::uint64_t t) const;
  // At the end, after inner step t: what is in flight, in the order sent; and what has seen inner steps since it was last sent.
  std::vector<int> in_flight(std::uint64_t t) const;
  std::vector<int> unsent(std::uint64_t t) const;
  // Inner steps fragment p has seen since it was last sent, at the moment it is sent after step t.
  std::uint64_t steps_since_last_send(int p, std::uint64_t t) const;
  // The number of the round (1, 2, ...) in which fragment p's send after step t falls.
  std::uint32_t round_of(int p, std::uint64_t t) const;
  // The fragment of the next send strictly after step t, for posting its receives early; at most `last_step`. -1: none.
  int next_send(std::uint64_t t, std::uint64_t last_step) const;

  const ScheduleConfig& config() const { return config_; }  // first_send resolved

 private:
  ScheduleConfig config_;
};

}  // namespace atl
