// EmulatedUplink: makes a fast network feel like a slow, long one.  Every message that this site sends is held back until it would
// have arrived.  Needs no root.  docs/link.md, "Emulated network", says what it leaves out.
//
//   leaves    when the site's uplink is free: messages leave one after the other, in the order handed over
//   takes     its bytes on the wire (with the headers of TCP, IP and Gloo) at the uplink's rate
//   arrives   rtt/2 + jitter later; never before an earlier message to the same site on the same stream
//
// Random loss does not drop messages: it lowers the rate to what CUBIC reaches with it (RFC 8312, section 5.1, equation 6, and
// section 4.2's TCP-friendly region), for each of the streams.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace atl::link {

struct Emulate {
  double bandwidth_mbit = 0;  // of the uplink; 0: no emulation
  double rtt_ms = 0;
  double jitter_ms = 0;     // uniform in [0, jitter), on top of rtt/2
  double loss_percent = 0;  // of packets
  bool on() const { return bandwidth_mbit > 0; }
};

// Bytes of a message on the wire: Gloo's preamble, and TCP and IP headers (with timestamps) of each segment.
std::size_t bytes_on_wire(std::size_t message_bytes);
// Mbit/s that `streams` TCP connections reach together.
double reached_mbit(const Emulate& emulate, int streams);

class EmulatedUplink {
 public:
  EmulatedUplink(const Emulate& emulate, int streams, std::uint64_t seed);
  ~EmulatedUplink();  // what is still held back is not sent
  EmulatedUplink(const EmulatedUplink&) = delete;
  EmulatedUplink& operator=(const EmulatedUplink&) = delete;

  // Calls send() on a thread of its own when the message would have arrived.
  void hold(int to, int stream, std::size_t bytes, std::function<void()> send);
  // Until all were sent.  Throws what one of them threw.
  void wait();

  double round_trip() const { return 2 * latency_; }  // seconds

 private:
  void run();

  double seconds_a_byte_, latency_, jitter_;
  std::uint64_t seed_, count_ = 0;
  double free_ = 0;                                // when the uplink is
  std::map<std::pair<int, int>, double> arrived_;  // (to, stream): when the last message did
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<double, std::function<void()>> held_;  // by the time they arrive
  bool sending_ = false, stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace atl::link
