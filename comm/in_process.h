// InProcess: M sites of one process exchange through memory.  The same means, bit for bit, as the link's
// (comm/average.h, exchange_mean).  Used by simulate (one thread, lockstep) and by unit tests (one thread a site).
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/codec.h"
#include "comm/exchange.h"

namespace atl {

class InProcessHub;

// One endpoint a site.  send() never blocks.  wait() blocks until all sites have sent the exchange; past the timeout it
// throws LinkError naming the ranks that have not.  The mean is computed once, by the site that sends last; a failure of it is
// thrown by wait() at every site.  finish() waits for nobody: in simulate one thread runs all sites, and every answer that a
// site has taken was complete.
//
// Headers are made and compared as on a wire.  Later exchanges of a group have no vote on what is finite and the weights of
// the group's last header: that of its first, or of one that travelled inline.  Bytes are counted as the link would send them
// (sent_payload_bytes); nothing is on a wire: wire_bytes is 0.
class InProcess : public Exchange {
 public:
  InProcess(InProcessHub& hub, int rank);
  ~InProcess() override;
  int rank() const override;
  int sites() const override;
  std::span<std::byte> payload(int slot) override;
  void send(const Outgoing& outgoing) override;
  Answer wait(int slot) override;
  void finish() override;
  ExchangeTotals totals() override;

 private:
  InProcessHub& hub_;
  int rank_;
};

class InProcessHub {
 public:
  struct Config {
    int sites = 1;
    std::vector<SlotSpec> slots;
    std::vector<std::string> names;  // of the sites, for messages; empty: "site 0" ...
    CodecConfig codec, mean_codec;
    int clusters = 1;  // of sites / clusters neighbours in rank order, for exchanges within a cluster
    std::chrono::milliseconds timeout{10'000};
  };
  explicit InProcessHub(Config config);
  ~InProcessHub();
  InProcess& site(int rank);

 private:
  friend class InProcess;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl
