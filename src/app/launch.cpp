// launch: one `atoll train` a site on this machine.  The sites share the run folder; this process shows what they
// write, passes a Ctrl-C on, stops the others when one fails, and joins their summaries.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "app/assemble.h"
#include "app/child.h"
#include "app/drivers.h"
#include "app/progress.h"
#include "app/run_folder.h"
#include "app/signals.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> arguments_of(const RunFolder& folder, const RunOptions& options, const std::string& site) {
  return {"train",          folder.config_path().string(), "--site", site,
          "--out",          folder.path().string(),        "--join", "--log-level",
          options.log_level};
}

// The run's settings as its sites see them: a store in the run folder, the loopback interface.
RunConfig for_sites(RunConfig config, const fs::path& folder) {
  config.store.url = "file://" + fs::absolute(folder / "store").string();
  config.comm.interface = "lo";
  config.comm.allow_loopback = true;
  config.comm.start_timeout_s = 60;  // they are started together
  return config;
}

std::optional<Summary> site_summary(const fs::path& folder, const std::string& site) {
  const fs::path file = folder / "sites" / site / "summary.json";
  if (!fs::exists(file)) return std::nullopt;
  return parse_summary(read_text(file, 1U << 20U));
}

// One summary from the sites': the first's, with bytes and waits as the mean over sites; the worst status.
Summary join_summaries(const std::vector<Summary>& sites) {
  Summary joined = sites.front();
  joined.command = "launch";
  joined.site = "";
  const auto mean = [&sites](auto member) {
    double sum = 0;
    for (const Summary& s : sites) sum += static_cast<double>(s.*member);
    return sum / static_cast<double>(sites.size());
  };
  joined.payload_bytes_per_site = static_cast<std::uint64_t>(mean(&Summary::payload_bytes_per_site));
  joined.header_bytes_per_site = static_cast<std::uint64_t>(mean(&Summary::header_bytes_per_site));
  joined.wire_bytes_per_site = static_cast<std::uint64_t>(mean(&Summary::wire_bytes_per_site));
  joined.retransmitted_bytes_per_site = static_cast<std::uint64_t>(mean(&Summary::retransmitted_bytes_per_site));
  joined.received_bytes_per_site = static_cast<std::uint64_t>(mean(&Summary::received_bytes_per_site));
  joined.exchange_wait_s = mean(&Summary::exchange_wait_s);
  joined.compute_s = mean(&Summary::compute_s);
  joined.utilisation = mean(&Summary::utilisation);
  for (const Summary& s : sites) {
    joined.generations = std::max(joined.generations, s.generations);
    if (s.status == RunStatus::failed && joined.status != RunStatus::failed) {
      joined.status = s.status;
      joined.error = s.error;
    }
    if (s.status == RunStatus::interrupted && joined.status == RunStatus::finished) joined.status = s.status;
    if (s.status == RunStatus::finished && s.global_hash != joined.global_hash && joined.status == RunStatus::finished)
      throw Bug(
          text("site ", s.site, " ended with Θ ", s.global_hash, ", site ", joined.site, " with ", joined.global_hash));
  }
  return joined;
}

// After a broken run: the furthest Θ that a site left behind becomes the run's model.
void keep_furthest_model(const fs::path& folder, const std::vector<Summary>& sites) {
  const Summary* best = nullptr;
  for (const Summary& s : sites)
    if (fs::exists(folder / "sites" / s.site / "model.safetensors") && (best == nullptr || s.rounds > best->rounds))
      best = &s;
  if (best == nullptr) return;
  fs::rename(folder / "sites" / best->site / "model.safetensors", folder / "model.safetensors");
  for (const Summary& s : sites) fs::remove(folder / "sites" / s.site / "model.safetensors");
}

std::string how_it_ended(const Child& child) {
  const Child::End& end = *child.end();
  if (end.signal != 0)
    return text(child.name(), " was killed by signal ", end.signal, " (", strsignal(end.signal), ")");
  return text(child.name(), " ended with exit code ", end.code);
}

