// exchange: atoll's exchange over an emulated link, beside plain TCP over as many streams and Gloo's ring all-reduce, in turn on warm connections,
// medians.  One process a site, started by exchange.sh through wan.sh.
//
// The large part: --bytes of fp32; the small part: exchanges of 4096 and 5000 bytes in round trips (up to 4 KB travel with their header, more do not).
// Site 0 prints, writes a line for each measurement to --csv, and last score=NUMBER: the worst measurement over its goal; 1 or more is the goal.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "../bench/contestants.h"
#include "arguments.h"
#include "base/clock.h"
#include "meeting.h"
#include "streams.h"

using namespace atl;
using namespace atl::wan;

namespace {

constexpr double kOfPlain = 0.95;                      // the goal: of the speed of plain TCP
constexpr double kSwapTrips = 0.6, kOwnerTrips = 1.1;  // the goals for small exchanges, in round trips
constexpr std::size_t kSegment = 16U << 20U;           // Gloo's best at 100 ms

class Bench {
 public:
  explicit Bench(const Arguments& in)
      : addresses_(in.list("--addresses")),
        sites_(static_cast<int>(addresses_.size())),
        rank_(in.whole("--rank", 0, sites_ - 1)),
        streams_(in.whole("--streams", 1, 64)),
        piece_bytes_(static_cast<std::size_t>(in.number("--piece_mib", 0.25, 1024) * (1U << 20U))),
        run_(in.word("--run")),
        words_(in.word("--words")),
        csv_(in.word("--csv")),
        only_(in.list("--only")),
        meeting_(run_, rank_, sites_) {}

  double large(std::size_t bytes, int repetitions);
  double small(std::size_t bytes, int repetitions);

 private:
  struct Contestant {
    std::string name;
    std::function<void()> run;
    std::vector<double> seconds;  // of the slowest site
  };
  static double median_of(const std::vector<Contestant>& all, const std::string& name) {
    for (const Contestant& c : all)
      if (c.name == name) return bench::median(c.seconds);
    throw ConfigError(text("--only has no ", name, ": nothing can be said without it"));
  }
  const std::string& own_address() const { return addresses_[static_cast<std::size_t>(rank_)]; }
  std::string folder(const std::string& name) {
    const std::string path = run_ + "/" + name + std::to_string(folders_++);
    std::filesystem::create_directories(path);
    return path;
  }
  // Each once to warm up, then in turn, in another order every time.
  void measure(std::vector<Contestant>& all, int repetitions);
  void print(const Contestant& of, std::size_t bytes, double round_trip) const;

