// Report: several run folders side by side, as a table for the terminal and as one HTML file that needs no network.
//
// Compared with the first finished ddp run among them: held-out loss in percent, bytes as a ratio.  A run that did not
// finish is shown as what it is and takes no part in the comparison.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/records.h"
#include "app/run_folder.h"

namespace atl {

// One run, as far as its folder tells.
struct RunData {
  std::filesystem::path folder = {};
  std::string name = {};  // the folder's, without what the folders of all runs begin with
  RunState state = RunState::broken_off;
  Summary summary = {};  // of a run without one: worked out from settings and records
  std::uint64_t steps_planned = 0;
  std::uint64_t period = 0;  // 0: ddp, or not known
  std::string codec = {};
  std::vector<StepRecord> steps = {};
  std::vector<RoundRecord> rounds = {};
  std::size_t unreadable_lines = 0;
};

// In the order given.  Throws ConfigError when a folder is not there or is no run, with the runs that lie in it if
// there are some.
std::vector<RunData> load_runs(const std::vector<std::filesystem::path>& folders);

// The index of the run that others are compared with; runs.size() when there is none.
std::size_t baseline_of(const std::vector<RunData>& runs);

// "finished", "running, step 120 of 5800", "failed at step 7", ...
std::string status_words(const RunData& run);
// Bytes that left a site: measured, else (a simulation) payload and headers.
std::uint64_t bytes_of(const Summary& summary);
// Why numbers of `run` and of the baseline must not be compared; nothing when they can.
std::vector<std::string> differences(const RunData& run, const RunData& baseline);

struct Comparison {
  bool is_baseline = false;
  std::optional<double> loss_percent = {};  // above (+) or below the baseline's held-out loss
  std::optional<double> fewer_bytes = {};   // the baseline's bytes over this run's
};
// Run i against the baseline; nothing without one, or when run i did not finish.
std::optional<Comparison> compare(const std::vector<RunData>& runs, std::size_t i);
// What a reader must know beside the numbers: errors, lines that cannot be read, what does not compare.
std::vector<std::string> notes(const std::vector<RunData>& runs);

// The table's cells, one row a run; the first three columns are text, the others numbers.
struct Table {
  std::vector<std::string> titles = {};
  std::vector<std::vector<std::string>> rows = {};
  bool counted = false;  // some bytes have a '*': counted, not measured
};
Table table_of(const std::vector<RunData>& runs);

// For a terminal, with the notes below.
std::string report_table(const std::vector<RunData>& runs);

// A self-contained HTML document: table, notes and charts.
std::string report_html(const std::vector<RunData>& runs);

}  // namespace atl
