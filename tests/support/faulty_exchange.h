// FaultyExchange: one site's exchange with a fault at a given point, for tests.
//
// Every site gets the same fault around its own exchange; only `site` acts on it.  Exchanges are counted from 1, as everywhere.
#pragma once
#include <set>
#include <utility>

#include "base/error.h"
#include "comm/exchange.h"

namespace atl {

struct Fault {
  int site = 0;                     // the rank that fails
  std::uint64_t drop_at = 0;        // from this exchange on nothing of it reaches the others; 0: never
  std::uint64_t not_finite_at = 0;  // it says that this payload holds a NaN
  std::uint64_t drift_at = 0;       // its Θ is another one, as of this exchange and no other
};

// What the others see of a dropped exchange is the real one's timeout; the site itself gets a LinkError from wait().
class FaultyExchange : public Exchange {
 public:
  FaultyExchange(Exchange& real, Fault fault) : real_(real), fault_(fault) {}  // `real` must outlive it

  int rank() const override { return real_.rank(); }
  int sites() const override { return real_.sites(); }
  std::span<std::byte> payload(int slot) override { return real_.payload(slot); }

  void send(const Outgoing& outgoing) override {
    ++sent_;
    if (dropped()) {
      ATOLL_CHECK(lost_.insert(outgoing.slot).second, "slot ", outgoing.slot, " is in flight already");
      return;
    }
    Outgoing changed = outgoing;
    if (here(fault_.not_finite_at)) changed.finite = false;
    if (here(fault_.drift_at)) changed.global_hash.low ^= 1U;
    real_.send(changed);
  }

  Answer wait(int slot) override {
    if (lost_.erase(slot) > 0)
      throw LinkError(text("site ", rank(), ": dropped out at exchange ", fault_.drop_at, ", as the test wants it"));
    return real_.wait(slot);
  }

  void finish() override {
    if (!dropped()) real_.finish();
  }
  ExchangeTotals totals() override { return real_.totals(); }

 private:
  bool mine() const { return rank() == fault_.site; }
  bool dropped() const { return mine() && fault_.drop_at != 0 && sent_ >= fault_.drop_at; }
  bool here(std::uint64_t at) const { return mine() && at != 0 && sent_ == at; }

  Exchange& real_;
  Fault fault_;
  std::uint64_t sent_ = 0;
  std::set<int> lost_;  // slots sent into the void and not waited for yet
};

}  // namespace atl
