// wan_emulator: joins network namespaces by an emulated long, slow, lossy network, as a star (star.h).  Linux, root.
//
//   wan_emulator [--mbit X] [--rtt MS] [--jitter MS] [--loss PERCENT] [--queue_kb N] [--seed N] [--control FIFO] NAME=NETNS...
//
// Gives every namespace a device wan0 with address 10.88.0.1, .2, ... in the order given; all end with this program (SIGTERM, SIGINT).  It makes
// FIFO when everything is there; lines written to it are commands: `drop NAME`, `heal NAME`, `counts`.  wan.sh does all this.
// Not here: bandwidth above what one core copies (some 1 Gbit/s of one site), reordering, IPv6.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "star.h"

namespace atl::wan {
namespace {

volatile std::sig_atomic_t stopped = 0;

struct Options {
  StarConfig star;
  std::string control;
  std::vector<Site> sites;
};

double number(const std::string& key, const std::string& value, double least, double most) {
  double x = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
  if (error != std::errc() || end != value.data() + value.size() || !(x >= least && x <= most))
    throw ConfigError(text(key, " = ", value, ", but it must be a number from ", least, " to ", most));
  return x;
}

Options parse(const std::vector<std::string>& arguments) {
  Options o;
  const std::map<std::string, std::function<void(const std::string&, const std::string&)>> known{
      {"--mbit", [&](auto& key, auto& value) { o.star.mbit = number(key, value, 0.01, 10'000); }},
      {"--rtt", [&](auto& key, auto& value) { o.star.rtt_ms = number(key, value, 0, 10'000); }},
      {"--jitter", [&](auto& key, auto& value) { o.star.jitter_ms = number(key, value, 0, 5'000); }},
      {"--loss", [&](auto& key, auto& value) { o.star.loss_percent = number(key, value, 0, 100); }},
      {"--queue_kb",
       [&](auto& key, auto& value) {
         o.star.queue_bytes = static_cast<std::size_t>(1e3 * number(key, value, 2, 1e6));
       }},
      {"--seed", [&](auto& key, auto& value) { o.star.seed = static_cast<std::uint64_t>(number(key, value, 0, 1e9)); }},
      {"--control", [&](auto&, auto& value) { o.control = value; }}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (const auto option = known.find(word); option != known.end()) {
      if (++i == arguments.size()) throw ConfigError(text(word, " needs a value"));
      option->second(word, arguments[i]);
    } else if (const auto equals = word.find('='); equals != std::string::npos && word[0] != '-') {
      o.sites.push_back({word.substr(0, equals), word.substr(equals + 1)});
    } else {
      throw ConfigError(text(word, " is neither an option nor NAME=NETNS"));
    }
  }
  if (o.sites.size() < 2 || o.sites.size() > kMostSites)
    throw ConfigError(text(o.sites.size(), " sites, but there must be 2 to ", kMostSites, ": NAME=NETNS for each"));
  if (o.star.jitter_ms > o.star.rtt_ms / 2)
    throw ConfigError(
        text("--jitter = ", o.star.jitter_ms, ", but it must be at most half of --rtt (", o.star.rtt_ms, ")"));
  return o;
}

// Opened for writing too, so that it never ends.
int make_control(const std::string& path) {
  if (path.empty()) return -1;
  if (mkfifo(path.c_str(), 0600) != 0) throw ConfigError(text("cannot make ", path, ": ", std::strerror(errno)));
  return open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

void obey(int control, std::string& rest, Star& star) {
  char buffer[4096];
  const ssize_t n = read(control, buffer, sizeof buffer);
  if (n > 0) rest.append(buffer, static_cast<std::size_t>(n));
  for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
    std::fputs(star.command(rest.substr(0, end)).c_str(), stderr);
}

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

void run(const Options& options) {
  sigset_t stopping, before;  // these arrive in ppoll only
  sigemptyset(&stopping);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&stopping, signal);
    std::signal(signal, [](int) { stopped = 1; });
  }
  sigprocmask(SIG_BLOCK, &stopping, &before);
  prctl(PR_SET_TIMERSLACK, 1UL);  // else every sleep is 50 us too long

  Star star(options.star, options.sites);
  std::vector<pollfd> polled;
  for (const int tun : star.descriptors()) polled.push_back({tun, POLLIN, 0});
  const int control = make_control(options.control);
  polled.push_back({control, POLLIN, 0});
  std::string rest;
  while (!stopped) {
    const Time wait = std::clamp<Time>(star.next() - now(), Time(0), std::chrono::seconds(1));
    const timespec timeout{.tv_sec = wait.count() / 1'000'000'000, .tv_nsec = wait.count() % 1'000'000'000};
    ppoll(polled.data(), polled.size(), &timeout, &before);
    if (polled.back().revents & POLLIN) obey(control, rest, star);
    star.turn(now());
  }
  if (control >= 0) unlink(options.control.c_str());
  std::fputs(star.counts().c_str(), stderr);
}

}  // namespace
}  // namespace atl::wan

int main(int argc, char** argv) {
  try {
    atl::wan::run(atl::wan::parse({argv + 1, argv + argc}));
    return 0;
  } catch (const atl::ConfigError& e) {
    std::fprintf(stderr, "wan_emulator: %s\n", e.what());
    return 2;
  }
}
