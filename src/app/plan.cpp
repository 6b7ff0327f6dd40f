#include "app/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <sstream>

#include "app/clock_model.h"
#include "app/config.h"
#include "app/records.h"
#include "app/units.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "outer/schedule.h"

namespace atl {
namespace {

// Walks through the sends and waits of a run, as Site does (site.cpp), without its arithmetic.
struct Walk {
  std::function<void()> step;
  std::function<void(int bucket)> send_bucket;              // before step()
  std::function<void(int fragment, bool in_cluster)> send;  // after step()
  std::function<void(int slot)> wait;
};

// The slots below it are of DDP steps.
int buckets_of(const RunParts& parts, const SiteSettings& settings) {
  return static_cast<int>(parts.slots.size() - (settings.only_ddp() ? 0 : settings.fragments.size()));
}

void walk(const RunParts& parts, std::uint64_t steps, const Walk& w) {
  const SiteSettings settings = site_settings(parts, 0);
  const std::uint64_t ddp_steps = std::min(steps, settings.ddp_steps);
  const int buckets = buckets_of(parts, settings);
  for (std::uint64_t t = 0; t < ddp_steps; ++t) {
    for (int b = 0; b < buckets; ++b) w.send_bucket(b);
    w.step();
    for (int b = 0; b < buckets; ++b) w.wait(b);
  }
  if (settings.only_ddp()) return;
  const Schedule schedule(settings.schedule);
  const std::uint64_t outer_steps = steps - ddp_steps;
  for (std::uint64_t t = 1; t <= outer_steps; ++t) {
    w.step();
    for (const int p : schedule.sends_after(t)) w.send(p, settings.is_cluster_round(schedule.round_of(p, t)));
    for (const int p : schedule.applies_after(t)) w.wait(buckets + p);
  }
  for (const int p : schedule.in_flight(outer_steps)) w.wait(buckets + p);
  const std::vector<int> rest = left_at_end(settings, schedule, outer_steps);
  for (const int p : rest) w.send(p, false);
  for (const int p : rest) w.wait(buckets + p);
}

// What one exchange of each slot sends.
class Exchanges {
 public:
  explicit Exchanges(const RunParts& parts)
      : parts_(parts), codec_(make_codec(parts.config.comm.codec)), mean_(make_codec(parts.config.comm.mean_codec)) {
    buckets_ = buckets_of(parts, site_settings(parts, 0));
  }
  int buckets() const { return buckets_; }
  Traffic bucket(int b) const { return of(b, false, b == 0); }
  Traffic fragment(int p, bool in_cluster) const { return of(buckets_ + p, in_cluster, true); }

 private:
  std::size_t values(int slot) const { return parts_.slots[static_cast<std::size_t>(slot)].values; }
  Traffic of(int slot, bool in_cluster, bool with_header) const {
    const int all = parts_.config.sites.count;
    return traffic_of(values(slot), in_cluster ? all / parts_.config.outer.clusters : all, all, *codec_, *mean_,
                      with_header);
  }

