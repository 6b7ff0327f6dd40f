// GlooTransport: the connections of one generation.  A stream is two contexts, one a direction, on a device (thread, epoll
// loop) of its own: a thread that sends holds the lock of its connection, and Gloo's device would spin on that lock as long
// as something arrives there.
//
// One message is one operation with its own tag; both sides must use equal sizes (docs/link.md, invariant 6).  Any failure is an exception of Gloo's;
// the link process then ends, so nothing is ever taken down in order.  For the exchange thread alone.
#pragma once
#include <gloo/context.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "comm/emulated_uplink.h"
#include "comm/store.h"

namespace atl::link {

struct WireBytes {
  std::uint64_t sent = 0, retransmitted = 0, received = 0;  // sent includes retransmitted; without IP and TCP headers
};

// What the TCP connections that this process has when it is made have sent (TCP_INFO).  Any thread.
// In a file of its own, tcp_bytes.cpp: <linux/tcp.h> and <netinet/tcp.h> exclude each other.
class TcpCounter {
 public:
  TcpCounter();         // of no connections
  void find();          // in the descriptor table
  double round_trip();  // seconds, the largest tcpi_min_rtt
  WireBytes count();    // of one that has ended: what it was before
  // TCP's congestion control of all of them, by the kernel's name.  Throws ConfigError when the kernel has none of that name
  // (or not for this user).
  void set_congestion(const std::string& name);
  // Where a send buffer's size has been fixed: gives it back to the kernel, which lets it grow.
  void free_send_buffers();

 private:
  struct Socket {
    int fd = -1;
    WireBytes bytes;
  };
  std::mutex mutex_;
  std::vector<Socket> sockets_;
};

class GlooTransport {
 public:
  // Blocks until all are connected (the caller's deadline is the front thread's).  `prefix` of the rendezvous keys is new in every generation.
  GlooTransport(const FileStore& store, const std::string& prefix, const std::string& address, int rank, int sites,
                int streams, const Emulate& emulate = {}, const std::string& congestion = "");
  ~GlooTransport();

  int rank() const { return rank_; }
  int sites() const { return sites_; }
  int streams() const { return static_cast<int>(contexts_.size() / 2) - 1; }

  // A receive that is posted; the memory must stay until wait() has returned.
  class Receive {
   public:
    Receive() = default;
    void wait(std::atomic<int>& waiting_for);  // leaves the sender's rank there meanwhile

   private:
    friend class GlooTransport;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    gloo::transport::Buffer* fixed_ = nullptr;  // or this
    int from_ = -1;
  };
  Receive receive(int from, std::uint64_t tag, int stream, std::byte* data, std::size_t bytes);

  // For small messages that are repeated: the same memory every time for one (from, id) or (to, id).  They have connections
  // of their own, and neither notices nor receives to post: one system call each.  The receiver must have called this once
  // before the message arrives, or its device spins until then; a second message of one id may only be sent when the first
  // one has been taken.
  Receive receive_fixed(int from, int id, std::byte* data, std::size_t bytes);
  void send_fixed(int to, int id, const std::byte* data, std::size_t bytes);

  // Sends to each of `to`; the memory must stay until wait_sends() has returned.
  void send(const std::vector<int>& to, std::uint64_t tag, int stream, const std::byte* data, std::size_t bytes);
  void wait_sends(std::atomic<int>& waiting_for);

  // Seconds: the longest of the shortest ones seen so far; or what is emulated, when that is more.
  double round_trip() const { return std::max(counter_.round_trip(), uplink_ ? uplink_->round_trip() : 0); }
  WireBytes wire_bytes() const;  // of this process's connections; some 2 us for each; from any thread

 private:
  gloo::Context& context(int stream, int from, int to) const;
  gloo::transport::Buffer* fixed(bool receive, int other, int id, std::byte* data, std::size_t bytes);

  int rank_, sites_;
  // A stream: from lower to higher ranks, from higher to lower.  Behind the last stream the two of the fixed messages.
  std::vector<std::shared_ptr<gloo::Context>> contexts_;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sending_;
  std::map<std::tuple<bool, int, int>, std::unique_ptr<gloo::transport::Buffer>> fixed_;  // received, other rank, id
  std::vector<gloo::transport::Buffer*> sending_fixed_;
  std::map<int, std::size_t> largest_fixed_;  // bytes that were sent, by other rank
  mutable TcpCounter counter_;
  std::unique_ptr<EmulatedUplink> uplink_;  // when one is asked for
};

}  // namespace atl::link
