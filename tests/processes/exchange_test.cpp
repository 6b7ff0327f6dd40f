// Exchanges over real links, without faults: the same bits as comm/in_process.h, for every number of sites, codec and size.
#include <cstring>
#include <optional>

#include "comm/in_process.h"
#include "processes/sites.h"

using namespace atl;

namespace {

// Every site: `count` exchanges with as many in flight as there are slots, then finish.  Compares with an in-process hub's means.
void agrees_with_in_process(const Plan& plan, std::uint64_t count) {
  const TempDir folder;
  Means means(plan);
  std::vector<SlotSpec> specs;
  for (const std::size_t n : plan.slots) specs.push_back({n});
  InProcessHub hub({.sites = plan.sites,
                    .slots = specs,
                    .codec = {.name = plan.codec},
                    .mean_codec = {.name = plan.mean_codec},
                    .clusters = plan.clusters});
  const auto outcomes = run_sites(plan.sites, [&](int rank) {
    LinkClient link(link_config(plan, rank, folder / "store"));
    InProcess& reference = hub.site(rank);
    const std::uint64_t depth = plan.slots.size();
    const auto take = [&](std::uint64_t k) {
      const Answer got = take_exchange(link, means, plan, k);
      const Answer want = reference.wait(plan.slot_of(k));
      if (got.mean.size() != want.mean.size() ||
          (!want.mean.empty() && std::memcmp(got.mean.data(), want.mean.data(), want.mean.size_bytes()) != 0))
        throw std::runtime_error(text("exchange ", k, " is not what the in-process exchange gives"));
      if (got.tokens != want.tokens || got.sites != want.sites || got.payload_bytes != want.payload_bytes)
        throw std::runtime_error(text("exchange ", k, ": tokens ", got.tokens, " and ", want.tokens, ", payload bytes ",
                                      got.payload_bytes, " and ", want.payload_bytes));
    };
    for (std::uint64_t k = 1; k <= count; ++k) {
      if (k > depth) take(k - depth);
      means.payload(rank, k, link.payload(plan.slot_of(k)));
      means.payload(rank, k, reference.payload(plan.slot_of(k)));
      link.send(plan.outgoing(rank, k, k == count));
      reference.send(plan.outgoing(rank, k, k == count));
    }
    for (std::uint64_t k = count > depth ? count - depth + 1 : 1; k <= count; ++k) take(k);
    link.finish();
    const ExchangeTotals totals = link.totals();
    if (totals.exchanges != count || totals.generations != 1)
      throw std::runtime_error(text(totals.exchanges, " exchanges in ", totals.generations, " generations"));
    if (plan.sites > 1 && totals.wire_bytes < totals.payload_bytes + totals.header_bytes)
      throw std::runtime_error(text("wire ", totals.wire_bytes, " is less than payload ", totals.payload_bytes,
                                    " and headers ", totals.header_bytes));
  });
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome);
    CHECK(outcome.ok());
  }
}

}  // namespace

TEST_CASE("exchange: sizes around every limit give the bits of the in-process exchange") {
  for (const int sites : {1, 2, 3, 4})
    for (const char* codec : {"fp32", "bf16"}) {
      CAPTURE(sites);
      CAPTURE(codec);
      const auto m = static_cast<std::size_t>(sites);
      // 0, 1, fewer than sites, not multiples, the 4096 bytes that travel with a header (fp32: 1024, bf16: 2048 values), pieces of 64 KiB
      const Plan plan{
          .sites = sites,
          .slots = {0, 1, m - 1, m, m + 1, 1023, 1024, 1025, 2047, 2048, 2049, 16'383, 16'384, 16'385, 100'003},
          .codec = codec,
          .mean_codec = codec,
          .piece_bytes = 64U << 10U};
      agrees_with_in_process(plan, 3 * plan.slots.size());
    }
}