  std::vector<std::string> addresses_;
  int sites_, rank_, streams_;
  std::size_t piece_bytes_;
  std::string run_, words_, csv_;
  std::vector<std::string> only_;
  Meeting meeting_;
  int folders_ = 0;
};

void Bench::measure(std::vector<Contestant>& all, int repetitions) {
  std::erase_if(all, [&](const Contestant& c) {
    return only_[0] != "" && std::find(only_.begin(), only_.end(), c.name) == only_.end();
  });
  for (int i = -1; i < repetitions; ++i) {
    for (Contestant& c : all) {
      meeting_.meet();
      const double start = steady_seconds();
      c.run();
      const double slowest = meeting_.worst(steady_seconds() - start);
      if (i >= 0) c.seconds.push_back(slowest);
    }
    std::rotate(all.begin(), all.begin() + 1, all.end());
  }
  std::sort(all.begin(), all.end(), [](const Contestant& a, const Contestant& b) { return a.name < b.name; });
}

void Bench::print(const Contestant& of, std::size_t bytes, double round_trip) const {
  if (rank_ != 0) return;
  const double median = bench::median(of.seconds);
  const auto [least, most] = std::minmax_element(of.seconds.begin(), of.seconds.end());
  std::printf("%d sites, %8zu bytes, %-10s median %.4f s (%.4f to %.4f), %.2f round trips\n", sites_, bytes,
              of.name.c_str(), median, *least, *most, median / round_trip);
  std::fflush(stdout);
  if (!csv_.empty())
    std::ofstream(csv_, std::ios::app) << text(words_, ",", sites_, ",", streams_, ",", bytes, ",", of.name, ",",
                                               of.seconds.size(), ",", median, ",", *least, ",", *most, ",", round_trip,
                                               "\n");
}

// Of plain TCP's speed, over the goal.
double Bench::large(std::size_t bytes, int repetitions) {
  const std::size_t n = bytes / sizeof(float);
  Streams plain(addresses_, rank_, streams_, "");
  bench::Reference ring(folder("gloo"), own_address(), rank_, sites_, n);
  bench::Ours ours(folder("store"), own_address(), rank_, sites_, n, streams_, piece_bytes_);
  if (rank_ == 0) std::printf("%d sites, congestion control %s\n", sites_, plain.congestion().c_str());
  int left = repetitions + 1;
  std::vector<Contestant> all{{"atoll", [&] { ours.run(--left == 0); }, {}},
                              {"gloo_ring", [&] { ring.run(kSegment); }, {}},
                              {"plain_even", [&] { plain.exchange(bytes_a_site(bytes, sites_), Split::even); }, {}},
                              {"plain_free", [&] { plain.exchange(bytes_a_site(bytes, sites_), Split::free); }, {}}};
  measure(all, repetitions);
  ours.check();
  for (const Contestant& c : all) print(c, bytes, plain.round_trip());
  meeting_.meet();  // nobody leaves while another still receives
  return median_of(all, "plain_even") / median_of(all, "atoll") / kOfPlain;
}

// The goal over the round trips that an exchange takes.
double Bench::small(std::size_t bytes, int repetitions) {
  const double goal = sites_ == 2 ? kSwapTrips : kOwnerTrips;
  Streams plain(addresses_, rank_, 1, "");
  bench::Reference ring(folder("gloo"), own_address(), rank_, sites_, bytes / sizeof(float));
  bench::Ours ours(folder("store"), own_address(), rank_, sites_, bytes / sizeof(float), streams_, piece_bytes_);
  int left = repetitions + 1;
  std::vector<Contestant> all{{"atoll", [&] { ours.run(--left == 0); }, {}},
                              {"gloo_ring", [&] { ring.run(kSegment); }, {}},
                              {"plain_even", [&] { plain.exchange(bytes_a_site(bytes, sites_), Split::even); }, {}}};
  measure(all, repetitions);
  ours.check();
  for (const Contestant& c : all) print(c, bytes, plain.round_trip());
  meeting_.meet();
  return goal / (median_of(all, "atoll") / plain.round_trip());
}

void run(const Arguments& in) {
  Bench bench(in);
  double score = 1e9;
  const int small = in.whole("--small_repetitions", 0, 1000);
  for (const std::string& bytes : in.list("--small_bytes"))
    if (small > 0) score = std::min(score, bench.small(static_cast<std::size_t>(std::stoul(bytes)), small));
  if (const int large = in.whole("--repetitions", 0, 1000); large > 0)
    score = std::min(score, bench.large(static_cast<std::size_t>(in.number("--bytes", 12, 1e10)), large));
  if (in.whole("--rank", 0, 1000) == 0) std::printf("score=%.3f\n", score);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    run({argc,
         argv,
         {{"--rank", ""},
          {"--addresses", ""},
          {"--run", ""},
          {"--bytes", "64e6"},
          {"--streams", "4"},
          {"--piece_mib", "16"},
          {"--repetitions", "9"},
          {"--small_repetitions", "21"},
          {"--words", ""},
          {"--csv", ""},
          {"--small_bytes", "4096,5000"},
          {"--only", ""}}});
    std::fflush(stdout);
    _exit(0);  // Gloo's connections are not taken down in order
  } catch (const std::exception& e) {
    std::fprintf(stderr, "exchange: %s\n", e.what());
    std::fflush(stdout);
    _exit(dynamic_cast<const ConfigError*>(&e) != nullptr ? 2 : 3);
  }
}
