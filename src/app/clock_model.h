// ClockModel: the virtual time of a simulated run, from three numbers: seconds a step, Mbit/s and round trip.
//
// The sites are taken to be alike, so one clock stands for all.  Their link carries one exchange at a time:
//   two sites      rtt/2 (headers) + B / bandwidth + rtt/2
//   M > 2 sites    rtt/2 (headers) + 2 (M - 1) / M * B / bandwidth + rtt      (chunks to their owners, means back; full
//   duplex)
// A payload of at most 4096 bytes travels with its header (docs/link.md): no rtt/2 of its own.  Not modelled: loss,
// slow start, encoding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace atl {

class ClockModel {
 public:
  struct Config {
    double step_seconds = 0;    // > 0
    double bandwidth_mbit = 0;  // of each site, each direction; > 0
    double rtt_ms = 0;
    int sites = 1;
  };
  ClockModel(const Config& config, std::size_t slots);

  // The inner step's compute passes.
  void step();
  // A payload is handed over now; or (DDP, called before step()) bucket i of n at its place in the backward pass, the
  // last two thirds of the step that comes.
  void sent(int slot, std::size_t payload_bytes, bool with_header);
  void sent_during_step(int slot, std::size_t payload_bytes, bool with_header, int i, int n);
  // The trainer waits for the slot's answer.
  void waited(int slot);

  double exchange_seconds(std::size_t payload_bytes, bool with_header) const;
  double now() const { return now_; }
  double utilisation() const { return now_ > 0 ? compute_ / now_ : 1; }  // inner compute time / wall time

 private:
  void carry(int slot, double at, std::size_t payload_bytes, bool with_header);
  Config config_;
  std::vector<double> arrives_;  // a slot
  double now_ = 0, compute_ = 0, link_free_ = 0;
};

}  // namespace atl
