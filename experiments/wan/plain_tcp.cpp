// plain_tcp: how long sites take to exchange bytes over plain TCP, the bound for any exchange over the same connections.  One process a site, under wan.sh:
//
//   wan.sh --sites 2 --mbit 200 --rtt 100 -- plain_tcp --rank {rank} --addresses {addresses} --run {run}
//          [--bytes N] [--streams S] [--congestion NAME] [--repetitions N] [--pause SECONDS]
//          [--split even|free]
//
// --bytes is the payload of a site; what goes over the wire is bytes_a_site() in streams.h.  Repetitions go on the same warm connections and start together;
// site 0 prints the median of the slowest site's times.
#include <chrono>
#include <cstdio>
#include <thread>

#include "../bench/median.h"
#include "arguments.h"
#include "base/clock.h"
#include "meeting.h"
#include "streams.h"

using namespace atl;
using namespace atl::wan;

namespace {

void run(const Arguments& in) {
  const std::vector<std::string> addresses = in.list("--addresses");
  const int sites = static_cast<int>(addresses.size()), rank = in.whole("--rank", 0, sites - 1);
  const int streams = in.whole("--streams", 1, 64), repetitions = in.whole("--repetitions", 1, 1000);
  const auto bytes = static_cast<std::size_t>(in.number("--bytes", 1, 1e11));
  const std::chrono::duration<double> pause(in.number("--pause", 0, 1000));
  Meeting meeting(in.word("--run"), rank, sites);
  Streams link(addresses, rank, streams, in.word("--congestion"));
  const Split split = split_of(in.word("--split"));
  std::vector<double> seconds;
  for (int i = -1; i < repetitions; ++i) {  // the first one warms up
    std::this_thread::sleep_for(pause);
    meeting.meet();
    const double start = steady_seconds();
    link.exchange(bytes_a_site(bytes, sites), split);
    const double slowest = meeting.worst(steady_seconds() - start);
    if (i >= 0) seconds.push_back(slowest);
  }
  if (rank != 0) return;
  const double median = bench::median(seconds), sent = static_cast<double>(bytes_a_site(bytes, sites)) * (sites - 1);
  std::printf(
      "%d sites, %zu bytes over %d streams (%s), %s, round trip %.1f ms: median %.4f s, %.1f Mbit/s sent by a site\n",
      sites, bytes, streams, in.word("--split").c_str(), link.congestion().c_str(), 1e3 * link.round_trip(), median,
      sent * 8e-6 / median);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argc,
         argv,
         {{"--rank", ""},
          {"--addresses", ""},
          {"--run", ""},
          {"--bytes", "64e6"},
          {"--streams", "4"},
          {"--congestion", ""},
          {"--repetitions", "5"},
          {"--pause", "0"},
          {"--split", "even"}}});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "plain_tcp: %s\n", e.what());
    return dynamic_cast<const ConfigError*>(&e) != nullptr ? 2 : 3;
  }
}
