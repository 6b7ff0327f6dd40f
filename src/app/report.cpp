// What a run folder says, and the table.  The page is in report_html.cpp.
#include "app/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/config.h"
#include "app/units.h"
#include "base/error.h"
#include "base/file.h"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The folders below `folder` that hold a run, for the message when it holds none itself.
std::string runs_inside(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end && !error; entry.increment(error))
    if (fs::exists(entry->path() / "config.toml")) found.push_back(entry->path().string());
  std::ranges::sort(found);
  std::string out;
  for (std::size_t i = 0; i < found.size() && i < 5; ++i) out += (out.empty() ? "; did you mean " : " ") + found[i];
  if (found.size() > 5) out += " ...";
  return out.empty() ? out : out + "?";
}

// A run without a summary.json: what its settings and its records say.
Summary summary_of_records(const RunData& run, const std::optional<RunConfig>& config) {
  Summary s;
  if (config) {
    s.name = config->run.name;
    s.method = config->run.method;
    s.seed = config->run.seed;
    s.sites = config->sites.count;
  }
  for (const StepRecord& step : run.steps) {
    s.inner_steps = std::max(s.inner_steps, step.step);
    s.seconds = std::max(s.seconds, step.seconds);
    s.sites = std::max(s.sites, step.site + 1);
  }
  double wait_s = 0;
  for (const RoundRecord& round : run.rounds) {
    s.rounds = std::max(s.rounds, round.round);
    s.tokens = std::max(s.tokens, round.tokens);
    s.payload_bytes_per_site = std::max(s.payload_bytes_per_site, round.payload_bytes_total);
    s.wire_bytes_per_site = std::max(s.wire_bytes_per_site, round.wire_bytes_total);
    if (round.eval_loss) s.eval_loss = round.eval_loss;
    wait_s += round.wait_s;
  }
  s.exchange_wait_s = s.sites > 0 ? wait_s / s.sites : 0;
  s.tokens_per_s = s.seconds > 0 ? static_cast<double>(s.tokens) / s.seconds : 0;
  return s;
}

std::optional<RunConfig> config_of(const fs::path& file) {
  try {
    return read_config(file, {});
  } catch (const ConfigError&) {  // of another version, or cut short: the report then says less
    return {};
  }
}

std::optional<Summary> summary_of(const fs::path& file) {
  try {
    return parse_summary(read_text(file, 1U << 20U));
  } catch (const ConfigError&) {
    return {};
  }
}

// The parts of a path, without those that are "." or empty.
std::vector<std::string> parts_of(const fs::path& folder) {
  std::vector<std::string> out;
  for (const fs::path& part : folder.lexically_normal())
    if (!part.empty() && part != ".") out.push_back(part.string());
  return out;
}

// runs/quickstart/ddp and runs/quickstart/diloco become ddp and diloco.
void shorten_names(std::vector<RunData>& runs) {
  std::vector<std::vector<std::string>> paths;
  for (const RunData& run : runs) paths.push_back(parts_of(run.folder));
  std::size_t common = paths.empty() || paths[0].empty() ? 0 : paths[0].size() - 1;
  for (const auto& path : paths) {
    std::size_t same = 0;
    while (same < common && same + 1 < path.size() && path[same] == paths[0][same]) ++same;
    common = same;
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].name.clear();
    for (std::size_t k = common; k < paths[i].size(); ++k) runs[i].name += (k > common ? "/" : "") + paths[i][k];
    if (runs[i].name.empty()) runs[i].name = runs[i].summary.name;  // "."
  }
}

RunData load_run(const fs::path& folder) {
  RunData run;
  run.folder = folder;
  run.state = run_state(folder);
  if (run.state == RunState::absent) throw ConfigError(folder.string() + ": there is no such folder");
  if (run.state == RunState::empty || run.state == RunState::no_run)
    throw ConfigError(folder.string() + ": is no run folder: it holds no config.toml" + runs_inside(folder));
  std::size_t bad_steps = 0, bad_rounds = 0;
  run.steps = read_steps(folder / "steps.jsonl", &bad_steps);
  run.rounds = read_rounds(folder / "rounds.jsonl", &bad_rounds);
  run.unreadable_lines = bad_steps + bad_rounds;
  const std::optional<RunConfig> config = config_of(folder / "config.toml");
  if (config) {
    run.steps_planned = config->run.steps;
    run.period = config->ddp() ? 0 : config->outer.schedule.period;
    run.codec = config->comm.codec.name;
  }
  const std::optional<Summary> written = summary_of(folder / "summary.json");
  run.summary = written && run.state != RunState::running ? *written : summary_of_records(run, config);
  return run;
}

}  // namespace

std::vector<RunData> load_runs(const std::vector<fs::path>& folders) {
  std::vector<RunData> runs;
  for (const fs::path& folder : folders) runs.push_back(load_run(folder));
  shorten_names(runs);
  return runs;
}

std::size_t baseline_of(const std::vector<RunData>& runs) {
  const auto found = std::ranges::find_if(runs, [](const RunData& run) {
    return run.state == RunState::finished && run.summary.method == "ddp" && run.summary.eval_loss;
  });
  return static_cast<std::size_t>(found - runs.begin());
}

std::string status_words(const RunData& run) {
  const std::string where = run.steps_planned > 0
                                ? fmt::format("step {} of {}", run.summary.inner_steps, run.steps_planned)
                                : fmt::format("step {}", run.summary.inner_steps);
  switch (run.state) {
    case RunState::finished:
      return "finished";
    case RunState::running:
      return "running, " + where;
    case RunState::interrupted:
      return "stopped at " + where;
    case RunState::failed:
      return "failed at " + where;
    case RunState::broken_off:
      return "broken off at " + where;
    case RunState::absent:
    case RunState::empty:
    case RunState::no_run:
      break;
  }
  throw Bug(run.folder.string() + " is no run");
}

