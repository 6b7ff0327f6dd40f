// RunFolder: the folder of one run, and the rules about what may be replaced in it.
//
//   config.toml        the resolved settings        log            one line an event
//   steps.jsonl        StepRecord a line            rounds.jsonl   RoundRecord a line
//   model.safetensors  Θ at the end                 summary.json   Summary, written once, at the end
//   .lock              held (flock) while a process writes the run
//
// One line is one write(2) to a file opened with O_APPEND, so several site processes may share the folder.
#pragma once
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "app/config.h"
#include "app/records.h"
#include "app/run_options.h"

namespace atl {

class RunFolder {
 public:
  // Makes options.out and its parents, takes the lock, removes the files of an earlier run, writes config.toml.  An
  // earlier run that broke off or failed and left no model is replaced; another one only with options.overwrite; one
  // that is still being written never.  options.join: opens a folder that another process made; nothing is locked,
  // removed or written. Throws ConfigError: what is there already, a folder with files that are no run's, a folder that
  // cannot be written.
  RunFolder(const RunConfig& config, const RunOptions& options);
  ~RunFolder();  // gives the lock back
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_path() const { return path_ / "config.toml"; }
  std::filesystem::path log_path() const { return path_ / "log"; }
  std::filesystem::path steps_path() const { return path_ / "steps.jsonl"; }
  std::filesystem::path rounds_path() const { return path_ / "rounds.jsonl"; }
  std::filesystem::path model_path() const { return path_ / "model.safetensors"; }
  std::filesystem::path summary_path() const { return path_ / "summary.json"; }

  // Append a line.  Never throw: the first failure of a file (a full disk) is a warning in the log, and the run goes
  // on.
  void write(const StepRecord& record);
  void write(const RoundRecord& record);
  // Written aside and renamed.  Throws ConfigError when that fails.
  void write(const Summary& summary);

 private:
  void append(const std::filesystem::path& file, const std::string& line, std::atomic<bool>& warned);

  std::filesystem::path path_;
  int lock_ = -1;  // descriptor of .lock
  std::atomic<bool> steps_warned_{false}, rounds_warned_{false};
};

// What a folder holds.
enum class RunState { absent, empty, no_run, running, broken_off, finished, interrupted, failed };
// Looks at the lock and at summary.json.  Never throws for content that cannot be read: such a run counts as broken
// off.
RunState run_state(const std::filesystem::path& folder);

}  // namespace atl
