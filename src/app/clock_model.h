// ClockModel: the virtual time of a run, from three numbers: seconds a step, Mbit/s and round trip.
//
// The sites are taken to be alike, so one clock stands for all.  Their link carries one exchange at a time, full duplex:
// what the site sends at the bandwidth, and half a round trip for each time that something must arrive before the next
// can be sent: once in a swap, an all-gather or inline, twice when owners send means back.  Headers travel just before
// their payload and cost bytes only (docs/link.md).  Not modelled: loss, slow start, encoding, the CPU that both share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/codec.h"

namespace atl {

// What one site sends in one exchange.
struct Traffic {
  double bytes = 0;    // payload and headers
  int trips = 0;       // half round trips
  double headers = 0;  // of bytes
};
// Of a slot of n values among `sites` of `all` sites (headers go to all), as the link sends it.
Traffic traffic_of(std::size_t n, int sites, int all, const Codec& codec, const Codec& mean_codec, bool with_header);

class ClockModel {
 public:
  struct Config {
    double step_seconds = 0;    // > 0
    double bandwidth_mbit = 0;  // of each site, each direction; > 0
    double rtt_ms = 0;
  };
  ClockModel(const Config& config, std::size_t slots);

  // The inner step's compute passes.
  void step();
  // A payload is handed over now; or (DDP, called before step()) bucket i of n at its place in the backward pass, the
  // last two thirds of the step that comes.
  void sent(int slot, const Traffic& traffic);
  void sent_during_step(int slot, const Traffic& traffic, int i, int n);
  // The trainer waits for the slot's answer.
  void waited(int slot);

  double exchange_seconds(const Traffic& traffic) const;
  double now() const { return now_; }
  double utilisation() const { return now_ > 0 ? compute_ / now_ : 1; }  // inner compute time / wall time

 private:
  void carry(int slot, double at, const Traffic& traffic);
  Config config_;
  std::vector<double> arrives_;  // a slot
  double now_ = 0, compute_ = 0, link_free_ = 0;
};

}  // namespace atl