struct Outcome {
  int code = 0;         // of the first site that failed; 3 for one that was killed
  std::string failure;  // how it ended; "" when none failed
};

// Looks after the sites until the last has ended: a Ctrl-C is passed on, and when a site fails the others are stopped,
// after a moment in which they can notice it themselves (their own error says more than a SIGTERM).
class Watch {
 public:
  explicit Watch(std::vector<Child>& children) : children_(children) {}

  bool once() {  // false when all have ended
    bool any = false;
    for (Child& child : children_) {
      if (child.running())
        any = true;
      else if (child.end()->code != 0 && outcome_.code == 0)
        failed(child);
    }
    const double now = steady_seconds();
    if (stop_requested()) tell(SIGINT, now);
    if (now > stop_at_) tell(SIGTERM, now);
    if (now > kill_at_) signal(SIGKILL);
    return any;
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  static constexpr double kOwnError = 2;   // seconds
  static constexpr double kPatience = 15;  // seconds to write what was reached
  static constexpr double kNever = 1e18;

  void failed(const Child& child) {
    outcome_ = {.code = child.end()->signal != 0 ? 3 : child.end()->code, .failure = how_it_ended(child)};
    spdlog::error("{}: the other sites are stopped", outcome_.failure);
    stop_at_ = steady_seconds() + kOwnError;
  }
  void tell(int number, double now) {
    if (told_) return;
    told_ = true;
    kill_at_ = now + kPatience;
    signal(number);
  }
  void signal(int number) {
    for (Child& child : children_) child.signal(number);
  }

  std::vector<Child>& children_;
  Outcome outcome_;
  double stop_at_ = kNever, kill_at_ = kNever;
  bool told_ = false;
};

Summary final_summary(const RunConfig& c, const fs::path& folder, const Outcome& outcome) {
  std::vector<Summary> sites;
  for (const std::string& site : c.sites.names)
    if (auto s = site_summary(folder, site)) sites.push_back(std::move(*s));
  Summary joined{.name = c.run.name,
                 .method = c.run.method,
                 .command = "launch",
                 .seed = c.run.seed,
                 .status = RunStatus::interrupted,
                 .sites = c.sites.count};
  if (!sites.empty()) joined = join_summaries(sites);  // else no site came as far as training
  if (outcome.code != 0) {
    joined.status = RunStatus::failed;
    if (joined.error.empty()) joined.error = outcome.failure;
  }
  if (joined.status != RunStatus::finished) keep_furthest_model(folder, sites);
  return joined;
}

}  // namespace

int run_launch(const RunConfig& config, const RunOptions& options) {
  watch_for_stop();
  const RunParts parts =
      assemble(config);  // what is wrong with settings or data is found here, before a process is started
  const RunConfig& c = parts.config;
  RunFolder folder(for_sites(c, options.out), options);
  init_log(options.log_level, "launch", folder.log_path());
  for (const char* part : {"store", "sites"}) fs::remove_all(folder.path() / part);
  fs::create_directories(folder.path() / "store");
  spdlog::info("method={} sites={} batch={} site_batch={} steps={} out={}", c.run.method, c.sites.count, c.batch,
               c.site_batch(), c.run.steps, folder.path().string());

  const fs::path self = fs::read_symlink("/proc/self/exe");
  std::vector<Child> children;
  for (const std::string& site : c.sites.names) children.emplace_back(site, self, arguments_of(folder, options, site));
  Progress progress({.sites = c.sites.names,
                     .steps = c.run.steps,
                     .tokens_a_step = c.site_batch() * c.model.context,
                     .show = options.quiet ? Progress::Show::nothing : Progress::Show::automatic});
  Watch watch(children);
  while (watch.once()) {
    progress.follow(folder.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  progress.follow(folder.path());
  progress.finish();
  fs::remove_all(folder.path() / "store");
  folder.write(final_summary(c, folder.path(), watch.outcome()));
  return watch.outcome().code;
}

}  // namespace atl
