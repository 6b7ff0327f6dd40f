// Schedule: which fragment is sent and which answer is applied after which inner step.  A pure function of the step.
//
// With S = H / P, send number k (k = 0, 1, ...) comes after inner step first_send + k S and carries fragment k mod P.
// That is all: fragment p is sent after first_send + p S and every H steps from then on, and never two after one step.
// Its answer is applied after inner step t + delay, before step t + delay + 1.  delay < H, so no fragment is in flight
// twice; several fragments may be, when delay > S.
//
// Source: docs/algorithms.md, 2; Streaming DiLoCo, arXiv:2501.18512, section 2.2.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace atl {

struct ScheduleConfig {
  std::uint64_t period = 30;     // H, inner steps a round; a multiple of fragments
  int fragments = 1;             // P
  std::uint64_t delay = 0;       // τ, inner steps between sending and applying; < H
  std::uint64_t first_send = 0;  // inner step after which fragment 0 is first sent; <= H; 0 means H / P
};

class Schedule {
 public:
  // Throws ConfigError when H is no multiple of P (names the nearest that is), P < 1, τ >= H or first_send > H.
  explicit Schedule(const ScheduleConfig& config);

  // Fragments to send after inner step t (t = 1, 2, ...): none or one.
  std::vector<int> sends_after(std::uint64_t t) const;
  // Fragments whose answer is applied after inner step t: those sent after step t - τ.
  std::vector<int> applies_after(std::uint64_t t) const;

  // At the end, after inner step t and what was applied after it: sent, but not yet applied, in the order sent.
  std::vector<int> in_flight(std::uint64_t t) const;
  // At the end, after inner step t: the fragments whose last inner steps no delta has carried, ascending.  They are
  // sent once more, after the answers in flight were applied; a fragment without work is not: its empty delta would
  // still move Θ by the momentum.
  //   keeps_local: the merge keeps some of θ (α > 0).  Then a fragment has work when it saw an inner step since it was
  //   last sent.  With α = 0 the answer replaces θ, so the steps between a send and its answer are gone: it has work
  //   only when more than τ steps followed the last send.  The same for τ = 0.
  std::vector<int> unsent(std::uint64_t t, bool keeps_local = true) const;

  // Inner steps fragment p has seen since it was last sent (since step 0 when it never was), at the moment it is sent
  // after step t, on the schedule or at the end.  A send after step t itself does not count as the last one.
  std::uint64_t steps_since_last_send(int p, std::uint64_t t) const;
  // The number of fragment p's send after step t (1, 2, ...), on the schedule or at the end: its round.
  std::uint32_t round_of(int p, std::uint64_t t) const;
  // The fragment of the next send strictly after step t, for posting its receives early; at most `last_step`.  -1:
  // none.
  int next_send(std::uint64_t t, std::uint64_t last_step) const;

  const ScheduleConfig& config() const { return config_; }  // first_send resolved

 private:
  // How many sends, of all fragments or of fragment p, come after steps 1 .. t.
  std::uint64_t sends_until(std::uint64_t t) const;
  std::uint64_t sends_until(int p, std::uint64_t t) const;
  std::optional<std::uint64_t> last_send(int p, std::uint64_t t) const;  // the step, <= t
  int fragment_of(std::uint64_t send) const {
    return static_cast<int>(send % static_cast<unsigned>(config_.fragments));
  }

  ScheduleConfig config_;
  std::uint64_t spacing_ = 1;  // S
};

}  // namespace atl
