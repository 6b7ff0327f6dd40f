#include "app/records.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

TEST_CASE("records: a step is one line of JSON and reads back") {
  const StepRecord record{
      .site = 2, .step = 7, .loss = 2.5, .gradient_norm = 0.75, .lr = 0.001, .tokens = 1792, .seconds = 0.125};
  const std::string json = to_json(record);
  CHECK(json == R"({"site":2,"step":7,"loss":2.5,"gradient_norm":0.75,"lr":0.001,"tokens":1792,"seconds":0.125})");
  CHECK(to_json(parse_step(json)) == json);
}

TEST_CASE("records: a round with and without an evaluation") {
  RoundRecord record{.site = 1, .exchange = 3, .round = 3, .step = 90, .tokens = 92160, .wire_bytes_total = 1U << 31U};
  CHECK(to_json(record).find("eval_loss") == std::string::npos);
  CHECK(!parse_round(to_json(record)).eval_loss);
  record.eval_loss = 1.75;
  record.modelled_s = 12.5;
  const RoundRecord back = parse_round(to_json(record));
  CHECK(back.eval_loss == 1.75);
  CHECK(back.modelled_s == 12.5);
  CHECK(back.wire_bytes_total == 1U << 31U);
  CHECK(to_json(back) == to_json(record));
}

TEST_CASE("records: a loss that is no number is null in JSON and NaN when read") {
  StepRecord record;
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.gradient_norm = std::numeric_limits<double>::infinity();
  CHECK(to_json(record).find(R"("loss":null,"gradient_norm":null)") != std::string::npos);
  CHECK(std::isnan(parse_step(to_json(record)).loss));
}

TEST_CASE("records: what is no record is refused, what is unknown is skipped") {
  CHECK_THROWS_WITH_AS(parse_step("{\"site\":0"), "is no JSON object", ConfigError);
  CHECK_THROWS_WITH_AS(parse_step("[1]"), "is no JSON object", ConfigError);
  CHECK_THROWS_WITH_AS(parse_step(R"({"step":"3"})"), R"(step = "3" has a wrong type)", ConfigError);
  CHECK_THROWS_WITH_AS(parse_step(R"({"step":-3})"), "step = -3 has a wrong type", ConfigError);
  CHECK_THROWS_WITH_AS(parse_step(R"({"step":1.5})"), "step = 1.5 has a wrong type", ConfigError);
  CHECK(parse_step(R"({"step":3,"of_a_later_version":[]})").step == 3);
  CHECK(parse_step("{}").step == 0);
}

TEST_CASE("records: a summary holds what the issue names and reads back") {
  Summary summary{.name = "a",
                  .method = "diloco",
                  .command = "launch",
                  .seed = 3,
                  .status = RunStatus::failed,
                  .error = "site-2, step 7: \"loss\" is nan\nsecond line \xff",
                  .sites = 4,
                  .params = 120000,
                  .tokens = 5939200,
                  .inner_steps = 5800,
                  .rounds = 194,
                  .eval_loss = 1.699,
                  .payload_bytes_per_site = 93120000};
  summary.modelled =
      Summary::Clock{.step_seconds = 0.1, .bandwidth_mbit = 100, .rtt_ms = 50, .seconds = 600, .utilisation = 0.95};
  const std::string json = to_json(summary);
  for (const char* key : {"method", "sites", "params", "tokens", "inner_steps", "rounds", "eval_loss",
                          "payload_bytes_per_site", "wire_bytes_per_site", "seconds", "tokens_per_s", "exchange_wait_s",
                          "global_hash", "name", "seed", "status", "error", "modelled"})
    CHECK(json.find(std::string("\n  \"") + key + "\": ") != std::string::npos);
  CHECK(json.find("\"status\": \"failed\"") != std::string::npos);
  const Summary back = parse_summary(json);
  CHECK(back.status == RunStatus::failed);
  CHECK(back.error.starts_with("site-2, step 7: \"loss\" is nan\nsecond line "));
  CHECK(back.eval_loss == 1.699);
  CHECK(back.modelled->utilisation == 0.95);
  CHECK(!back.version.empty());
  CHECK(to_json(back) == json);
  CHECK_THROWS_WITH_AS(parse_summary(R"({"status":"done"})"), doctest::Contains("finished, interrupted or failed"),
                       ConfigError);
}

TEST_CASE("records: a file with a last line cut short gives the lines before it and says how many are lost") {
  const TempDir dir;
  spill(dir / "steps.jsonl",
        to_json(StepRecord{.step = 1}) + "\n" + to_json(StepRecord{.step = 2}) + "\n{\"site\":0,\"st");
  std::size_t unreadable = 99;
  const auto steps = read_steps(dir / "steps.jsonl", &unreadable);
  CHECK(steps.size() == 2);
  CHECK(steps[1].step == 2);
  CHECK(unreadable == 1);
  CHECK(read_rounds(dir / "rounds.jsonl", &unreadable).empty());
  CHECK(unreadable == 0);
}
