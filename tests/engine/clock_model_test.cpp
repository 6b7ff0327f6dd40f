#include "app/clock_model.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/close.h"

using namespace atl;

TEST_CASE("traffic: bytes and half round trips of every way to exchange, by hand") {
  const auto fp32 = make_codec("fp32"), bf16 = make_codec("bf16"), e3m0 = make_codec("e3m0"), topk = make_codec("topk");
  const auto is = [](const Traffic& t, double bytes, int trips) { return t.bytes == bytes && t.trips == trips; };
  CHECK(is(traffic_of(10'000, 1, 1, *fp32, *fp32, true), 0, 0));
  CHECK(is(traffic_of(10'000, 2, 2, *fp32, *fp32, true), 40'000 + 128, 1));
  CHECK(is(traffic_of(10'000, 2, 2, *fp32, *fp32, false), 40'000, 1));
  CHECK(is(traffic_of(1000, 4, 4, *fp32, *fp32, true), 3 * (4000 + 128), 1));             // inline
  CHECK(is(traffic_of(10'000, 4, 4, *fp32, *fp32, true), 30'000 + 3 * 10'000 + 384, 2));  // owners
  CHECK(is(traffic_of(10'000, 4, 4, *fp32, *bf16, true), 30'000 + 3 * 5'000 + 384, 2));
  CHECK(is(traffic_of(409'600, 2, 2, *e3m0, *e3m0, true), 409'600 / 256 * 129 + 128, 1));
  CHECK(is(traffic_of(4096 * 100, 4, 4, *topk, *fp32, true), 3 * (12'000 + 128), 1));  // all-gather
  CHECK(is(traffic_of(10'000, 2, 4, *fp32, *fp32, true), 40'000 + 384, 1));            // a cluster of two of four
}

TEST_CASE("clock: an exchange that is waited for at once, one that hides behind a step, and one that does not") {
  ClockModel clock({.step_seconds = 0.1, .bandwidth_mbit = 8, .rtt_ms = 20}, 2);  // a megabyte a second
  CHECK(close(clock.exchange_seconds({.bytes = 50'000, .trips = 1}), 0.06, {.relative = 1e-12}));
  CHECK(close(clock.exchange_seconds({.bytes = 50'000, .trips = 2}), 0.07, {.relative = 1e-12}));
  clock.step();
  clock.sent(0, {.bytes = 50'000, .trips = 1});
  clock.waited(0);
  CHECK(close(clock.now(), 0.16, {.relative = 1e-12}));
  clock.sent(0, {.bytes = 50'000, .trips = 1});  // until 0.22
  clock.sent(1, {.bytes = 90'000, .trips = 1});  // the link is taken until then: 0.32
  clock.step();                                  // 0.26
  clock.waited(0);
  CHECK(close(clock.now(), 0.26, {.relative = 1e-12}));
  clock.waited(1);
  CHECK(close(clock.now(), 0.32, {.relative = 1e-12}));
  CHECK(close(clock.utilisation(), 0.2 / 0.32, {.relative = 1e-12}));
  CHECK_THROWS_AS(ClockModel({.step_seconds = 0, .bandwidth_mbit = 8}, 1), Bug);
}

TEST_CASE("clock: DDP's buckets leave during the backward pass") {
  ClockModel clock({.step_seconds = 0.3, .bandwidth_mbit = 8, .rtt_ms = 0}, 2);
  clock.sent_during_step(0, {.bytes = 50'000, .trips = 1}, 0, 2);  // at 0.2, until 0.25
  clock.sent_during_step(1, {.bytes = 50'000, .trips = 1}, 1, 2);  // at 0.3, until 0.35
  clock.step();
  clock.waited(0);
  CHECK(close(clock.now(), 0.3, {.relative = 1e-12}));
  clock.waited(1);
  CHECK(close(clock.now(), 0.35, {.relative = 1e-12}));
}
