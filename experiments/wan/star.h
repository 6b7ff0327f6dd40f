// Star: the emulated network.  Every site's uplink ends in one centre, from which every site's downlink starts.
//
//   site a --uplink: loss, queue, rate--> delay and jitter --downlink: queue, rate--> site b
//
// Delays are on the way from the uplink to the centre, so a site's own are the same to all others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "line.h"

namespace atl::wan {

struct StarConfig {
  double mbit = 100;        // of every uplink and every downlink, in 10^6 bits of IP packets a second
  double rtt_ms = 20;       // of small packets between two sites; half of it each way
  double jitter_ms = 0;     // a way takes rtt/2 +- jitter, drawn every 10 ms for every site; packets keep their order
  double loss_percent = 0;  // of packets, each by itself, once a way
  std::size_t queue_bytes = 0;  // of each line; 0: mbit * rtt, at least 16 packets
  std::uint64_t seed = 1;       // of jitter and loss
};

struct Site {
  std::string name;   // in commands and counts
  std::string netns;  // as `ip netns` names it
};

// Addresses are 10.88.0.1 for the first site, and so on.
std::string address_of(std::size_t site);
constexpr std::size_t kMostSites = 250;

class Star {
 public:
  Star(const StarConfig& config, std::vector<Site> sites);  // makes the devices (open_tun)
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  std::vector<int> descriptors() const;  // of the sites' devices, to be polled
  // Takes what the sites have sent, and hands over what is due.  Never blocks.
  void turn(Time now);
  Time next() const;  // when something is due; Time::max() for never

  // "drop NAME": nothing from or to that site passes from now on, not even what is on its way; "heal NAME" ends it; "counts" prints them.
  // Returns what to tell the user.
  std::string command(const std::string& words);
  std::string counts() const;

 private:
  struct Packet {
    Time due;
    std::vector<char> bytes;
  };
  struct End {  // of one site
    Site site;
    int tun;
    Line up, down;
    std::mt19937_64 random;
    Time jitter{0}, next_draw{0};
    std::deque<Packet> to_centre, to_site;
    bool cut = false;
    std::uint64_t lost = 0, cut_off = 0;
    std::uint64_t handed_over = 0, late = 0;  // late: by more than 1 ms, because this program was not scheduled
  };
  void take(End& end, Time now);
  void route(End& end, Time now);
  void hand_over(End& end, Time now);
  Time delay(End& end, Time now);

  StarConfig config_;
  std::vector<End> ends_;
};

}  // namespace atl::wan
