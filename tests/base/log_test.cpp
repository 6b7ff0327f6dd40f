#include "base/log.h"

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include <regex>

#include "base/error.h"
#include "support/temp_dir.h"

namespace atl {
namespace {

// The process's logger is as it was when the test ends.
class KeepLogger {
 public:
  KeepLogger() : before_(spdlog::default_logger()) {}
  KeepLogger(const KeepLogger&) = delete;
  KeepLogger& operator=(const KeepLogger&) = delete;
  ~KeepLogger() { spdlog::set_default_logger(before_); }

 private:
  std::shared_ptr<spdlog::logger> before_;
};

TEST_CASE("log: a line has time, level and label, and is in the file at once; lower levels are not") {
  const KeepLogger keep;
  const TempDir dir;
  const auto path = dir / "log";
  init_log("warn", "100% s2", path);
  spdlog::info("round={}", 11);
  spdlog::warn("round={} site={} dropped", 12, 3);
  const std::string content = slurp(path);
  const std::regex line(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} W 100% s2 round=12 site=3 dropped\n)");
  CAPTURE(content);
  CHECK(std::regex_match(content, line));
}

TEST_CASE("log: a second start appends") {
  const KeepLogger keep;
  const TempDir dir;
  const auto path = dir / "log";
  for (int i = 0; i < 2; ++i) {
    init_log("info", "s0", path);
    spdlog::info("start={}", i);
  }
  const std::string content = slurp(path);
  CHECK(content.find("start=0") < content.find("start=1"));
}

TEST_CASE("log: unknown levels and files that cannot be opened are the user's to fix") {
  const KeepLogger keep;
  const TempDir dir;
  CHECK_THROWS_WITH_AS(init_log("loud", "s0"),
                       "log level \"loud\" does not exist: trace, debug, info, warn, error or off", ConfigError);
  CHECK_THROWS_WITH_AS(init_log("info", "s0", dir.path()), doctest::Contains("cannot be opened"), ConfigError);
}

}  // namespace
}  // namespace atl
