#include "outer/schedule.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>

#include "base/error.h"

namespace atl {
namespace {

using Steps = std::vector<std::uint64_t>;
using Fragments = std::vector<int>;

// The steps 1 .. last after which fragment p is sent.
Steps sends_of(const Schedule& schedule, int p, std::uint64_t last) {
  Steps steps;
  for (std::uint64_t t = 1; t <= last; ++t)
    for (const int sent : schedule.sends_after(t))
      if (sent == p) steps.push_back(t);
  return steps;
}

TEST_CASE("schedule: DiLoCo sends everything after every period") {
  const Schedule schedule({.period = 30});
  CHECK(sends_of(schedule, 0, 100) == Steps{30, 60, 90});
  CHECK(schedule.applies_after(30) == Fragments{0});
  CHECK(schedule.applies_after(29).empty());
  CHECK(schedule.in_flight(30).empty());
  CHECK(schedule.unsent(90).empty());
  CHECK(schedule.unsent(91) == Fragments{0});
  CHECK(schedule.config().first_send == 30);
}

TEST_CASE("schedule: fragments take turns, a spacing apart") {
  const Schedule schedule({.period = 12, .fragments = 3, .delay = 2});
  CHECK(sends_of(schedule, 0, 30) == Steps{4, 16, 28});
  CHECK(sends_of(schedule, 1, 30) == Steps{8, 20});
  CHECK(sends_of(schedule, 2, 30) == Steps{12, 24});
  CHECK(schedule.applies_after(6) == Fragments{0});
  CHECK(schedule.applies_after(4).empty());
  CHECK(schedule.in_flight(5) == Fragments{0});
  CHECK(schedule.in_flight(6).empty());
  CHECK(schedule.steps_since_last_send(0, 4) == 4);
  CHECK(schedule.steps_since_last_send(0, 16) == 12);
  CHECK(schedule.steps_since_last_send(2, 14) == 2);
  CHECK(schedule.round_of(0, 4) == 1);
  CHECK(schedule.round_of(2, 12) == 1);
  CHECK(schedule.round_of(0, 16) == 2);
  CHECK(schedule.round_of(0, 17) == 3);  // sent at the end, after step 17: its third send
}

TEST_CASE("schedule: one fragment a step when there are as many as steps in a round") {
  const Schedule schedule({.period = 5, .fragments = 5, .delay = 4});
  for (std::uint64_t t = 1; t <= 20; ++t) CHECK(schedule.sends_after(t) == Fragments{static_cast<int>((t - 1) % 5)});
  CHECK(schedule.in_flight(7) == Fragments{3, 4, 0, 1});  // sent after 4, 5, 6, 7; those of 3 are applied
}

TEST_CASE("schedule: the longest delay has every answer applied just before the next send of its fragment") {
  const Schedule schedule({.period = 6, .fragments = 2, .delay = 5});
  CHECK(schedule.applies_after(8) == Fragments{0});  // sent after 3
  CHECK(schedule.sends_after(9) == Fragments{0});
  CHECK(schedule.in_flight(8) == Fragments{1});
  CHECK(schedule.in_flight(9) == Fragments{1, 0});
}

TEST_CASE("schedule: the first send may come at any step of the first round, as S - tau in torchft") {
  const Schedule torchft({.period = 6, .fragments = 2, .delay = 1, .first_send = 2});
  CHECK(sends_of(torchft, 0, 14) == Steps{2, 8, 14});
  CHECK(sends_of(torchft, 1, 14) == Steps{5, 11});
  CHECK(torchft.applies_after(3) == Fragments{0});
  const Schedule at_once({.period = 6, .fragments = 2, .first_send = 1});
  CHECK(sends_of(at_once, 0, 14) == Steps{1, 7, 13});
  const Schedule late({.period = 6, .fragments = 2, .first_send = 6});
  CHECK(sends_of(late, 0, 14) == Steps{6, 12});
  CHECK(sends_of(late, 1, 14) == Steps{9});  // then every 6
  CHECK(late.round_of(1, 9) == 1);
  CHECK(late.unsent(3) == Fragments{0, 1});
}

TEST_CASE("schedule: before the first inner step there is nothing to do") {
  const Schedule schedule({.period = 4, .fragments = 2, .delay = 1});
  CHECK(schedule.sends_after(0).empty());
  CHECK(schedule.applies_after(0).empty());
  CHECK(schedule.in_flight(0).empty());
  CHECK(schedule.unsent(0).empty());
  CHECK(schedule.next_send(0, 100) == 0);
}

TEST_CASE("schedule: the next send is known until the last step") {
  const Schedule schedule({.period = 6, .fragments = 2});
  CHECK(schedule.next_send(0, 2) == -1);
  CHECK(schedule.next_send(0, 3) == 0);
  CHECK(schedule.next_send(2, 100) == 0);
  CHECK(schedule.next_send(3, 100) == 1);  // strictly after
  CHECK(schedule.next_send(3, 5) == -1);
  CHECK(schedule.next_send(6, 9) == 0);
}

TEST_CASE("schedule: a fragment whose answer replaced its last steps has no work") {
  const Schedule schedule({.period = 6, .fragments = 2, .delay = 2});
  // After step 5: fragment 0 was sent after 3 and applied after 5; fragment 1 was never sent.
  CHECK(schedule.unsent(5) == Fragments{0, 1});
  CHECK(schedule.unsent(5, /*keeps_local=*/false) == Fragments{1});
  CHECK(schedule.unsent(6, /*keeps_local=*/false) == Fragments{0});
}

// Refused with this text in the message.
void check_refused(const ScheduleConfig& config, const char* message) {
  CHECK_THROWS_WITH_AS(Schedule{config}, doctest::Contains(message), ConfigError);
}

TEST_CASE("schedule: what cannot be is refused, with what can") {
  check_refused({.period = 500, .fragments = 3},
                "outer.period = 500, but it must be a multiple of outer.fragments (3): try 498 or 501");
  check_refused({.period = 2, .fragments = 3},
                "outer.period = 2, but it must be a multiple of outer.fragments (3): try 3");
  check_refused({.period = 0, .fragments = 1},
                "outer.period = 0, but it must be a multiple of outer.fragments (1): try 1");
  check_refused({.period = 6, .fragments = 0}, "outer.fragments = 0, but it must be 1 or more");
  check_refused({.period = 6, .fragments = -2}, "outer.fragments = -2, but it must be 1 or more");
  check_refused({.period = 6, .delay = 6}, "outer.delay = 6, but it must be below outer.period (6)");
  check_refused({.period = 6, .first_send = 7}, "outer.first_send = 7, but it must be at most outer.period (6)");
  CHECK_THROWS_AS(Schedule({.period = 6}).round_of(1, 3), Bug);
  CHECK_THROWS_AS(Schedule({.period = 6}).steps_since_last_send(0, 0), Bug);
}

// The text of docs/algorithms.md, 2, played step by step, with a ledger of every inner step of every fragment.
struct Ledger {
  struct Flight {
    int p;
    std::uint64_t sent;
  };
  ScheduleConfig c;
  bool keeps_local;
  std::uint64_t t = 0;
  std::vector<Steps> held;                     // per fragment: inner steps that no delta has carried yet
  std::vector<Steps> sent_after;               // per fragment
  std::vector<std::uint64_t> steps_done_with;  // per fragment: carried by an answer, or lost to one (alpha = 0)
  std::deque<Flight> flights;
  std::vector<Steps> carried;  // per fragment: what the delta in flight carries

