// simulate, launch and train give the same Θ, bit for bit; and what is promised of M equal sites and of DDP.
#include "runs.h"

#include <cmath>

#include "base/error.h"

using namespace atl;

namespace {

using Sets = std::vector<std::string>;

Sets joined(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("runs: simulate, launch and train end with the same parameters, for 1 to 4 sites") {
  const Workshop shop;
  struct Variant {
    std::string name;
    Sets sets;
  };
  const std::vector<Variant> variants{{"diloco", {"run.method=diloco", kFive}},
                                      {"ddp", {"run.method=ddp", "comm.bucket_mib=0.01"}},
                                      {"streaming",
                                       {"run.method=diloco", "outer.period=6", "outer.fragments=3", "outer.delay=2",
                                        "outer.mix=0.5", "comm.codec=bf16", "run.steps=22"}}};
  for (const Variant& variant : variants) {
    for (int sites = 1; sites <= 4; ++sites) {
      CAPTURE(variant.name);
      CAPTURE(sites);
      const Sets sets = joined(variant.sets, {"sites.count=" + std::to_string(sites)});
      const std::string name = variant.name + std::to_string(sites);
      Program simulate = shop.start("simulate", name + "s", sets);
      REQUIRE_MESSAGE(simulate.wait() == 0, simulate.output());
      Program launch = shop.start("launch", name + "l", sets);
      REQUIRE_MESSAGE(launch.wait() == 0, launch.output());
      const std::string hash = shop.summary(name + "s").global_hash;
      CHECK(hash.size() == 32);
      CHECK(shop.summary(name + "l").global_hash == hash);
      CHECK(shop.summary(name + "l").eval_loss == shop.summary(name + "s").eval_loss);
      CHECK(shop.summary(name + "l").payload_bytes_per_site == shop.summary(name + "s").payload_bytes_per_site);

      std::vector<Program> trainers;
      for (int m = 0; m < sites; ++m)
        trainers.push_back(shop.train("site-" + std::to_string(m), name + "t", sites, variant.sets));
      for (int m = 0; m < sites; ++m) {
        REQUIRE_MESSAGE(trainers[static_cast<std::size_t>(m)].wait() == 0,
                        trainers[static_cast<std::size_t>(m)].output());
        CHECK(shop.summary(name + "t-site-" + std::to_string(m)).global_hash == hash);
      }
    }
  }
}

TEST_CASE(
    "runs: every method and codec gives the same parameters in simulate and launch, and the bytes that plan says") {
  const Workshop shop;
  const std::vector<Sets> variants{
      {"run.method=streaming", "outer.period=6", "sites.count=3"},
      {"run.method=eager", kFive, "sites.count=2"},
      {"run.method=delayed", kFive, "outer.fragments=5", "outer.fragment_by=bytes", "sites.count=3"},
      {"run.method=delay_corrected", "outer.period=10", "outer.delay=3", "sites.count=2"},
      {"run.method=slowmo", kFive, "sites.count=2"},
      {"run.method=post_local_sgd", kFive, "outer.ddp_steps=7", "comm.bucket_mib=0.01", "sites.count=3"},
      {"run.method=sparseloco", kFive, "comm.codec_keep=200", "sites.count=3"},
      {"run.method=muloco", kFive, "sites.count=2"},
      {"run.method=diloco", kFive, "outer.clusters=2", "outer.global_every=2", "sites.count=4"},
      {"run.method=diloco", kFive, "comm.codec=stat4", "comm.error_feedback=0.9", "comm.mean_codec=bf16",
       "sites.count=3"},
      {"run.method=diloco", kFive, "outer.optimizer=adam", "outer.lr=0.01", "comm.codec=int8", "sites.count=2"}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string name = text("v", i);
    CAPTURE(variants[i].front());
    CAPTURE(i);
    Program simulate = shop.start("simulate", name + "s", variants[i]);
    REQUIRE_MESSAGE(simulate.wait() == 0, simulate.output());
    Program launch = shop.start("launch", name + "l", variants[i]);
    REQUIRE_MESSAGE(launch.wait() == 0, launch.output());
    const Summary s = shop.summary(name + "s"), l = shop.summary(name + "l");
    CHECK(l.global_hash == s.global_hash);
    CHECK(l.payload_bytes_per_site == s.payload_bytes_per_site);
    CHECK(l.header_bytes_per_site == s.header_bytes_per_site);
    CHECK(l.utilisation > 0);
    CHECK(l.utilisation <= 1);
    CHECK(l.received_bytes_per_site >= l.payload_bytes_per_site);
    Program plan(kAtoll,
                 {"plan", (shop / (name + "l") / "config.toml").string(), "--run", (shop / (name + "l")).string(),
                  "--step-seconds", "0.01", "--mbit", "100"},
                 shop / (name + ".plan"));
    REQUIRE_MESSAGE(plan.wait() == 0, plan.output());
    // "payload bytes a site    1.2 kB    1.2 kB": rank 0's beside the mean of all, which differ by a chunk's block at most
    CHECK(plan.output().find("payload bytes a site") != std::string::npos);
    if (variants[i].back() == "sites.count=2" || variants[i].front() == "run.method=sparseloco") {
      const std::string text = plan.output(), line = text.substr(text.find("payload bytes a site"), 80);
      const std::string planned = line.substr(42, 14);
      CHECK(line.find(planned.substr(0, planned.find("  ")), 58) != std::string::npos);
    }
  }
}

TEST_CASE("runs: 2, 3 and 4 sites on the same data equal one site, bit for bit") {
  const Workshop shop;
  for (const std::string method : {"diloco", "ddp"}) {
    const Sets outer = method == "ddp" ? Sets{} : Sets{kFive};
    std::string one;
    for (int sites = 1; sites <= 4; ++sites) {
      CAPTURE(method);
      CAPTURE(sites);
      const std::string name = method + std::to_string(sites);
      Program run =
          shop.start(sites == 3 ? "launch" : "simulate", name,
                     joined(outer, {"run.method=" + method, "data.deal=same", "sites.count=" + std::to_string(sites),
                                    "inner.batch=" + std::to_string(3 * sites)}));
      REQUIRE_MESSAGE(run.wait() == 0, run.output());
      const std::string hash = shop.summary(name).global_hash;
      if (sites == 1) one = hash;
      CHECK(hash == one);
    }
  }
}

TEST_CASE("runs: H = 1 with SGD inside and plain averaging outside is DDP with SGD, to rounding") {
  const Workshop shop;
  const Sets sgd{"sites.count=2", "run.steps=200",           "inner.optimizer=sgd", "inner.lr=0.05",
                 "inner.clip=0",  "inner.schedule=constant", "eval.windows=0"};
  Program ddp = shop.start("simulate", "ddp", joined(sgd, {"run.method=ddp"}));
  Program local = shop.start("simulate", "local",
                             joined(sgd, {"run.method=diloco", "outer.period=1", "outer.optimizer=sgd", "outer.lr=1"}));
  REQUIRE_MESSAGE(ddp.wait() == 0, ddp.output());
  REQUIRE_MESSAGE(local.wait() == 0, local.output());
  // 200 steps of fp32 rounding (2^-24 each) through a map that is no contraction: far below what a wrong mean would do.
  CHECK(std::abs(*shop.summary("ddp").eval_loss - *shop.summary("local").eval_loss) < 1e-4);
}

TEST_CASE("runs: the run folder holds what the README says, and a run is not replaced without being told") {
  const Workshop shop;
  Program first = shop.start("simulate", "run", {kFive});
  REQUIRE_MESSAGE(first.wait() == 0, first.output());
  for (const char* file : {"config.toml", "log", "steps.jsonl", "rounds.jsonl", "summary.json", "model.safetensors"}) {
    CAPTURE(file);
    CHECK(std::filesystem::file_size(shop / "run" / file) > 0);
  }
  const Summary s = shop.summary("run");
  CHECK(s.status == RunStatus::finished);
  CHECK(s.inner_steps == 20);
  CHECK(s.rounds == 4);
  CHECK(s.tokens == 20 * 12 * 16);
  CHECK(read_steps(shop / "run" / "steps.jsonl").size() == 20 * 4);
  CHECK(read_rounds(shop / "run" / "rounds.jsonl").size() == 4 * 4);
  Program again = shop.start("simulate", "run", {kFive});
  CHECK(again.wait() == 2);
  CHECK(again.output().find("--overwrite") != std::string::npos);
  // The resolved settings give the same run again.
  Program same(kAtoll,
               {"simulate", (shop / "run" / "config.toml").string(), "--out", (shop / "same").string(), "--quiet"},
               shop / "same.out");
  REQUIRE_MESSAGE(same.wait() == 0, same.output());
  CHECK(shop.summary("same").global_hash == s.global_hash);
}

TEST_CASE("runs: the modelled clock of simulate") {
  const Workshop shop;
  Program run =
      shop.start("simulate", "clock",
                 {kFive, "sites.count=2", "clock.step_seconds=0.1", "clock.bandwidth_mbit=1", "clock.rtt_ms=100"});
  REQUIRE_MESSAGE(run.wait() == 0, run.output());
  const Summary s = shop.summary("clock");
  REQUIRE(s.modelled.has_value());
  // 20 steps of 0.1 s, and 4 rounds of 128 bytes of header and 4 n of payload at 1 Mbit/s, and rtt/2
  const double want = 20 * 0.1 + 4 * (8 * (128 + 4.0 * static_cast<double>(s.params)) / 1e6 + 0.05);
  CHECK(std::abs(s.modelled->seconds - want) < 1e-9);
  CHECK(std::abs(s.modelled->utilisation - 2.0 / want) < 1e-9);
}