std::uint64_t bytes_of(const Summary& summary) {
  return summary.wire_bytes_per_site > 0 ? summary.wire_bytes_per_site
                                         : summary.payload_bytes_per_site + summary.header_bytes_per_site;
}

std::vector<std::string> differences(const RunData& run, const RunData& baseline) {
  const Summary &a = run.summary, &b = baseline.summary;
  std::vector<std::string> out;
  if (!a.data_hash.empty() && !b.data_hash.empty() && a.data_hash != b.data_hash) out.push_back("other data");
  if (a.eval_windows > 0 && b.eval_windows > 0 && a.eval_windows != b.eval_windows)
    out.push_back(fmt::format("{} held-out windows, not {}", a.eval_windows, b.eval_windows));
  if (a.params != b.params) out.push_back(fmt::format("{} parameters, not {}", a.params, b.params));
  if (a.tokens != b.tokens) out.push_back(fmt::format("{} tokens, not {}", a.tokens, b.tokens));
  if ((a.wire_bytes_per_site > 0) != (b.wire_bytes_per_site > 0) && a.sites > 1 && b.sites > 1)
    out.push_back("bytes measured in one, counted (payload and headers) in the other");
  return out;
}

std::optional<Comparison> compare(const std::vector<RunData>& runs, std::size_t i) {
  const std::size_t base = baseline_of(runs);
  if (base == runs.size() || runs[i].state != RunState::finished) return {};
  const Summary &run = runs[i].summary, &ddp = runs[base].summary;
  Comparison out{.is_baseline = i == base};
  if (run.eval_loss) out.loss_percent = 100 * (*run.eval_loss / *ddp.eval_loss - 1);
  if (bytes_of(run) > 0) out.fewer_bytes = static_cast<double>(bytes_of(ddp)) / static_cast<double>(bytes_of(run));
  return out;
}

std::vector<std::string> notes(const std::vector<RunData>& runs) {
  std::vector<std::string> out;
  if (table_of(runs).counted) out.push_back("* payload and headers counted; nothing was on a wire");
  const std::size_t base = baseline_of(runs);
  if (base == runs.size() && runs.size() > 1)
    out.push_back("no finished ddp run with a held-out loss is among these, so nothing is compared");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    if (!run.summary.error.empty()) out.push_back(fmt::format("{}: {}", run.name, run.summary.error));
    if (run.unreadable_lines > 0)
      out.push_back(fmt::format("{}: lines of steps.jsonl and rounds.jsonl that cannot be read: {}", run.name,
                                run.unreadable_lines));
    if (base == runs.size() || i == base || run.state != RunState::finished) continue;
    for (const std::string& difference : differences(run, runs[base]))
      out.push_back(fmt::format("{} does not compare with {}: {}", run.name, runs[base].name, difference));
  }
  return out;
}

// ---- the table

namespace {

std::string number_or_dash(const std::optional<double>& x, const char* format) {
  return x ? fmt::format(fmt::runtime(format), *x) : "-";
}

std::string render(const Table& table) {
  constexpr std::size_t kTextColumns = 3;
  const auto width = [](const std::string& text) {  // of UTF-8: bytes that do not continue a character
    return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
  };
  std::vector<std::vector<std::string>> lines{table.titles};
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  std::vector<std::size_t> widest(table.titles.size(), 0);
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widest[c] = std::max(widest[c], width(line[c]));
  std::string out;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string pad(widest[c] - width(line[c]), ' ');
      row += (c > 0 ? "  " : "") + (c < kTextColumns ? line[c] + pad : pad + line[c]);
    }
    out += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
  }
  return out;
}

}  // namespace

Table table_of(const std::vector<RunData>& runs) {
  Table table;
  table.titles = {"run",    "method",     "status", "sites", "H",     "params", "tokens",   "held-out loss",
                  "vs ddp", "bytes/site", "fewer",  "time",  "tok/s", "wait",   "computing"};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    const Summary& s = run.summary;
    const Comparison against = compare(runs, i).value_or(Comparison{.is_baseline = true});
    const bool counted = s.wire_bytes_per_site == 0 && bytes_of(s) > 0;
    table.counted = table.counted || counted;
    table.rows.push_back({run.name, s.method.empty() ? "?" : s.method, status_words(run), std::to_string(s.sites),
                          run.period > 0 ? std::to_string(run.period) : "-",
                          s.params > 0 ? short_count(static_cast<double>(s.params)) : "-",
                          short_count(static_cast<double>(s.tokens)), number_or_dash(s.eval_loss, "{:.4f}"),
                          against.is_baseline ? "-" : number_or_dash(against.loss_percent, "{:+.2f} %"),
                          short_bytes(static_cast<double>(bytes_of(s))) + (counted ? "*" : ""),
                          against.is_baseline ? "-" : number_or_dash(against.fewer_bytes, "{:.1f}x"),
                          short_duration(s.seconds), short_count(s.tokens_per_s), short_duration(s.exchange_wait_s),
                          s.utilisation > 0 ? short_percent(s.utilisation) : "-"});
  }
  return table;
}

std::string report_table(const std::vector<RunData>& runs) {
  const Table table = table_of(runs);
  std::string out = render(table), below;
  for (const std::string& note : notes(runs)) below += note + "\n";
  return below.empty() ? out : out + "\n" + below;
}

}  // namespace atl
