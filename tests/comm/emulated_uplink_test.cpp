#include "comm/emulated_uplink.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "support/close.h"

namespace atl::link {
namespace {

TEST_CASE("emulated uplink: bytes on the wire, by hand") {
  CHECK(bytes_on_wire(0) == 48 + 52);
  CHECK(bytes_on_wire(1400) == 1448 + 52);
  CHECK(bytes_on_wire(1401) == 1449 + 2 * 52);
  CHECK(bytes_on_wire(1'000'000) == 1'000'048 + 691 * 52);  // 1000048 / 1448 = 690.6
}

TEST_CASE("emulated uplink: without loss the link is full, with loss CUBIC's window limits each stream") {
  CHECK(reached_mbit({.bandwidth_mbit = 100, .rtt_ms = 100}, 1) == 100);
  // RFC 8312, table 2 (RTT 0.1 s, C = 0.4): loss 1e-2: average window 12, of CUBIC in the TCP-friendly region;
  // 1e-4: 187 (of CUBIC's own formula 187.5)
  const double segment = 1448 * 8 / 0.1 / 1e6;
  CHECK(close(reached_mbit({.bandwidth_mbit = 1000, .rtt_ms = 100, .loss_percent = 1}, 1), 12.2 * segment,
              {.relative = 0.01}));
  CHECK(close(reached_mbit({.bandwidth_mbit = 1000, .rtt_ms = 100, .loss_percent = 0.01}, 1), 187.5 * segment,
              {.relative = 0.02}));
  CHECK(close(reached_mbit({.bandwidth_mbit = 1000, .rtt_ms = 100, .loss_percent = 0.01}, 4), 4 * 187.5 * segment,
              {.relative = 0.02}));
  CHECK(reached_mbit({.bandwidth_mbit = 5, .rtt_ms = 100, .loss_percent = 0.01}, 4) == 5);
}

TEST_CASE("emulated uplink: messages leave one after the other, arrive in order, and never early") {
  // 8 Mbit/s: a byte a microsecond.  rtt 20 ms, jitter 5 ms.
  EmulatedUplink uplink({.bandwidth_mbit = 8, .rtt_ms = 20, .jitter_ms = 5}, 1, 7);
  CHECK(uplink.round_trip() == 0.02);
  std::vector<int> arrived;
  std::vector<double> at;
  const double start = steady_seconds();
  double leaves = 0;
  std::vector<double> earliest;
  for (int i = 0; i < 20; ++i) {
    const std::size_t bytes = 500 * static_cast<std::size_t>(i % 3);
    leaves += static_cast<double>(bytes_on_wire(bytes)) * 1e-6;
    earliest.push_back(leaves + 0.01);
    uplink.hold(1, 0, bytes, [&, i] {
      arrived.push_back(i);
      at.push_back(steady_seconds() - start);
    });
  }
  uplink.wait();
  REQUIRE(arrived.size() == 20);
  for (int i = 0; i < 20; ++i) {
    const auto k = static_cast<std::size_t>(i);
    CHECK(arrived[k] == i);
    CHECK(at[k] >= earliest[k]);
  }
}

TEST_CASE("emulated uplink: what a send throws comes out of wait()") {
  EmulatedUplink uplink({.bandwidth_mbit = 100, .rtt_ms = 1}, 1, 7);
  uplink.wait();  // nothing is held
  uplink.hold(1, 0, 10, [] { throw std::runtime_error("the peer is gone"); });
  CHECK_THROWS_WITH_AS(uplink.wait(), "the peer is gone", std::runtime_error);
}

TEST_CASE("emulated uplink: what is still held back when it ends is not sent") {
  bool sent = false;
  {
    EmulatedUplink uplink({.bandwidth_mbit = 100, .rtt_ms = 60'000}, 1, 7);
    uplink.hold(1, 0, 10, [&] { sent = true; });
  }
  CHECK_FALSE(sent);
}

}  // namespace
}  // namespace atl::link
