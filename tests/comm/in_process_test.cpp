#include "comm/in_process.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "comm/average.h"
#include "support/faulty_exchange.h"
#include "support/sites.h"
#include "support/values.h"

using namespace atl;

namespace {

void put(Exchange& site, int slot, std::vector<float> values) {
  std::memcpy(site.payload(slot).data(), values.data(), values.size() * sizeof(float));
}

// Every site, on one thread: its values, all equal, and then `out` with its own tokens.
void send_all(InProcessHub& hub, std::vector<float> values, const Outgoing& out, std::vector<std::uint64_t> tokens) {
  for (std::size_t r = 0; r < values.size(); ++r) {
    InProcess& site = hub.site(static_cast<int>(r));
    put(site, out.slot, std::vector<float>(site.payload(out.slot).size() / sizeof(float), values[r]));
    Outgoing own = out;
    own.tokens = tokens[r];
    site.send(own);
  }
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

TEST_CASE("in process: the mean and the bytes are those of comm/average.h, for every number of sites and codec") {
  for (const std::string& codec_name : codec_names())
    for (const std::string& mean_name : codec_names())
      for (int sites = 1; sites <= 5; ++sites)
        for (const std::size_t n : {0U, 1U, 1'000U, 5'001U}) {
          InProcessHub hub(
              {.sites = sites, .slots = {{n}}, .codec = {.name = codec_name}, .mean_codec = {.name = mean_name}});
          const auto codec = make_codec(codec_name), mean_codec = make_codec(mean_name);
          std::vector<std::span<const std::byte>> payloads;
          std::vector<std::uint64_t> weights;
          for (int r = 0; r < sites; ++r) {
            codec->encode(normal_values(n, static_cast<std::uint32_t>(r)), {}, hub.site(r).payload(0));
            payloads.push_back(hub.site(r).payload(0));
            weights.push_back(static_cast<std::uint64_t>(50 + r));
            hub.site(r).send({.slot = 0, .tokens = weights.back()});
          }
          std::vector<float> want(n);
          exchange_mean(payloads, weights, *codec, *mean_codec, want);
          CAPTURE(codec_name);
          CAPTURE(mean_name);
          CAPTURE(sites);
          CAPTURE(n);
          for (int r = 0; r < sites; ++r) {
            const Answer answer = hub.site(r).wait(0);
            CHECK(values_of(answer) == want);
            CHECK(answer.payload_bytes == sent_payload_bytes(n, r, sites, *codec, *mean_codec));
            CHECK(answer.header_bytes == 128 * static_cast<std::uint64_t>(sites - 1));
            CHECK(hub.site(r).totals().payload_bytes == answer.payload_bytes);
          }
        }
}

TEST_CASE("in process: a group has the header and the weights of its first exchange, as over links") {
  InProcessHub hub({.sites = 2, .slots = {{2'000}, {2'000}, {1}}});
  send_all(hub, {1, 5}, {.slot = 0}, {1, 3});
  send_all(hub, {1, 5}, {.slot = 1, .first_of_group = false}, {3, 1});  // nobody is told of these
  send_all(hub, {1, 5}, {.slot = 2, .first_of_group = false}, {1, 1});  // inline: its header travels anyway
  for (int r = 0; r < 2; ++r) {
    const Answer first = hub.site(r).wait(0), second = hub.site(r).wait(1), third = hub.site(r).wait(2);
    CHECK(first.mean[1'999] == 4.0F);  // (1 + 15) / 4
    CHECK(second.mean[1'999] == 4.0F);
    CHECK(second.tokens == 4);
    CHECK(third.mean[0] == 3.0F);
    CHECK(first.header_bytes == 128);
    CHECK(second.header_bytes == 0);
    CHECK(third.header_bytes == 128);
    CHECK(hub.site(r).totals().header_bytes == 256);
  }
}

TEST_CASE("in process: answers hold until the slot is sent again, while others run ahead") {
  InProcessHub hub({.sites = 2, .slots = {{1}}});
  send_all(hub, {1, 3}, {.slot = 0}, {1, 1});
  const Answer at_0 = hub.site(0).wait(0);
  put(hub.site(0), 0, {100});
  hub.site(0).send({.slot = 0, .round = 1});  // site 1 has not taken its answer yet
  const Answer at_1 = hub.site(1).wait(0);
  CHECK(at_0.number == 1);
  CHECK(at_1.mean[0] == 2.0F);
  put(hub.site(1), 0, {200});
  CHECK(at_1.mean[0] == 2.0F);
  hub.site(1).send({.slot = 0, .round = 1});
  for (int r = 0; r < 2; ++r) CHECK(hub.site(r).wait(0).mean[0] == 150.0F);
}

TEST_CASE("in process: sites at different slots, rounds or sizes of step are told apart by name") {
  InProcessHub hub({.sites = 3, .slots = {{1}, {1}}, .names = {"oslo", "rome", "bonn"}});
  for (int r = 0; r < 3; ++r) hub.site(r).send({.slot = r == 2 ? 1 : 0});
  for (int r = 0; r < 3; ++r)
    CHECK_THROWS_WITH_AS(hub.site(r).wait(r == 2 ? 1 : 0),
                         doctest::Contains("exchange 1: slot is 0 at oslo, but 1 at bonn"), LinkError);
  for (int r = 0; r < 3; ++r) hub.site(r).send({.slot = 0, .round = r == 1 ? 8U : 7U});
  for (int r = 0; r < 3; ++r)
    CHECK_THROWS_WITH_AS(hub.site(r).wait(0), doctest::Contains("exchange 2: round is 7 at oslo, but 8 at rome"),
                         LinkError);
}

TEST_CASE("in process: a weight of 0 is the sender's bug, and the others are not answered") {
  InProcessHub hub({.sites = 2, .slots = {{1}}, .timeout = std::chrono::milliseconds(20)});
  hub.site(0).send({.slot = 0});
  CHECK_THROWS_WITH_AS(hub.site(1).send({.slot = 0, .tokens = 0}), doctest::Contains("0 tokens"), Bug);
  CHECK_THROWS_AS(hub.site(0).wait(0), LinkError);
}

TEST_CASE("in process: wrong slots, wrong names and a finish with something in flight are bugs") {
  InProcessHub hub({.sites = 1, .slots = {{1}}});
  CHECK_THROWS_WITH_AS(hub.site(0).payload(1), doctest::Contains("slot 1 of 1"), Bug);
  CHECK_THROWS_AS(hub.site(0).send({.slot = -1}), Bug);
  CHECK_THROWS_AS(hub.site(0).wait(1), Bug);
  CHECK_THROWS_AS(hub.site(1), Bug);
  hub.site(0).send({.slot = 0});
  CHECK_THROWS_WITH_AS(hub.site(0).finish(), doctest::Contains("slot 0 in flight"), Bug);
  CHECK_THROWS_WITH_AS(InProcessHub({.sites = 2, .names = {"oslo"}}), doctest::Contains("1 names, 2 sites"), Bug);
}

TEST_CASE("in process: a site that drops out is named at the others, and nobody applies its exchange") {
  InProcessHub hub({.sites = 3, .slots = {{1}}, .timeout = std::chrono::milliseconds(200)});
  std::vector<int> applied(3);
  std::vector<std::string> errors(3);
  run_sites(3, [&](int rank) {
    FaultyExchange site(hub.site(rank), {.site = 1, .drop_at = 3});
    try {
      for (std::uint32_t round = 1; round <= 5; ++round) {
        put(site, 0, {static_cast<float>(rank)});
        site.send({.slot = 0, .round = round});
        if (site.wait(0).mean[0] != 1.0F) throw Bug("mean");
        ++applied[static_cast<std::size_t>(rank)];
      }
    } catch (const LinkError& e) {
      errors[static_cast<std::size_t>(rank)] = e.what();
    }
  });
  CHECK(applied == std::vector<int>{2, 2, 2});
  CHECK(errors[0] == "exchange 3 (slot 0): no payload from site 1 of 3 for 0.2 s");
  CHECK(errors[2] == errors[0]);
  CHECK(errors[1] == "site 1: dropped out at exchange 3, as the test wants it");
}

TEST_CASE("in process: a NaN and a drift at one of four threads stop all in the round in which they happen") {
  for (const bool drift : {false, true}) {
    InProcessHub hub({.sites = 4, .slots = {{1}}});
    std::vector<std::string> errors(4);
    run_sites(4, [&](int rank) {
      FaultyExchange site(hub.site(rank),
                          drift ? Fault{.site = 2, .drift_at = 4} : Fault{.site = 2, .not_finite_at = 4});
      try {
        for (std::uint32_t round = 1; round <= 5; ++round) {
          put(site, 0, {1});
          site.send({.slot = 0, .round = round});
          site.wait(0);
        }
      } catch (const ConfigError& e) {
        errors[static_cast<std::size_t>(rank)] = e.what();
      } catch (const LinkError& e) {
        errors[static_cast<std::size_t>(rank)] = e.what();
      }
    });
    const char* words = drift ? "exchange 4: hash of the shared parameters and outer state is "
                                "00000000000000000000000000000000 at site 0, but "
                                "00000000000000000000000000000001 at site 2"
                              : "exchange 4: the payload of site 2 (round 4, step 0) holds a NaN or an infinity";
    for (const std::string& error : errors) CHECK(error.find(words) == 0);
  }
}

TEST_CASE("in process: the first failure of a site's thread reaches the test") {
  CHECK_THROWS_WITH_AS(run_sites(3, [](int rank) { ATOLL_CHECK(rank != 1, "rank ", rank); }),
                       doctest::Contains("rank 1"), Bug);
}
