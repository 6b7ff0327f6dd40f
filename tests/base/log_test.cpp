#include "base/log.h"

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>

#include <memory>

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
  init_log("warn", "%v s2", path);
  spdlog::info("round={}", 11);
  spdlog::warn("round={} site={} dropped", 12, 3);
  std::string content = slurp(path);
  for (char& c : content)
    if (c >= '0' && c <= '9') c = '0';
  CAPTURE(content);
  CHECK(content == "0000-00-00T00:00:00.000 W %v s0 round=00 site=0 dropped\n");
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
