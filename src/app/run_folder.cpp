#include "app/run_folder.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace atl {

namespace fs = std::filesystem;

namespace {

// All that a run leaves in its folder; sites and store are launch's.  Only these are ever removed.
constexpr std::array kOurs{"config.toml",  "log",   "steps.jsonl", "rounds.jsonl", "model.safetensors",
                           "summary.json", "sites", "store",       ".lock"};

// Opens DIR/.lock and takes it; -1 with errno, which is EWOULDBLOCK when somebody else has it.  The lock goes with the
// process, however that ends.
int try_lock(const fs::path& folder, int flags, int operation) {
  const int fd = ::open((folder / ".lock").c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0 || ::flock(fd, operation | LOCK_NB) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

bool is_running(const fs::path& folder) {
  const int fd = try_lock(folder, O_RDONLY, LOCK_SH);
  if (fd < 0) return errno == EWOULDBLOCK;
  ::close(fd);
  return false;
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw ConfigError(folder.string() + ": " + what);
}

void check_replaceable(const fs::path& folder, bool overwrite) {
  switch (run_state(folder)) {
    case RunState::absent:
    case RunState::empty:
      return;
    case RunState::no_run:
      refuse(folder, "is there and holds other files, but no run: name another folder with --out");
    case RunState::running:
      refuse(folder, "is being written by a run that still goes on: stop it, or name another folder with --out");
    case RunState::broken_off:
    case RunState::failed:
      if (!fs::exists(folder / "model.safetensors")) return;  // it reached nothing that somebody could miss
      [[fallthrough]];
    case RunState::finished:
    case RunState::interrupted:
      if (overwrite) return;
      refuse(folder, "holds a run already: name another folder with --out, or replace it with --overwrite");
  }
}

void remove_earlier_run(const fs::path& folder) {
  for (const char* name : kOurs)
    if (std::string(name) != ".lock") fs::remove_all(folder / name);
}

}  // namespace

RunState run_state(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return RunState::absent;
  if (!fs::is_directory(folder, error)) return RunState::no_run;
  if (fs::is_empty(folder, error)) return RunState::empty;
  if (is_running(folder)) return RunState::running;
  if (!fs::exists(folder / "config.toml", error) && !fs::exists(folder / ".lock", error)) return RunState::no_run;
  try {
    switch (parse_summary(read_text(folder / "summary.json", 1U << 20U)).status) {
      case RunStatus::finished:
        return RunState::finished;
      case RunStatus::interrupted:
        return RunState::interrupted;
      case RunStatus::failed:
        return RunState::failed;
    }
  } catch (const ConfigError&) {  // none, or none that can be read
  }
  return RunState::broken_off;
}

RunFolder::RunFolder(const RunConfig& config, const RunOptions& options) : path_(options.out) {
  if (path_.empty()) throw Bug("a run folder without a name");
  if (options.join) {
    if (!fs::exists(config_path())) refuse(path_, "holds no config.toml: --join is for the sites that launch starts");
    return;
  }
  check_replaceable(path_, options.overwrite);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) refuse(path_, "cannot be made: " + error.message());
  lock_ = try_lock(path_, O_RDWR | O_CREAT, LOCK_EX);
  if (lock_ < 0)
    refuse(path_, errno == EWOULDBLOCK ? "another run has just taken it: name another folder with --out"
                                       : text("cannot be written: ", std::strerror(errno)));
  try {
    remove_earlier_run(path_);
    write_atomically(config_path(), to_toml(config));
  } catch (const fs::filesystem_error& e) {
    ::close(lock_);
    refuse(path_, text("an earlier run cannot be removed: ", e.code().message()));
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::append(const fs::path& file, const std::string& line, std::atomic<bool>& warned) {
  try {
    append_line(file, line);
  } catch (const ConfigError& e) {
    if (!warned.exchange(true)) spdlog::warn("{}; the run goes on, and this is said once", e.what());
  }
}

void RunFolder::write(const StepRecord& record) { append(steps_path(), to_json(record), steps_warned_); }
void RunFolder::write(const RoundRecord& record) { append(rounds_path(), to_json(record), rounds_warned_); }
void RunFolder::write(const Summary& summary) { write_atomically(summary_path(), to_json(summary)); }

}  // namespace atl
