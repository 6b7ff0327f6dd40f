// Report: several run folders side by side, as a table for the terminal and as one HTML file that needs no network.
//
// Compared with the first finished ddp run among them: held-out loss in percent, bytes as a ratio.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/records.h"
#include "app/run_folder.h"

namespace atl {

// One run, as far as its folder tells.
struct RunData {
  std::filesystem::path folder;
  std::string name;  // of the run; the folder's when it has none
  RunState state = RunState::broken_off;
  Summary summary;                          // of an unfinished run: worked out from the records
  std::uint64_t period = 0, fragments = 0;  // 0 for ddp and when not known
  std::string codec;
  std::vector<StepRecord> steps;
  std::vector<RoundRecord> rounds;
  std::size_t unreadable_lines = 0;
};

// Throws ConfigError when `folder` is not there or is no run, with the runs inside it if there are some.
RunData load_run(const std::filesystem::path& folder);

// The table, one run a line, and what does not compare (other data, tokens, windows, unfinished) below it.
std::string report_table(const std::vector<RunData>& runs);

// A self-contained HTML document: table and charts.
std::string report_html(const std::vector<RunData>& runs);

}  // namespace atl