TEST_CASE("exchange: payloads of bf16 and means of fp32, and the other way round") {
  for (const int sites : {2, 3})
    for (const bool wide : {false, true}) {
      CAPTURE(sites);
      CAPTURE(wide);
      const Plan plan{.sites = sites,
                      .slots = {5, 50'001},
                      .codec = wide ? "fp32" : "bf16",
                      .mean_codec = wide ? "bf16" : "fp32",
                      .piece_bytes = 32U << 10U};
      agrees_with_in_process(plan, 6);
    }
}

TEST_CASE("exchange: megabytes in small pieces over many streams") {
  for (const int sites : {2, 3, 4}) {
    CAPTURE(sites);
    agrees_with_in_process({.sites = sites, .slots = {1'500'001}, .streams = 4, .piece_bytes = 100'000}, 4);
  }
}

TEST_CASE("exchange: one stream, pieces of one value, equal tokens") {
  agrees_with_in_process(
      {.sites = 2, .slots = {1500}, .streams = 1, .piece_bytes = 4, .equal_tokens = true, .congestion = "reno"}, 3);
  agrees_with_in_process({.sites = 3, .slots = {1500}, .streams = 1, .piece_bytes = 1, .equal_tokens = true}, 3);
}

TEST_CASE("exchange: groups with one header, buckets of different sizes in flight together") {
  for (const int sites : {1, 2, 3, 4}) {
    CAPTURE(sites);
    agrees_with_in_process({.sites = sites, .slots = {70'000, 30'000, 5000, 10}, .group = 4}, 40);
  }
}

TEST_CASE("exchange: within clusters, and of all sites in between") {
  for (const auto& [sites, clusters] : {std::pair{2, 2}, {4, 2}, {4, 4}, {6, 2}})
    for (const char* codec : {"fp32", "bf16"}) {
      CAPTURE(sites);
      CAPTURE(clusters);
      CAPTURE(codec);
      agrees_with_in_process({.sites = sites,
                              .slots = {20'000, 300, 40'000, 400'001},
                              .codec = codec,
                              .mean_codec = codec,
                              .piece_bytes = 100'000,
                              .clusters = clusters},
                             24);
    }
}

TEST_CASE("exchange: an emulated network takes its time, and changes no bit") {
  for (const int sites : {2, 3}) {
    CAPTURE(sites);
    const double start = steady_seconds();
    agrees_with_in_process({.sites = sites,
                            .slots = {100, 60'000, 300'000},
                            .piece_bytes = 100'000,
                            .emulate = {.bandwidth_mbit = 200, .rtt_ms = 30, .jitter_ms = 2, .loss_percent = 0.001}},
                           9);
    // 3 rounds of 1.44 MB (2 sites; more: 4/3 of it) at 200 Mbit/s, and of 3 exchanges with half a round trip each
    CHECK(steady_seconds() - start > 3 * 1.44e6 * 8 / 200e6 + 9 * 0.015);
  }
}

TEST_CASE("exchange: the next slot need not be known") {
  for (const int sites : {2, 3}) {
    CAPTURE(sites);
    agrees_with_in_process({.sites = sites, .slots = {20'000, 300, 40'000}, .promise = false}, 12);
    agrees_with_in_process({.sites = sites, .slots = {20'000, 300, 40'000}, .group = 3, .promise = false}, 12);
  }
}

TEST_CASE("exchange: a second run in the same store folder works, beside what the first one left") {
  const TempDir folder;
  const Plan plan{.sites = 2, .slots = {3000}};
  for (int run = 0; run < 3; ++run) {
    CAPTURE(run);
    Means means(plan);
    const auto outcomes = run_sites(plan.sites, [&](int rank) {
      LinkClient link(link_config(plan, rank, folder / "store"));
      run_exchanges(link, means, plan, 1, 3);
      if (run != 1) link.finish();  // the second run ends without
    });
    for (const Outcome& outcome : outcomes) {
      CAPTURE(outcome);
      CHECK(outcome.ok());
    }
  }
}
