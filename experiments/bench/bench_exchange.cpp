// bench_exchange: the link's exchange of 64 MB fp32 over loopback, against gloo::allreduce (ring, its best segment size), in turn, medians.
//
// Ours is the whole exchange inside the links: headers, payload in shared memory to mean in shared memory.  Gloo's is in place.  One process a
// site.  Beside it: what a trainer sees of many small exchanges (DDP), and what an idle link costs.
// Last line: ratio=NUMBER, the worse of (gloo's time / ours) / 0.95 at 2 sites and / 0.9 at 4; 1 or more is the goal.
//   bench_exchange [--repetitions N] [--streams C] [--piece_mib K] [--mb N] [--only exchange|small|idle]
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "comm/link_client.h"
#include "contestants.h"

using namespace atl;
using namespace atl::bench;

namespace {

constexpr int kSites = 4;  // at most
constexpr int kMost = 4096;

struct Options {
  int repetitions = 20, streams = LinkConfig{}.streams;
  std::size_t piece_bytes = LinkConfig{}.piece_bytes, megabytes = 64;
  std::string only;
};

// What the processes of one measurement share.
struct Board {
  pthread_barrier_t barrier;
  std::array<std::array<double, kMost>, kSites> seconds;
  std::array<double, kSites> cpu, gloo_cpu;  // seconds of a core, a site
};

class SharedBoard {
 public:
  explicit SharedBoard(int sites)
      : board_(static_cast<Board*>(
            mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board_->barrier, &shared, static_cast<unsigned>(sites));
  }
  ~SharedBoard() { munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board* operator->() { return board_; }
  void meet() { pthread_barrier_wait(&board_->barrier); }

 private:
  Board* board_;
};

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "atoll-bench-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// CPU seconds of all threads of a process so far.
double cpu_seconds(int pid) {
  double sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(task.path() / "schedstat");
    double ns = 0;
    file >> ns;
    sum += ns * 1e-9;
  }
  return sum;
}

// what(rank) in a process each; ends this program if one fails.
void processes(int sites, const std::function<void(int)>& what) {
  std::vector<pid_t> children;
  for (int r = 0; r < sites; ++r) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        what(r);
        std::fflush(stdout);
        _exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "site %d: %s\n", r, e.what());
        _exit(1);
      }
    }
    children.push_back(child);
  }
  bool failed = false;
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (status != 0 && !failed) {
      failed = true;
      for (const pid_t child : children)
        if (child != ended) kill(child, SIGKILL);
    }
  }
  if (failed) std::exit(1);
}

// ---------------------------------------------------------------------------------------------- 64 MB against gloo::allreduce

double exchange_against_gloo(int sites, const Options& options) {
  const std::size_t n = options.megabytes * 1'000'000 / sizeof(float);
  const std::vector<std::size_t> segments{256U << 10U, 1U << 20U, 2U << 20U, 4U << 20U, 8U << 20U, 16U << 20U};
  constexpr int kTries = 7;
  const Folder folder;
  SharedBoard board(sites);
  std::filesystem::create_directories(folder / "gloo");
  // In seconds: first kTries of each segment size, then gloo's and ours in turn.
  processes(sites, [&](int rank) {
    Reference reference(folder / "gloo", "127.0.0.1", rank, sites, n);
    Ours ours(folder / "store", "127.0.0.1", rank, sites, n, options.streams, options.piece_bytes);
    int at = 0;
    const auto timed = [&](const auto& what) {
      board.meet();
      const double start = steady_seconds();
      what();
      board->seconds[static_cast<std::size_t>(rank)][static_cast<std::size_t>(at++)] = steady_seconds() - start;
      board.meet();
    };
    for (const std::size_t segment : segments) reference.run(segment);
    for (int i = 0; i < 2; ++i) ours.run(false);
    ours.check();
    for (const std::size_t segment : segments)
      for (int i = 0; i < kTries; ++i) timed([&] { reference.run(segment); });
    std::size_t best = 0;
    double best_s = 1e9;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      std::vector<double> tries;
      for (int i = 0; i < kTries; ++i)
        tries.push_back(board->seconds[0][s * kTries + static_cast<std::size_t>(i)]);  // rank 0 speaks for all
      if (median(tries) < best_s) {
        best_s = median(tries);
        best = s;
      }
    }
    board.meet();
    if (rank == 0) std::printf("%d sites: gloo's best segment size is %zu KiB\n", sites, segments[best] >> 10U);
    double gloo_cpu = 0, cpu = 0;
    const auto counted = [&](double& sum, const auto& what) {
      const double before = cpu_seconds(getpid());
      timed(what);
      sum += cpu_seconds(getpid()) - before;
    };
    for (int i = 0; i < options.repetitions; ++i) {
      counted(gloo_cpu, [&] { reference.run(segments[best]); });
      counted(cpu, [&] { ours.run(i + 1 == options.repetitions); });
    }
    board->gloo_cpu[static_cast<std::size_t>(rank)] = gloo_cpu / options.repetitions;
    board->cpu[static_cast<std::size_t>(rank)] = cpu / options.repetitions;
    ours.check();
  });
  std::vector<double> gloo_s, ours_s, ratios;
  const std::size_t first = segments.size() * kTries;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.repetitions); ++i) {
    double slowest[2] = {0, 0};
    for (std::size_t r = 0; r < static_cast<std::size_t>(sites); ++r)
      for (std::size_t which = 0; which < 2; ++which)
        slowest[which] = std::max(slowest[which], board->seconds[r][first + 2 * i + which]);
    gloo_s.push_back(slowest[0]);
    ours_s.push_back(slowest[1]);
  }
  const double ratio = median(gloo_s) / median(ours_s);
  std::printf(
      "%d sites: %zu MB fp32: gloo ring %.1f ms (%.1f ms of a core a site), atoll %.1f ms (%.1f ms of a core), ratio "
      "%.3f\n",
      sites, options.megabytes, 1e3 * median(gloo_s), 1e3 * board->gloo_cpu[0], 1e3 * median(ours_s),
      1e3 * board->cpu[0], ratio);
  std::fflush(stdout);
  return ratio;
}

