// Exchange: one site's way to the others.  The engine writes a fragment's payload, sends it, and later waits for the
// mean.
//
// Implementations: InProcess (comm/in_process.h: simulate and unit tests) and LinkClient (comm/link_client.h: launch
// and train, through the atoll-link process).  Both form the mean with comm/average.h, so they give the same bits.
//
// Who must call it together: every site sends the same slots in the same order (the schedule is a pure function of the
// step).  Exchanges are numbered from 1 in that order; an answer is all or nothing.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"

namespace atl {

// One message buffer: a fragment (DiLoCo) or a gradient bucket (DDP).  Slots are numbered from 0 in the order given.
struct SlotSpec {
  std::size_t values = 0;  // n floats; the payload's size follows from the codec
};

// What a site says of a payload; becomes the header (comm/header.h) and is compared between sites.
struct Outgoing {
  int slot = 0;
  std::uint32_t round = 0;
  std::uint64_t step = 0;    // inner steps done
  std::uint64_t tokens = 1;  // trained since this slot's last exchange: the weight in the mean; > 0
  bool finite = true;        // false: the payload holds a NaN or an infinity; nobody applies this exchange
  bool first_of_group =
      true;  // false: goes with the exchange before it (later buckets of one DDP step): no header of its own
  // Averaged within each cluster of sites only; all sites send it, in the same order.
  bool in_cluster = false;
  // The exchange after this one, when that is certain (a promise; its receives are posted early).  -1: not known.
  int next_slot = -1;
  bool next_first_of_group = true, next_in_cluster = false;
  Hash128 global_hash;  // of the Θ span and its outer state; must agree
};

struct Answer {
  std::span<const float> mean;  // [slot's values], on the host; valid until the next send() of this slot
  std::uint64_t number = 0;     // the exchange's
  std::uint32_t generation = 0;
  std::uint64_t tokens = 0;         // of all sites together
  int sites = 0;                    // in the roster
  double link_s = 0;                // seconds the exchange took in the link, headers to last byte
  std::uint64_t payload_bytes = 0;  // this site handed to the transport for this exchange, without headers
  std::uint64_t header_bytes = 0;
  std::uint64_t wire_bytes =
      0;  // this site's sockets sent since the answer before (TCP_INFO: retransmissions included)
  std::uint64_t retransmitted_bytes = 0, received_bytes = 0;  // likewise
};

struct ExchangeTotals {
  std::uint64_t exchanges = 0, payload_bytes = 0, header_bytes = 0, wire_bytes = 0, retransmitted_bytes = 0,
                received_bytes = 0;
  std::uint32_t generations = 0;  // 1 without a fault
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int sites() const = 0;

  // Where the codec writes the slot's payload.  Not to be touched between send() and wait() of the slot.
  virtual std::span<std::byte> payload(int slot) = 0;

  // Hands the payload over; does not block on other sites.  Throws Bug if the slot is already in flight.
  virtual void send(const Outgoing& outgoing) = 0;

  // Blocks until the slot's mean is there.  Throws LinkError (a site or link failed for longer than the timeout; which,
  // and why), ConfigError (sites disagree about their settings, or a payload is not finite: which site, which step).
  // After a throw this site has applied nothing of the exchange; another may have (docs/link.md).
  virtual Answer wait(int slot) = 0;

  // Every site has all answers, or none can be helped: returns when all have come here, or after the timeout.
  virtual void finish() = 0;

  virtual ExchangeTotals totals() = 0;
};

}  // namespace atl
