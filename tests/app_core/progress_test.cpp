#include "app/progress.h"

#include <doctest/doctest.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <limits>
#include <thread>

#include "app/units.h"
#include "base/log.h"
#include "support/temp_dir.h"

using namespace atl;
using namespace std::chrono_literals;

namespace {

// A Progress that writes into a string, with a clock that the test moves.
struct Fixture {
  std::string out;
  std::chrono::steady_clock::time_point time{};

  Progress::Options options(Progress::Show show, std::vector<std::string> sites = {"site-0", "paris"}) {
    Progress::Options o;
    o.sites = std::move(sites);
    o.steps = 1000;
    o.tokens_a_step = 256;
    o.show = show;
    o.columns = 100;
    o.rows = 24;
    o.write = [this](const std::string& text) { out += text; };
    o.now = [this] { return time; };
    return o;
  }
  std::string taken() { return std::exchange(out, ""); }
};

}  // namespace

TEST_CASE("progress: on a terminal one line a site, drawn over the ones before") {
  Fixture f;
  Progress progress(f.options(Progress::Show::live));
  progress.step(0, 1, 5.5);
  CHECK(f.taken() == "");  // not yet
  f.time += 1s;
  progress.round(1, 3);
  CHECK(f.taken() ==
        "site-0  1/1000    0%  loss 5.500  256 tok/s  ETA 16m39s\x1b[K\n"
        "paris   0/1000    0%  loss 0.000  0 tok/s  round 3\x1b[K\n");
  progress.step(0, 500, 4.5);
  f.time += 1s;
  progress.state(0, "waiting for round 4");
  const std::string second = f.taken();
  CHECK(second.starts_with("\x1b[2Fsite-0  500/1000   50%  loss 5.400  "));
  CHECK(second.find("  waiting for round 4\x1b[K\n") != std::string::npos);
}

TEST_CASE("progress: at most 5 times a second on a terminal, once in a few seconds elsewhere") {
  for (const auto& [show, draws] : {std::pair{Progress::Show::live, 50U}, {Progress::Show::plain, 2U}}) {
    Fixture f;
    Progress progress(f.options(show, {"a"}));
    unsigned writes = 0;
    for (int i = 1; i <= 1000; ++i) {  // 10 s
      f.time += 10ms;
      progress.step(0, static_cast<unsigned>(i), 1.0);
      if (!f.taken().empty()) ++writes;
    }
    CHECK(writes == draws);
  }
}

TEST_CASE("progress: rate and time left come from the last seconds") {
  Fixture f;
  Progress progress(f.options(Progress::Show::plain, {"a"}));
  for (unsigned i = 1; i <= 500; ++i) {  // 10 steps a second
    f.time += 100ms;
    progress.step(0, i, 1.0);
  }
  f.taken();
  progress.finish();
  CHECK(f.taken() == "step 500/1000  50%  loss 1.000  2.56k tok/s  ETA 50s\n");
}

TEST_CASE("progress: plain lines speak for all sites together") {
  Fixture f;
  Progress progress(f.options(Progress::Show::plain));
  progress.step(0, 20, 2.0);
  progress.step(1, 10, 4.0);
  progress.round(0, 2);
  f.time += 5s;
  progress.round(1, 1);
  CHECK(f.taken() == "step 10/1000  1%  loss 3.000  1.54k tok/s  ETA 8m15s  round 2\n");  // (20 + 10) / 5 s * 256
  progress.evaluated(10, 2, 2.5);
  CHECK(f.taken() == "step 10  round 2  held-out loss 2.5000\n");
}

TEST_CASE("progress: a line never wraps, and more sites than the terminal has rows are counted") {
  Fixture f;
  auto options = f.options(Progress::Show::live, {"a", "b", "c", "d", "e", "f"});
  options.columns = 20;
  options.rows = 5;
  Progress progress(std::move(options));
  f.time += 1s;
  progress.step(0, 1, 1.0);
  const std::string out = f.taken();
  CHECK(out.starts_with("a  1/1000    0%  lo\x1b[K\n"));  // 19 columns
  CHECK(out.ends_with("... and 4 more sites\x1b[K\n"));
}

TEST_CASE("progress: an evaluation stays above the live lines") {
  Fixture f;
  Progress progress(f.options(Progress::Show::live, {"a"}));
  f.time += 1s;
  progress.step(0, 1, 1.0);
  f.taken();
  progress.evaluated(1, 1, 2.0);
  CHECK(f.taken().starts_with("\x1b[1F\x1b[Jstep 1  round 1  held-out loss 2.0000\na  1/1000"));
}