// ---------------------------------------------------------------------------------------------- what a trainer sees

LinkConfig site_config(const Folder& folder, int rank, int sites, const std::vector<std::size_t>& slots,
                       const Options& options) {
  LinkConfig config;
  config.site = "site-" + std::to_string(rank);
  for (int r = 0; r < sites; ++r) config.sites.push_back("site-" + std::to_string(r));
  config.store = "file://" + (folder / "store");
  config.interface = "lo";
  config.streams = options.streams;
  config.piece_bytes = options.piece_bytes;
  for (const std::size_t n : slots) config.slots.push_back({n});
  config.log_level = "warn";
  return config;
}

// Steps of DDP: all buckets sent, all means waited for; nothing is computed between.
void small_exchanges(int sites, std::size_t bytes, std::size_t buckets, const Options& options) {
  constexpr int kWarm = 50, kSteps = 400;
  const Folder folder;
  SharedBoard board(sites);
  const std::vector<std::size_t> slots(buckets, bytes / sizeof(float) / buckets);
  processes(sites, [&](int rank) {
    LinkClient link(site_config(folder, rank, sites, slots, options));
    const int last = static_cast<int>(buckets) - 1;
    double cpu_before = 0;
    for (int t = 0; t < kWarm + kSteps; ++t) {
      board.meet();
      if (t == kWarm) cpu_before = cpu_seconds(link.link_pid());
      const double start = steady_seconds();
      for (int b = 0; b <= last; ++b)
        link.send({.slot = b,
                   .round = static_cast<std::uint32_t>(t),
                   .tokens = 10,
                   .first_of_group = b == 0,
                   .next_slot = b < last ? b + 1 : (t + 1 < kWarm + kSteps ? 0 : -1),
                   .next_first_of_group = b == last});
      for (int b = 0; b <= last; ++b) link.wait(b);
      if (t >= kWarm)
        board->seconds[static_cast<std::size_t>(rank)][static_cast<std::size_t>(t - kWarm)] = steady_seconds() - start;
    }
    board->cpu[static_cast<std::size_t>(rank)] = (cpu_seconds(link.link_pid()) - cpu_before) / kSteps;
    link.finish();
  });
  std::vector<double> slowest;
  double cpu = 0;
  for (std::size_t t = 0; t < kSteps; ++t) {
    double s = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(sites); ++r) s = std::max(s, board->seconds[r][t]);
    slowest.push_back(s);
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(sites); ++r) cpu += board->cpu[r] / sites;
  std::sort(slowest.begin(), slowest.end());
  std::printf(
      "%d sites: %4zu KB in %zu messages, trainer to trainer: median %.2f ms, 90 %% %.2f ms; %.2f ms of a core a "
      "link\n",
      sites, bytes / 1000, buckets, 1e3 * slowest[kSteps / 2], 1e3 * slowest[kSteps * 9 / 10], 1e3 * cpu);
  std::fflush(stdout);
}

void idle(int sites, const Options& options) {
  constexpr double kSeconds = 5;
  const Folder folder;
  SharedBoard board(sites);
  processes(sites, [&](int rank) {
    LinkClient link(site_config(folder, rank, sites, {1000}, options));
    link.send({.slot = 0, .tokens = 1});
    link.wait(0);
    board.meet();
    const double before = cpu_seconds(link.link_pid());
    std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
    board->cpu[static_cast<std::size_t>(rank)] = (cpu_seconds(link.link_pid()) - before) / kSeconds;
    board.meet();
    link.finish();
  });
  double most = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(sites); ++r) most = std::max(most, board->cpu[r]);
  std::printf("%d sites: an idle link uses %.2f %% of a core (goal: at most 1)\n", sites, 100 * most);
  std::fflush(stdout);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const char* value = argv[i + 1];
    if (key == "--repetitions") options.repetitions = std::clamp(std::atoi(value), 1, 1000);
    if (key == "--streams") options.streams = std::atoi(value);
    if (key == "--piece_mib") options.piece_bytes = static_cast<std::size_t>(std::atof(value) * (1U << 20U));
    if (key == "--mb") options.megabytes = static_cast<std::size_t>(std::atoi(value));
    if (key == "--only") options.only = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  const Options options = parse(argc, argv);
  const auto wanted = [&options](const char* part) { return options.only.empty() || options.only == part; };
  if (wanted("small")) {
    for (const int sites : {2, 3, 4}) small_exchanges(sites, 480'000, 1, options);
    small_exchanges(4, 480'000, 4, options);
    small_exchanges(4, 4000, 1, options);
  }
  if (wanted("idle")) idle(4, options);
  if (!wanted("exchange")) return 0;
  const double two = exchange_against_gloo(2, options), four = exchange_against_gloo(4, options);
  std::printf("ratio=%.3f\n", std::min(two / 0.95, four / 0.9));
  return 0;
}
