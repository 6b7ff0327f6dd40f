// The report as one HTML file: the table as HTML, the curves as JSON, and report.js (with Chart.js) that draws them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "app/report.h"
#include "app/report_assets.h"
#include "app/version.h"

namespace atl {

namespace {

using Json = nlohmann::ordered_json;

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// A place on the curves of a run.
struct Point {
  std::uint64_t step = 0;
  double tokens = 0, seconds = 0, bytes = 0, loss = 0;
  std::optional<double> modelled_s = {};
};

std::uint64_t bytes_of(const RoundRecord& round) {
  return round.wire_bytes_total > 0 ? round.wire_bytes_total : round.payload_bytes_total;
}

// The rounds of one site, by step: bytes and modelled time between steps are taken from them.
class Trace {
 public:
  explicit Trace(const std::vector<RoundRecord>& rounds) {
    if (rounds.empty()) return;
    const int site = std::ranges::min(rounds, {}, &RoundRecord::site).site;
    for (const RoundRecord& round : rounds)
      if (round.site == site) by_step_[round.step] = round;
  }
  const RoundRecord* last_until(std::uint64_t step) const {
    const auto next = by_step_.upper_bound(step);
    return next == by_step_.begin() ? nullptr : &std::prev(next)->second;
  }

 private:
  std::map<std::uint64_t, RoundRecord> by_step_;
};

// The training loss, mean over sites and over as many steps as make about `count` points.
std::vector<Point> training(const RunData& run, const Trace& trace, std::size_t count) {
  struct Sum {
    Point last;
    double loss = 0;
    std::size_t n = 0;
  };
  const std::uint64_t each = std::max<std::uint64_t>(1, run.summary.inner_steps / count);
  std::map<std::uint64_t, Sum> bins;
  for (const StepRecord& step : run.steps) {
    if (!std::isfinite(step.loss)) continue;
    Sum& sum = bins[(step.step - 1) / each];
    sum.loss += step.loss;
    ++sum.n;
    sum.last.step = std::max(sum.last.step, step.step);
    sum.last.tokens = std::max(sum.last.tokens, static_cast<double>(step.tokens) * run.summary.sites);
    sum.last.seconds = std::max(sum.last.seconds, step.seconds);
  }
  std::vector<Point> out;
  for (auto& [bin, sum] : bins) {
    if (const RoundRecord* round = trace.last_until(sum.last.step)) {
      sum.last.bytes = static_cast<double>(bytes_of(*round));
      sum.last.modelled_s = round->modelled_s;
    }
    sum.last.loss = sum.loss / static_cast<double>(sum.n);
    out.push_back(sum.last);
  }
  return out;
}

// Every evaluation, and the one of the summary.
std::vector<Point> evaluations(const RunData& run) {
  std::map<std::uint64_t, Point> by_step;
  for (const RoundRecord& r : run.rounds)
    if (r.eval_loss && std::isfinite(*r.eval_loss))
      by_step[r.step] = {.step = r.step,
                         .tokens = static_cast<double>(r.tokens),
                         .seconds = r.seconds,
                         .bytes = static_cast<double>(bytes_of(r)),
                         .loss = *r.eval_loss,
                         .modelled_s = r.modelled_s};
  const Summary& s = run.summary;
  if (s.eval_loss && std::isfinite(*s.eval_loss)) {
    Point& last = by_step[s.inner_steps];
    last = {.step = s.inner_steps,
            .tokens = static_cast<double>(s.tokens),
            .seconds = s.seconds,
            .bytes = static_cast<double>(bytes_of(s)),
            .loss = *s.eval_loss,
            .modelled_s = last.modelled_s};
    if (s.modelled) last.modelled_s = s.modelled->seconds;
  }
  std::vector<Point> out;
  for (const auto& [step, point] : by_step) out.push_back(point);
  return out;
}

// One site's training loss over inner steps.
std::vector<std::vector<std::pair<std::uint64_t, double>>> site_losses(const RunData& run, std::size_t count) {
  const std::uint64_t each = std::max<std::uint64_t>(1, run.summary.inner_steps / count);
  std::map<int, std::map<std::uint64_t, std::pair<double, std::size_t>>> sums;
  for (const StepRecord& step : run.steps) {
    if (!std::isfinite(step.loss)) continue;
    auto& [sum, n] = sums[step.site][(step.step - 1) / each];
    sum += step.loss;
    ++n;
  }
  std::vector<std::vector<std::pair<std::uint64_t, double>>> out;
  for (const auto& [site, bins] : sums) {
    out.emplace_back();
    for (const auto& [bin, sum] : bins)
      out.back().emplace_back((bin + 1) * each, sum.first / static_cast<double>(sum.second));
  }
  return out;
}

double rounded(double x, int figures) {
  if (x == 0 || !std::isfinite(x)) return 0;
  const double scale = std::pow(10.0, figures - 1 - std::floor(std::log10(std::abs(x))));
  return std::round(x * scale) / scale;
}

Json json_of(const std::vector<Point>& points) {
  Json out = Json::array();
  for (const Point& p : points) {
    Json row{rounded(p.tokens, 6), rounded(p.seconds, 6), rounded(p.bytes, 6), rounded(p.loss, 6)};
    if (p.modelled_s) row.push_back(rounded(*p.modelled_s, 6));
    out.push_back(std::move(row));
  }
  return out;
}

Json json_of(const RunData& run) {
  constexpr std::size_t kPoints = 200, kSitePoints = 80;
  const Trace trace(run.rounds);
  const Summary& s = run.summary;
  Json sites = Json::array();
  for (const auto& site : site_losses(run, kSitePoints)) {
    Json points = Json::array();
    for (const auto& [step, loss] : site) points.push_back({step, rounded(loss, 6)});
    sites.push_back(std::move(points));
  }
  return {{"name", run.name},
          {"finished", run.state == RunState::finished},
          {"status", status_words(run)},
          {"training", json_of(training(run, trace, kPoints))},
          {"evaluations", json_of(evaluations(run))},
          {"sites", std::move(sites)},
          {"payload_bytes", s.payload_bytes_per_site},
          {"other_bytes", s.wire_bytes_per_site > s.payload_bytes_per_site
                              ? s.wire_bytes_per_site - s.payload_bytes_per_site
                              : s.header_bytes_per_site},
          {"seconds", rounded(s.seconds, 6)},
          {"wait_s", rounded(s.exchange_wait_s, 6)},
          {"modelled_s", s.modelled ? Json(rounded(s.modelled->seconds, 6)) : Json(nullptr)},
          {"utilisation", s.modelled ? Json(rounded(s.modelled->utilisation, 6)) : Json(nullptr)}};
}

std::string html_table(const std::vector<RunData>& runs) {
  const Table table = table_of(runs);
  std::string out = "<table>\n<thead><tr>";
  for (const std::string& title : table.titles) out += "<th>" + escape(title) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out += runs[i].state == RunState::finished ? "<tr>" : "<tr class=\"unfinished\">";
    for (std::size_t c = 0; c < table.titles.size(); ++c)
      out += fmt::format("<td data-title=\"{}\">{}</td>", escape(table.titles[c]), escape(table.rows[i][c]));
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

std::string html_notes(const std::vector<RunData>& runs) {
  std::string out;
  for (const std::string& note : notes(runs)) out += "<li>" + escape(note) + "</li>\n";
  return out.empty() ? "" : "<ul class=\"notes\">\n" + out + "</ul>\n";
}

// JSON inside <script>: nothing in it may end the element.
std::string script_json(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

}  // namespace

std::string report_html(const std::vector<RunData>& runs) {
  Json data = Json::array();
  for (const RunData& run : runs) data.push_back(json_of(run));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>atoll report</title>\n"
      "<style>\n{}</style>\n</head>\n<body>\n<h1>atoll report</h1>\n{}{}"
      "<div id=\"charts\"></div>\n<noscript>Charts need JavaScript; the table does not.</noscript>\n"
      "<footer>atoll {}; charts by Chart.js (MIT licence)</footer>\n"
      "<script id=\"data\" type=\"application/json\">{}</script>\n<script>{}</script>\n<script>\n{}</script>\n"
      "</body>\n</html>\n",
      kReportCss, html_table(runs), html_notes(runs), kVersion, script_json(data), kChartJs, kReportJs);
}

}  // namespace atl
