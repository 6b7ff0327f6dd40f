// The log: one line an event, key=value, to stderr and, if named, to a file.  Use spdlog::info(...) and its kin.
//
//   2026-12-01T04:14:15.896 I s2 round=12 step=6000 loss=2.3456
//
// Numbers for plots do not belong here; they go to rounds.jsonl.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace atl {

// Replaces the process's default logger.  `level`: trace, debug, info, warn, error or off.  `label` says who speaks
// ("s2", "link s2").  `file` is appended to; each line is flushed.  Threads may log at once, but not before this
// returned.  Throws ConfigError for an unknown level, naming those that exist, and for a file that cannot be opened.
void init_log(const std::string& level, const std::string& label,
              const std::optional<std::filesystem::path>& file = {});

}  // namespace atl