  const RunParts& parts_;
  std::unique_ptr<Codec> codec_, mean_;
  int buckets_ = 0;
};

}  // namespace

PlanBytes plan_bytes(const RunParts& parts) {
  const Exchanges exchanges(parts);
  PlanBytes bytes;
  const auto add = [&](const Traffic& traffic) {
    ++bytes.exchanges;
    bytes.headers += traffic.headers;
    bytes.payload += traffic.bytes - traffic.headers;
  };
  walk(parts, parts.config.run.steps,
       {.step = [] {},
        .send_bucket = [&](int b) { add(exchanges.bucket(b)); },
        .send = [&](int p, bool in) { add(exchanges.fragment(p, in)); },
        .wait = [](int) {}});
  return bytes;
}

PlanTime plan_time(const RunParts& parts, const PlanNetwork& network) {
  const Exchanges exchanges(parts);
  // Rounds repeat themselves: twenty of them say what all will do.
  const RunConfig& c = parts.config;
  const std::uint64_t enough = c.ddp_steps() >= c.run.steps ? 200 : c.ddp_steps() + 20 * c.outer.schedule.period;
  const std::uint64_t steps = std::min(c.run.steps, enough);
  ClockModel clock({network.step_seconds, network.mbit, network.rtt_ms}, parts.slots.size());
  walk(parts, steps,
       {.step = [&] { clock.step(); },
        .send_bucket = [&](int b) { clock.sent_during_step(b, exchanges.bucket(b), b, exchanges.buckets()); },
        .send = [&](int p, bool in) { clock.sent(exchanges.buckets() + p, exchanges.fragment(p, in)); },
        .wait = [&](int slot) { clock.waited(slot); }});
  const double scale = static_cast<double>(c.run.steps) / static_cast<double>(steps);
  return {.seconds = clock.now() * scale, .utilisation = clock.utilisation()};
}

std::optional<double> plan_mbit(const RunParts& parts, const PlanNetwork& network, double utilisation) {
  const auto reaches = [&](double mbit) {
    return plan_time(parts, {network.step_seconds, mbit, network.rtt_ms}).utilisation >= utilisation;
  };
  double low = 1e-6, high = 1e12;
  if (!reaches(high)) return std::nullopt;
  while (high / low > 1.001) {
    const double middle = std::sqrt(low * high);
    (reaches(middle) ? high : low) = middle;
  }
  return high;
}

double measured_step_seconds(const RunParts& parts) {
  constexpr std::size_t kSteps = 11;
  const auto inner = make_inner(parts);
  const Samples samples = samples_of(parts);
  std::vector<double> seconds;
  for (std::size_t t = 0; t < kSteps + 2; ++t) {
    const Batch batch = samples(t * parts.config.site_batch(), parts.config.site_batch());
    const double start = steady_seconds();
    inner->step(batch);
    if (t >= 2) seconds.push_back(steady_seconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kSteps / 2, seconds.end());
  return seconds[kSteps / 2];
}

namespace {

class Table {
 public:
  void row(const std::string& what, const std::string& planned, const std::string& measured = "") {
    out_ << std::left << std::setw(42) << what << std::setw(16) << planned << measured << '\n';
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

std::string rate(double mbit) {
  std::ostringstream out;
  out << std::setprecision(3);
  if (mbit >= 1000)
    out << mbit / 1000 << " Gbit/s";
  else
    out << mbit << " Mbit/s";
  return out.str();
}

// Floats that one site keeps, in the trainer, for each parameter; and those of one fragment.
double state_bytes(const RunParts& parts) {
  const RunConfig& c = parts.config;
  const double n = static_cast<double>(parts.plan.layout.size());
  double floats = 2 * n;  // θ, gradients
  if (c.inner.optimizer != InnerOptimizer::sgd) floats += 2 * n;
  if (c.ddp_steps() < c.run.steps) {
    std::size_t largest = 0;
    for (const Span& span : parts.plan.fragments) largest = std::max(largest, span.count);
    floats += n + static_cast<double>(largest);  // Θ, Δ
    const OuterKind kind = c.outer.optimizer.kind;
    if (kind != OuterKind::sgd) floats += n;
    if (kind == OuterKind::adam) floats += n;
    if (c.outer.merge == Merge::delayed || c.outer.merge == Merge::corrected) floats += n;
    if (c.outer.merge == Merge::eager) floats += 2 * n;
    if (c.comm.error_feedback > 0) floats += 2 * n;
    if (c.comm.error_feedback > 0 || c.outer.merge == Merge::eager) floats += static_cast<double>(largest);
  }
  return floats * sizeof(float);
}

double shared_bytes(const RunParts& parts) {  // with the link: payloads and means
  const auto codec = make_codec(parts.config.comm.codec);
  double bytes = 0;
  for (const SlotSpec& slot : parts.slots)
    bytes += static_cast<double>(codec->encoded_bytes(slot.values) + slot.values * sizeof(float));
  return bytes;
}

// The same model as DDP in bf16: what others are compared with.
double ddp_bf16_bytes(const RunParts& parts) {
  const int sites = parts.config.sites.count;
  const auto bf16 = make_codec("bf16");
  return static_cast<double>(parts.config.run.steps) *
         traffic_of(parts.plan.layout.size(), sites, sites, *bf16, *bf16, true).bytes;
}

}  // namespace

std::string plan_text(const RunParts& parts, const PlanNetwork& network, const std::filesystem::path& run) {
  const RunConfig& c = parts.config;
  std::optional<Summary> did;
  if (!run.empty()) {
    did = parse_summary(read_text(run / "summary.json", 1U << 20U));
    const std::string file = (run / "summary.json").string();
    if (did->status != RunStatus::finished) throw ConfigError(file + ": the run did not finish");
    if (did->method != c.run.method || did->sites != c.sites.count || did->inner_steps != c.run.steps ||
        did->params != parts.plan.layout.size())
      throw ConfigError(text(file, ": a run of ", did->method, " with ", did->sites, " sites, ", did->inner_steps,
                             " steps and ", did->params, " parameters; the plan is for ", c.run.method, ", ",
                             c.sites.count, ", ", c.run.steps, ", ", parts.plan.layout.size()));
  }
  const auto measured = [&](auto get) { return did ? get(*did) : std::string(); };
  const PlanBytes bytes = plan_bytes(parts);
  const double total = bytes.payload + bytes.headers;
  Table table;
  table.row("", "planned", did ? "measured" : "");
  table.row("parameters", short_count(static_cast<double>(parts.plan.layout.size())));
  table.row("tokens, all sites", short_count(static_cast<double>(c.run.tokens)));
  table.row("exchanges", short_count(static_cast<double>(bytes.exchanges)));
  table.row("payload bytes a site", short_bytes(bytes.payload),
            measured([](const Summary& s) { return short_bytes(static_cast<double>(s.payload_bytes_per_site)); }));
  table.row("header bytes a site", short_bytes(bytes.headers),
            measured([](const Summary& s) { return short_bytes(static_cast<double>(s.header_bytes_per_site)); }));
  table.row("wire bytes a site (Gloo adds some)", short_bytes(total), measured([](const Summary& s) {
              return s.wire_bytes_per_site > 0 ? short_bytes(static_cast<double>(s.wire_bytes_per_site))
                                               : std::string("-");
            }));
  if (c.sites.count > 1 && total > 0) {
    std::ostringstream fewer;
    fewer << std::setprecision(4) << ddp_bf16_bytes(parts) / total << "x";
    table.row("fewer than bf16 DDP", fewer.str());
  }
  table.row("memory of the trainer, activations aside", short_bytes(state_bytes(parts)));
  table.row("memory shared with the link", short_bytes(shared_bytes(parts)));
  table.row("seconds an inner step", short_duration(network.step_seconds), measured([](const Summary& s) {
              return s.compute_s > 0 ? short_duration(s.compute_s / static_cast<double>(s.inner_steps))
                                     : std::string("-");
            }));
  if (network.mbit > 0) {
    const PlanTime time = plan_time(parts, network);
    table.row("at " + rate(network.mbit) + ", " + short_duration(network.rtt_ms / 1000) + ": the run",
              short_duration(time.seconds), measured([](const Summary& s) { return short_duration(s.seconds); }));
    table.row("  utilisation", short_percent(time.utilisation), measured([](const Summary& s) {
                return s.utilisation > 0 ? short_percent(s.utilisation) : std::string("-");
              }));
    if (!c.ddp())
      table.row("  a round",
                short_duration(time.seconds / std::max(1.0, static_cast<double>(c.run.steps) /
                                                                static_cast<double>(c.outer.schedule.period))));
  }
  for (const double share : {0.5, 0.8, 0.9, 0.95, 0.99}) {
    const auto mbit = plan_mbit(parts, network, share);
    table.row(text("link for ", static_cast<int>(std::lround(100 * share)), " % utilisation"),
              mbit ? rate(*mbit) : "none: round trips alone cost more");
  }
  return table.text();
}

}  // namespace atl
