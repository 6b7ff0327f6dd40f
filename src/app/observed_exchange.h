// ObservedExchange: passes everything through and looks at it: how long waits took, what was sent.  Site reads no
// clock.
#pragma once
#include <functional>

#include "base/clock.h"
#include "comm/exchange.h"

namespace atl {

class ObservedExchange : public Exchange {
 public:
  explicit ObservedExchange(Exchange& real) : real_(real) {}

  std::function<void(const Outgoing&, std::size_t payload_bytes)> on_send;
  std::function<void(int slot)> on_wait;
  double waited_s() const { return waited_s_; }  // in wait() and finish(), so far

  int rank() const override { return real_.rank(); }
  int sites() const override { return real_.sites(); }
  std::span<std::byte> payload(int slot) override { return real_.payload(slot); }
  void send(const Outgoing& outgoing) override {
    if (on_send) on_send(outgoing, real_.payload(outgoing.slot).size());
    real_.send(outgoing);
  }
  Answer wait(int slot) override {
    if (on_wait) on_wait(slot);
    const double start = steady_seconds();
    Answer answer = real_.wait(slot);
    waited_s_ += steady_seconds() - start;
    return answer;
  }
  void finish() override {
    const double start = steady_seconds();
    real_.finish();
    waited_s_ += steady_seconds() - start;
  }
  ExchangeTotals totals() override { return real_.totals(); }

 private:
  Exchange& real_;
  double waited_s_ = 0;
};

}  // namespace atl