TEST_CASE("progress: with live lines the log keeps to its file below a warning, and a warning clears the lines first") {
  const TempDir dir;
  const auto before = spdlog::default_logger();
  init_log("info", "s0", dir / "log");
  Fixture f;
  {
    Progress progress(f.options(Progress::Show::live, {"a"}));
    f.time += 1s;
    progress.step(0, 1, 1.0);
    f.taken();
    spdlog::info("round=1");
    CHECK(f.taken() == "");
    CHECK(slurp(dir / "log").find("round=1") != std::string::npos);
    CHECK(spdlog::default_logger()->sinks().size() == 3);
  }
  CHECK(spdlog::default_logger()->sinks().size() == 2);
  CHECK(spdlog::default_logger()->sinks()[0]->level() == spdlog::level::trace);
  spdlog::set_default_logger(before);
}

TEST_CASE("progress: nothing when it was asked to be quiet") {
  Fixture f;
  {
    Progress progress(f.options(Progress::Show::nothing));
    f.time += 100s;
    progress.step(0, 1, 1.0);
    progress.evaluated(1, 1, 1.0);
  }
  CHECK(f.taken() == "");
}

TEST_CASE("progress: a loss that was no number does not stay in the mean") {
  Fixture f;
  Progress progress(f.options(Progress::Show::plain, {"a"}));
  progress.step(0, 1, std::numeric_limits<double>::quiet_NaN());
  progress.step(0, 2, 3.0);
  f.time += 5s;
  progress.step(0, 3, 3.0);
  CHECK(f.taken().find("loss 3.000") != std::string::npos);
}

TEST_CASE("progress: follows the lines that the sites of launch write, whole lines only") {
  const TempDir dir;
  Fixture f;
  Progress progress(f.options(Progress::Show::plain));
  progress.follow(dir.path());  // nothing there yet
  spill(dir / "steps.jsonl", to_json(StepRecord{.site = 0, .step = 5, .loss = 2}) + "\n" +
                                 to_json(StepRecord{.site = 1, .step = 4, .loss = 4}) + "\nbroken\n{\"site\":1,\"st");
  RoundRecord round{.site = 0, .round = 7, .step = 4};
  round.eval_loss = 1.25;
  spill(dir / "rounds.jsonl", to_json(round) + "\n");
  progress.follow(dir.path());
  CHECK(f.taken() == "step 4  round 7  held-out loss 1.2500\n");
  f.time += 5s;
  spill(dir / "steps.jsonl", slurp(dir / "steps.jsonl") + "ep\":6,\"loss\":4}\n");
  progress.follow(dir.path());
  CHECK(f.taken().starts_with("step 5/1000  0%  loss 3.000"));  // site 1 is at 6 now
}

TEST_CASE("progress: threads may report at once") {
  Fixture f;
  Progress progress(f.options(Progress::Show::live));
  std::vector<std::thread> threads;
  for (int site = 0; site < 2; ++site)
    threads.emplace_back([&progress, site] {
      for (unsigned i = 1; i <= 2000; ++i) progress.step(site, i, 1.0);
    });
  for (std::thread& thread : threads) thread.join();
  progress.finish();
  CHECK(f.taken().find("paris   2000/1000") != std::string::npos);
}

TEST_CASE("units: three figures, also where the prefix changes") {
  CHECK(short_count(0) == "0");
  CHECK(short_count(999) == "999");
  CHECK(short_count(999.6) == "1.00k");
  CHECK(short_count(14000) == "14.0k");
  CHECK(short_count(99949) == "99.9k");
  CHECK(short_count(999600) == "1.00M");
  CHECK(short_bytes(93120000) == "93.1 MB");
  CHECK(short_bytes(512) == "512 B");
  CHECK(short_duration(0.416) == "0.42s");
  CHECK(short_duration(59.4) == "59s");
  CHECK(short_duration(59.6) == "1m00s");
  CHECK(short_duration(100) == "1m40s");
  CHECK(short_duration(7500) == "2h05m");
  CHECK(short_duration(3.2 * 86400) == "3d04h");
  CHECK(short_duration(std::numeric_limits<double>::infinity()) == "?");
}
