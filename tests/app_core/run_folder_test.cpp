#include "app/run_folder.h"

#include <doctest/doctest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <thread>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

namespace {

const RunConfig kConfig = parse_config("[run]\nsteps = 3\n", "run.toml", {});

RunOptions into(const std::filesystem::path& out, bool overwrite = false) {
  RunOptions options;
  options.out = out;
  options.overwrite = overwrite;
  return options;
}

// A run that ended so, with a record and, if wanted, a model.
void leave_run(const std::filesystem::path& out, std::optional<RunStatus> status, bool model) {
  RunFolder folder(kConfig, into(out, true));
  folder.write(StepRecord{.step = 1});
  if (model) spill(folder.model_path(), "model");
  Summary summary;
  if (status) {
    summary.status = *status;
    folder.write(summary);
  }
}

// The log of this process while the object lives.
class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(out_)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> before_;
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("run folder: made with its parents, holds the resolved settings, records and the summary") {
  const TempDir dir;
  const auto out = dir / "runs" / "a";
  {
    RunFolder folder(kConfig, into(out));
    CHECK(run_state(out) == RunState::running);
    folder.write(StepRecord{.step = 1});
    folder.write(StepRecord{.step = 2});
    folder.write(RoundRecord{.round = 1});
    folder.write(Summary{.name = "a"});
  }
  CHECK(slurp(out / "config.toml") == to_toml(kConfig));
  CHECK(read_steps(out / "steps.jsonl").size() == 2);
  CHECK(read_rounds(out / "rounds.jsonl").size() == 1);
  CHECK(parse_summary(slurp(out / "summary.json")).name == "a");
  CHECK(run_state(out) == RunState::finished);
}

TEST_CASE("run folder: what is there and how it ended") {
  const TempDir dir;
  CHECK(run_state(dir / "nothing") == RunState::absent);
  std::filesystem::create_directory(dir / "empty");
  CHECK(run_state(dir / "empty") == RunState::empty);
  spill(dir / "file", "x");
  CHECK(run_state(dir / "file") == RunState::no_run);
  CHECK(run_state(dir.path()) == RunState::no_run);
  leave_run(dir / "a", std::nullopt, false);
  CHECK(run_state(dir / "a") == RunState::broken_off);
  spill(dir / "a" / "summary.json", "{\"status\":");
  CHECK(run_state(dir / "a") == RunState::broken_off);
  leave_run(dir / "a", RunStatus::failed, false);
  CHECK(run_state(dir / "a") == RunState::failed);
  leave_run(dir / "a", RunStatus::interrupted, false);
  CHECK(run_state(dir / "a") == RunState::interrupted);
}

TEST_CASE("run folder: a run that reached something is replaced only with --overwrite, and then wholly") {
  const TempDir dir;
  struct Case {
    std::optional<RunStatus> status;
    bool model, refused;
  };
  for (const auto& [status, model, refused] :
       {Case{RunStatus::finished, true, true}, Case{RunStatus::interrupted, false, true},
        Case{RunStatus::failed, true, true}, Case{std::nullopt, true, true}, Case{RunStatus::failed, false, false},
        Case{std::nullopt, false, false}}) {
    CAPTURE(refused);
    leave_run(dir / "a", status, model);
    spill(dir / "a" / "notes", "of the user");
    if (refused) {
      CHECK_THROWS_WITH_AS(RunFolder(kConfig, into(dir / "a")),
                           doctest::Contains("a: holds a run already: name another folder with --out, or replace it "
                                             "with --overwrite"),
                           ConfigError);
      CHECK(read_steps(dir / "a" / "steps.jsonl").size() == 1);  // untouched
    }
    const RunFolder folder(kConfig, into(dir / "a", refused));
    CHECK(read_steps(folder.steps_path()).empty());
    CHECK(!std::filesystem::exists(folder.model_path()));
    CHECK(!std::filesystem::exists(folder.summary_path()));
    CHECK(slurp(dir / "a" / "notes") == "of the user");
  }
}

TEST_CASE("run folder: a run that goes on is never replaced, and one whose process died can be") {
  const TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder folder(kConfig, into(dir / "a"));
    ::pause();
    ::_exit(0);
  }
  for (int i = 0; i < 500 && run_state(dir / "a") != RunState::running; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  for (const bool overwrite : {false, true})
    CHECK_THROWS_WITH_AS(RunFolder(kConfig, into(dir / "a", overwrite)),
                         doctest::Contains("a: is being written by a run that still goes on"), ConfigError);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(run_state(dir / "a") == RunState::broken_off);
  CHECK_NOTHROW(RunFolder(kConfig, into(dir / "a")));
}

TEST_CASE("run folder: a folder of other things is refused, even with --overwrite, and left alone") {
  const TempDir dir;
  spill(dir / "thesis.tex", "x");
  for (const bool overwrite : {false, true})
    CHECK_THROWS_WITH_AS(RunFolder(kConfig, into(dir.path(), overwrite)),
                         doctest::Contains("is there and holds other files, but no run"), ConfigError);
  spill(dir / "file", "x");
  CHECK_THROWS_WITH_AS(RunFolder(kConfig, into(dir / "file" / "a")), doctest::Contains("cannot be made"), ConfigError);
}

TEST_CASE("run folder: one that cannot be written is refused before the start" * doctest::skip(::geteuid() == 0)) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  CHECK_THROWS_WITH_AS(RunFolder(kConfig, into(dir / "a")), doctest::Contains("cannot be made: Permission denied"),
                       ConfigError);
}

TEST_CASE("run folder: a full disk is one warning a file, and the run goes on; a summary that is lost is an error") {
  const TempDir dir;
  RunFolder folder(kConfig, into(dir / "a"));
  std::filesystem::create_symlink("/dev/full", folder.steps_path());
  std::filesystem::create_symlink("/dev/full", folder.rounds_path());
  const CapturedLog log;
  for (int i = 0; i < 3; ++i) {
    folder.write(StepRecord{});
    folder.write(RoundRecord{});
  }
  CHECK(count(log.text(), "steps.jsonl: cannot append to: No space left on device (errno 28); the run goes on") == 1);
  CHECK(count(log.text(), "rounds.jsonl: cannot append to: No space left on device") == 1);
  std::filesystem::create_directory(folder.summary_path());
  CHECK_THROWS_WITH_AS(folder.write(Summary{}), doctest::Contains("summary.json"), ConfigError);
}

TEST_CASE("run folder: the sites of launch join one folder and their lines do not mix") {
  const TempDir dir;
  const RunFolder made(kConfig, into(dir / "a"));
  RunOptions join = into(dir / "a");
  join.join = true;
  constexpr int kSites = 4, kSteps = 200;
  for (int site = 0; site < kSites; ++site) {
    if (::fork() != 0) continue;
    RunFolder folder(kConfig, join);
    for (int step = 0; step < kSteps; ++step) folder.write(StepRecord{.site = site, .step = 1U + step});
    ::_exit(0);
  }
  for (int site = 0; site < kSites; ++site) ::wait(nullptr);
  std::size_t unreadable = 1;
  const auto steps = read_steps(made.steps_path(), &unreadable);
  CHECK(steps.size() == kSites * kSteps);
  CHECK(unreadable == 0);
  CHECK(run_state(dir / "a") == RunState::running);  // their end did not give the lock of the first back

  join.out = dir / "nothing";
  CHECK_THROWS_WITH_AS(RunFolder(kConfig, join), doctest::Contains("holds no config.toml"), ConfigError);
}
