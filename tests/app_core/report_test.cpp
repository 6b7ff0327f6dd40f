#include "app/report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

namespace {

namespace fs = std::filesystem;

struct Made {
  std::string method = "diloco";
  double eval_loss = 2.0;
  std::uint64_t wire_bytes = 1000;
  std::optional<RunStatus> status = RunStatus::finished;
  std::string error = {}, data_hash = "d1";
  std::uint64_t steps = 100;
};

// A run of 2 sites and 100 planned steps of 1024 tokens that wrote what a run writes; a round every 10 steps.
fs::path make_run(const fs::path& folder, const Made& made) {
  RunOptions options;
  options.out = folder;
  options.overwrite = true;
  RunFolder run(parse_config("[run]\nsteps = 100\n[sites]\ncount = 2\n", "t", {"run.method=" + made.method}), options);
  RoundRecord round;
  for (std::uint64_t t = 1; t <= made.steps; ++t) {
    for (int site = 0; site < 2; ++site)
      run.write(StepRecord{
          .site = site, .step = t, .loss = 4.0 + site, .tokens = t * 512, .seconds = 0.5 * static_cast<double>(t)});
    if (t % 10 != 0) continue;
    round = {.site = 0,
             .round = t / 10,
             .step = t,
             .tokens = t * 1024,
             .seconds = 0.5 * static_cast<double>(t),
             .payload_bytes_total = made.wire_bytes * t / 200,
             .wire_bytes_total = made.wire_bytes * t / 100,
             .wait_s = 0.1};
    if (t == 50) round.eval_loss = 3.0;
    run.write(round);
  }
  if (made.status) {
    Summary s{.name = folder.filename(),
              .method = made.method,
              .status = *made.status,
              .error = made.error,
              .sites = 2,
              .params = 119872,
              .tokens = made.steps * 1024,
              .inner_steps = made.steps,
              .rounds = made.steps / 10};
    if (std::isfinite(made.eval_loss)) s.eval_loss = made.eval_loss;
    s.eval_windows = 512;
    s.data_hash = made.data_hash;
    s.payload_bytes_per_site = made.wire_bytes / 2;
    s.header_bytes_per_site = 7;
    s.wire_bytes_per_site = made.wire_bytes;
    s.seconds = 50;
    s.tokens_per_s = 2048;
    s.exchange_wait_s = 1;
    run.write(s);
  }
  return folder;
}

// The JSON that the page's script draws.
std::string data_text_of(const std::string& html) {
  const std::string open = "<script id=\"data\" type=\"application/json\">";
  const auto begin = html.find(open) + open.size();
  return html.substr(begin, html.find("</script>", begin) - begin);
}
nlohmann::json data_of(const std::string& html) { return nlohmann::json::parse(data_text_of(html)); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("report: runs are compared with the first finished ddp run, loss in percent and bytes as a ratio") {
  const TempDir dir;
  const auto runs =
      load_runs({make_run(dir / "q" / "failed-ddp", {.method = "ddp", .eval_loss = 1.0, .status = RunStatus::failed}),
                 make_run(dir / "q" / "diloco", {.eval_loss = 2.02, .wire_bytes = 40'000}),
                 make_run(dir / "q" / "ddp", {.method = "ddp", .eval_loss = 2.0, .wire_bytes = 1'200'000})});
  CHECK(baseline_of(runs) == 2);
  CHECK(report_table(runs) ==
        "run         method  status                     sites   H  params  tokens  held-out loss   vs ddp  bytes/site  "
        "fewer  time  tok/s   wait  computing\n"
        "failed-ddp  ddp     failed at step 100 of 100      2   -    120k    102k         1.0000        -     1.00 kB  "
        "    -   50s  2.05k  1.00s          -\n"
        "diloco      diloco  finished                       2  30    120k    102k         2.0200  +1.00 %     40.0 kB  "
        "30.0x   50s  2.05k  1.00s          -\n"
        "ddp         ddp     finished                       2   -    120k    102k         2.0000        -     1.20 MB  "
        "    -   50s  2.05k  1.00s          -\n");
}

TEST_CASE("report: what failed, broke off or does not compare is said") {
  const TempDir dir;
  auto failed =
      make_run(dir / "failed", {.status = RunStatus::failed, .error = "site-1, step 7: the loss is nan", .steps = 7});
  auto broken = make_run(dir / "broken", {.status = std::nullopt, .steps = 55});
  spill(broken / "rounds.jsonl", slurp(broken / "rounds.jsonl") + "{\"site\":0,\"ro");
  const auto runs = load_runs({make_run(dir / "ddp", {.method = "ddp"}), failed, broken,
                               make_run(dir / "other", {.data_hash = "d2", .steps = 90})});
  CHECK(status_words(runs[1]) == "failed at step 7 of 100");
  CHECK(status_words(runs[2]) == "broken off at step 55 of 100");
  CHECK(runs[2].summary.eval_loss == 3.0);  // from its records
  CHECK(runs[2].summary.tokens == 50 * 1024);
  CHECK(runs[2].summary.wire_bytes_per_site == 500);
  CHECK(runs[2].summary.exchange_wait_s == doctest::Approx(0.25));  // 5 rounds of 0.1 s at one of 2 sites
  CHECK(!compare(runs, 1));
  CHECK(notes(runs) == std::vector<std::string>{"failed: site-1, step 7: the loss is nan",
                                                "broken: lines of steps.jsonl and rounds.jsonl that cannot be read: 1",
                                                "other does not compare with ddp: other data",
                                                "other does not compare with ddp: 92160 tokens, not 102400"});
}

TEST_CASE("report: a run that goes on is shown as such, from its records") {
  const TempDir dir;
  make_run(dir / "a", {.steps = 40});
  RunOptions options;
  options.out = dir / "b";
  RunFolder going(parse_config("[run]\nsteps = 100\n", "t", {}), options);
  going.write(StepRecord{.step = 3});
  const auto runs = load_runs({dir / "b"});
  CHECK(status_words(runs[0]) == "running, step 3 of 100");
}

TEST_CASE("report: a simulation's bytes are counted, marked, and not compared with measured ones in silence") {
  const TempDir dir;
  make_run(dir / "sim", {});
  Summary s = parse_summary(slurp(dir / "sim" / "summary.json"));
  s.wire_bytes_per_site = 0;
  spill(dir / "sim" / "summary.json", to_json(s));
  const auto runs = load_runs({make_run(dir / "ddp", {.method = "ddp"}), dir / "sim"});
  const std::string table = report_table(runs);
  CHECK(contains(table, "507 B*"));
  CHECK(contains(table, "* payload and headers counted; nothing was on a wire"));
  CHECK(contains(table, "sim does not compare with ddp: bytes measured in one, counted"));
}

TEST_CASE("report: without a ddp run nothing is compared, and that is said") {
  const TempDir dir;
  const auto runs = load_runs({make_run(dir / "a", {}), make_run(dir / "b", {})});
  CHECK(baseline_of(runs) == runs.size());
  CHECK(notes(runs) ==
        std::vector<std::string>{"no finished ddp run with a held-out loss is among these, so nothing is compared"});
}

TEST_CASE("report: a folder that is no run is refused, and the runs in it are named") {
  const TempDir dir;
  make_run(dir / "q" / "a", {});
  make_run(dir / "q" / "b", {});
  CHECK_THROWS_WITH_AS(load_runs({dir / "q"}),
                       ((dir / "q").string() + ": is no run folder: it holds no config.toml; did you mean " +
                        (dir / "q" / "a").string() + " " + (dir / "q" / "b").string() + "?")
                           .c_str(),
                       ConfigError);
  CHECK_THROWS_WITH_AS(load_runs({dir / "nothing"}), doctest::Contains("nothing: there is no such folder"),
                       ConfigError);
}

TEST_CASE("report: names are the folders without their common beginning") {
  const TempDir dir;
  make_run(dir / "x" / "a", {});
  make_run(dir / "y" / "a", {});
  auto names = load_runs({dir / "x" / "a", dir / "y" / "a" / ""});
  CHECK(names[0].name == "x/a");
  CHECK(names[1].name == "y/a");
  names = load_runs({dir / "x" / "a"});
  CHECK(names[0].name == "a");
}

TEST_CASE("report: the page holds curves over tokens, time and bytes for each run") {
  const TempDir dir;
  const auto data = data_of(report_html(load_runs({make_run(dir / "a", {})})));
  REQUIRE(data.size() == 1);
  CHECK(data[0]["name"] == "a");
  // Evaluated after step 50 (half of the bytes) and at the end.
  CHECK(data[0]["evaluations"] == nlohmann::json::parse("[[51200, 25, 500, 3.0], [102400, 50, 1000, 2.0]]"));
  // Steps are fewer than points, so each is one: mean of 4 and 5; bytes of the last round before it.
  CHECK(data[0]["training"].size() == 100);
  CHECK(data[0]["training"][14] == nlohmann::json::parse("[15360, 7.5, 100, 4.5]"));
  CHECK(data[0]["sites"].size() == 2);
  CHECK(data[0]["sites"][1][0] == nlohmann::json::parse("[1, 5.0]"));
  CHECK(data[0]["payload_bytes"] == 500);
  CHECK(data[0]["other_bytes"] == 500);
}

TEST_CASE("report: the page needs nothing from outside, and text of a run cannot become markup") {
  const TempDir dir;
  const auto runs =
      load_runs({make_run(dir / "<b>&", {.status = RunStatus::failed, .error = "</script><script>alert(1)</script>"})});
  const std::string html = report_html(runs);
  CHECK(html.starts_with("<!doctype html>"));
  CHECK(contains(html, "Chart.js v3"));
  for (const char* outside : {"src=", "href=", "@import", "url("}) {
    CAPTURE(outside);
    const std::string ours = html.substr(0, html.find("Chart.js v3"));
    CHECK(!contains(ours, outside));
  }
  CHECK(!contains(html, "alert(1)</script>"));
  CHECK(!contains(html, "<b>&<"));
  CHECK(contains(html, "&lt;b&gt;&amp;"));
  CHECK(!contains(data_text_of(html), "<"));
  CHECK(data_of(html)[0]["name"] == "<b>&");
}
