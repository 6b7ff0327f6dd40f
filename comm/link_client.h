// LinkClient: the trainer's end of its atoll-link process (docs/link.md).  No libtorch and no Gloo here.
//
// Starts the link as a child (which slot comes next is told in Outgoing::next_slot), shares one memory segment with it, restarts it when it dies and repeats what has no answer.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/codec.h"
#include "comm/emulated_uplink.h"
#include "comm/exchange.h"

namespace atl {

struct LinkConfig {
  std::string site;                // this site's name
  std::vector<std::string> sites;  // all, in rank order
  std::string store = "";          // "file:///folder"
  std::string interface = "";  // "lo", "eth0", or an address of this machine; "" is refused except by tests of the text
  int streams = 4;             // Gloo contexts (TCP streams a pair of sites)
  std::size_t piece_bytes = 16U << 20U;  // of a message; whole payloads are cut into such; comm.piece_mib's default
  std::chrono::milliseconds timeout{30'000};   // of one exchange, and of waiting for sites
  std::chrono::milliseconds start_timeout{0};  // of waiting for everybody at the start; 0: timeout
  CodecConfig codec, mean_codec;
  int clusters = 1;        // of sites / clusters neighbours in rank order
  std::string congestion;  // TCP's, by the kernel's name; "": the system's
  link::Emulate emulate;   // of this site's uplink
  std::vector<SlotSpec> slots;
  Hash128 layout_hash;
  std::vector<std::pair<std::string, std::string>>
      settings;                   // must agree at all sites: key, value; differences are listed by key
  std::filesystem::path program;  // atoll-link; empty: beside this program
  std::string log_level = "info";
  std::function<bool()>
      interrupted;  // polled in every wait (the constructor's too), at least every 100 ms; true ends it with Interrupted
};

class LinkClient : public Exchange {
 public:
  // Starts the link and returns when the first generation stands.  Throws ConfigError (store not writable, no such
  // interface, settings that differ, two sites of one name), LinkError (who did not come).
  explicit LinkClient(LinkConfig config);
  ~LinkClient() override;  // ends the link

  int rank() const override;
  int sites() const override;
  std::span<std::byte> payload(int slot) override;
  void send(const Outgoing& outgoing) override;
  Answer wait(int slot) override;
  void finish() override;
  ExchangeTotals totals() override;

  // Tells the others (through the store) that this site goes and why, so that they do not wait for the timeout.
  void leave(const std::string& reason);
  int link_pid() const;  // for tests and logs

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A wait was given up because LinkConfig::interrupted said so.
class Interrupted : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace atl
