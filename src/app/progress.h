// Progress: what a person sees of a run while it goes on.
//
// On a terminal one live line a site, redrawn at most 5 times a second; log lines below a warning then go to the log
// file only, and the others scroll above the live lines.  Elsewhere a plain line every few seconds, and one at each
// evaluation. Calls cost well under a microsecond when nothing is drawn.  Threads may call at once.
//
//   site-0  1200/5800  21%  loss 2.345  14.0k tok/s  ETA 1m40s  round 40  waiting for round 41
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/records.h"

namespace atl {

class Progress {
 public:
  enum class Show { automatic, live, plain, nothing };  // automatic: live when stderr is a terminal
  struct Options {
    std::vector<std::string> sites = {};  // names, in rank order
    std::uint64_t steps = 0;              // of the run
    std::uint64_t tokens_a_step = 0;      // of one site
    Show show = Show::automatic;
    std::chrono::milliseconds redraw{200};  // live
    std::chrono::milliseconds every{5000};  // plain
    // For tests: where text goes, the terminal's columns and rows, and the clock; default stderr, its size,
    // steady_clock.
    std::function<void(const std::string&)> write = {};
    int columns = 0, rows = 0;
    std::function<std::chrono::steady_clock::time_point()> now = {};
  };

  explicit Progress(Options options);
  ~Progress();  // as finish()
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `step` inner steps are done at `site`; loss is shown smoothed.
  void step(int site, std::uint64_t step, double loss);
  // What a site's exchange is doing, in few words: "computing", "waiting for round 12".  Shown until it changes.
  void state(int site, std::string words);
  // A round was applied.
  void round(int site, std::uint64_t round);
  // Θ was evaluated: always a line of its own, that stays.
  void evaluated(std::uint64_t step, std::uint64_t round, double eval_loss);
  // Draws the last state and leaves it standing.
  void finish();

  // For launch, whose sites are other processes: takes the lines that steps.jsonl and rounds.jsonl in `run_folder` have
  // grown by since the last call as calls of step(), round(), evaluated().  Call it a few times a second.
  void follow(const std::filesystem::path& run_folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace atl
