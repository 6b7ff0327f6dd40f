#include "comm/in_process.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "support/sites.h"

using namespace atl;

namespace {

void put(Exchange& site, int slot, std::vector<float> values) {
  std::memcpy(site.payload(slot).data(), values.data(), values.size() * sizeof(float));
}

std::vector<float> values_of(const Answer& answer) { return {answer.mean.begin(), answer.mean.end()}; }

}  // namespace

TEST_CASE("in process: lockstep in one thread; tokens weigh") {
  InProcessHub hub({.sites = 2, .slots = {{2}}});
  put(hub.site(0), 0, {1, 2});
  put(hub.site(1), 0, {3, -6});
  hub.site(0).send({.slot = 0, .tokens = 1});
  hub.site(1).send({.slot = 0, .tokens = 3});
  for (int r = 0; r < 2; ++r) {
    const Answer answer = hub.site(r).wait(0);
    CHECK(values_of(answer) == std::vector<float>{2.5F, -4.0F});
    CHECK(answer.tokens == 4);
    CHECK(answer.number == 1);
    CHECK(answer.payload_bytes == 8);
    CHECK(answer.header_bytes == 128);
    hub.site(r).finish();
  }
  CHECK(hub.site(0).totals().exchanges == 1);
}

TEST_CASE("in process: four threads, two slots in flight, 50 rounds") {
  InProcessHub hub({.sites = 4, .slots = {{3}, {1}}});
  run_sites(4, [&](int rank) {
    InProcess& site = hub.site(rank);
    for (int round = 0; round < 50; ++round) {
      const float x = static_cast<float>(rank + round);
      put(site, 0, {x, 2 * x, -x});
      site.send({.slot = 0, .round = static_cast<std::uint32_t>(round)});
      put(site, 1, {x * x});
      site.send({.slot = 1, .round = static_cast<std::uint32_t>(round)});
      const float mean = static_cast<float>(round) + 1.5F;  // of rank + round over ranks 0 to 3
      const float square = static_cast<float>(round * round + 3 * round) + 3.5F;
      if (values_of(site.wait(0)) != std::vector<float>{mean, 2 * mean, -mean}) throw Bug("slot 0");
      if (values_of(site.wait(1)) != std::vector<float>{square}) throw Bug("slot 1");
    }
  });
}

TEST_CASE("in process: a site that does not send is named after the timeout, at the others") {
  InProcessHub hub({.sites = 3, .slots = {{1}}, .timeout = std::chrono::milliseconds(50)});
  put(hub.site(0), 0, {1});
  hub.site(0).send({.slot = 0});
  put(hub.site(1), 0, {1});
  hub.site(1).send({.slot = 0});
  CHECK_THROWS_WITH_AS(hub.site(0).wait(0),
                       doctest::Contains("exchange 1 (slot 0): no payload from site 2 of 3 for 0.05 s"), LinkError);
}

TEST_CASE("in process: what is not finite is applied nowhere, and named everywhere") {
  InProcessHub hub({.sites = 2, .slots = {{1}}, .names = {"oslo", "rome"}});
  put(hub.site(0), 0, {1});
  put(hub.site(1), 0, {NAN});
  hub.site(0).send({.slot = 0, .round = 4, .step = 120});
  hub.site(1).send({.slot = 0, .round = 4, .step = 120, .finite = false});
  for (int r = 0; r < 2; ++r)
    CHECK_THROWS_WITH_AS(hub.site(r).wait(0),
                         doctest::Contains("the payload of rome (round 4, step 120) holds a NaN or an infinity"),
                         ConfigError);
}

TEST_CASE("in process: parameters that have drifted apart are found in the round in which it happens") {
  InProcessHub hub({.sites = 2, .slots = {{1}}});
  for (int r = 0; r < 2; ++r) {
    put(hub.site(r), 0, {1});
    hub.site(r).send({.slot = 0, .global_hash = {0, static_cast<std::uint64_t>(r)}});
  }
  for (int r = 0; r < 2; ++r)
    CHECK_THROWS_WITH_AS(hub.site(r).wait(0), doctest::Contains("hash of the shared parameters"), LinkError);
}

TEST_CASE("in process: a slot in flight twice, or waited for without being sent, is a bug") {
  InProcessHub hub({.sites = 1, .slots = {{1}}});
  CHECK_THROWS_AS(hub.site(0).wait(0), Bug);
  hub.site(0).send({.slot = 0});
  CHECK_THROWS_WITH_AS(hub.site(0).send({.slot = 0}), doctest::Contains("slot 0 is in flight already"), Bug);
}