  bool due(int p) const {
    const std::uint64_t first =
        c.first_send + static_cast<std::uint64_t>(p) * (c.period / static_cast<std::uint64_t>(c.fragments));
    return t >= first && (t - first) % c.period == 0;
  }
  void apply(int p) {
    const auto i = static_cast<std::size_t>(p);
    steps_done_with[i] += carried[i].size();
    carried[i].clear();
    if (keeps_local) return;
    steps_done_with[i] += held[i].size();
    held[i].clear();
  }
};

void play(const ScheduleConfig& given, bool keeps_local, std::uint64_t last) {
  const Schedule schedule(given);
  const auto fragments = static_cast<std::size_t>(given.fragments);
  Ledger l{.c = given,
           .keeps_local = keeps_local,
           .held = std::vector<Steps>(fragments),
           .sent_after = std::vector<Steps>(fragments),
           .steps_done_with = Steps(fragments, 0),
           .flights = {},
           .carried = std::vector<Steps>(fragments)};
  if (l.c.first_send == 0) l.c.first_send = given.period / fragments;
  for (l.t = 1; l.t <= last; ++l.t) {
    for (Steps& h : l.held) h.push_back(l.t);

    Fragments sends, applies;
    for (int p = 0; p < given.fragments; ++p)
      if (l.due(p)) sends.push_back(p);
    REQUIRE(schedule.sends_after(l.t) == sends);
    for (const int p : sends) {
      const auto i = static_cast<std::size_t>(p);
      for (const auto& f : l.flights) REQUIRE(f.p != p);  // never twice in flight
      const std::uint64_t since = l.sent_after[i].empty() ? l.t : l.t - l.sent_after[i].back();
      REQUIRE(schedule.steps_since_last_send(p, l.t) == since);
      if (keeps_local) REQUIRE(since == l.held[i].size());
      l.sent_after[i].push_back(l.t);
      REQUIRE(schedule.round_of(p, l.t) == l.sent_after[i].size());
      std::swap(l.carried[i], l.held[i]);
      l.flights.push_back({p, l.t});
    }
    while (!l.flights.empty() && l.flights.front().sent + given.delay == l.t) {
      applies.push_back(l.flights.front().p);
      l.apply(applies.back());
      l.flights.pop_front();
    }
    REQUIRE(schedule.applies_after(l.t) == applies);

    // If training ended here:
    Ledger end = l;
    Fragments in_flight, unsent;
    for (const auto& f : end.flights) {
      in_flight.push_back(f.p);
      end.apply(f.p);
    }
    REQUIRE(schedule.in_flight(l.t) == in_flight);
    for (std::size_t i = 0; i < fragments; ++i) {
      REQUIRE(end.steps_done_with[i] + end.held[i].size() == l.t);  // every step is somewhere, once
      if (end.held[i].empty()) continue;
      unsent.push_back(static_cast<int>(i));
      REQUIRE(schedule.round_of(static_cast<int>(i), l.t) == end.sent_after[i].size() + 1);
      if (keeps_local) REQUIRE(schedule.steps_since_last_send(static_cast<int>(i), l.t) == end.held[i].size());
    }
    REQUIRE(schedule.unsent(l.t, keeps_local) == unsent);
  }

  // Once a round each, and the next send is the one that comes.
  for (std::size_t i = 0; i < fragments; ++i)
    for (std::size_t k = 1; k < l.sent_after[i].size(); ++k)
      REQUIRE(l.sent_after[i][k] - l.sent_after[i][k - 1] == given.period);
  int next = -1;
  for (std::uint64_t t = last; t-- > 0;) {
    if (const auto sends = schedule.sends_after(t + 1); !sends.empty()) next = sends.front();
    REQUIRE(schedule.next_send(t, last) == next);
  }
}

TEST_CASE("schedule: 600 random ones follow a ledger of every inner step, whenever training ends") {
  std::mt19937 random(20250118);
  const auto below = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
  for (int i = 0; i < 600; ++i) {
    ScheduleConfig c;
    c.fragments = static_cast<int>(1 + below(6));
    c.period = static_cast<std::uint64_t>(c.fragments) * (1 + below(7));
    c.delay = below(3) == 0 ? 0 : below(3) == 0 ? c.period - 1 : below(c.period);
    c.first_send = below(2) == 0 ? 0 : 1 + below(c.period);
    CAPTURE(c.period);
    CAPTURE(c.fragments);
    CAPTURE(c.delay);
    CAPTURE(c.first_send);
    play(c, /*keeps_local=*/i % 2 == 0, 4 * c.period + 3);
  }
}

}  // namespace
}  // namespace atl
