// ObservedExchange: passes everything through and looks at it: how long waits took, what was sent.  Site reads no
// clock.
#pragma once
#include <functional>
#include <map>

#include "base/clock.h"
#include "comm/exchange.h"

namespace atl {

class ObservedExchange : public Exchange {
 public:
  explicit ObservedExchange(Exchange& real) : real_(real) {}

  std::function<void(const Outgoing&, std::size_t payload_bytes)> on_send;
  std::function<void(int slot)> on_wait;
  double waited_s() const { return waited_s_; }    // in wait() and finish(), so far
  double encoded_s() const { return encoded_s_; }  // from payload() to send(): encoding, hash, finite check; so far
  double encoded_s(int slot) const {               // of the slot's last send
    const auto found = encoded_.find(slot);
    return found == encoded_.end() ? 0 : found->second;
  }

  int rank() const override { return real_.rank(); }
  int sites() const override { return real_.sites(); }
  std::span<std::byte> payload(int slot) override {
    encoding_since_ = steady_seconds();
    return real_.payload(slot);
  }
  void send(const Outgoing& outgoing) override {
    encoded_[outgoing.slot] = steady_seconds() - encoding_since_;
    encoded_s_ += encoded_[outgoing.slot];
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
  double waited_s_ = 0, encoded_s_ = 0, encoding_since_ = 0;
  std::map<int, double> encoded_;  // a slot
};

}  // namespace atl
