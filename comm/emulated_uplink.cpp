#include "comm/emulated_uplink.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/random.h"

namespace atl::link {
namespace {

constexpr double kSegment = 1448;     // bytes of payload in a packet of 1500
constexpr double kHeaders = 20 + 32;  // IP; TCP with timestamps
constexpr double kPreamble = 48;      // Gloo's

}  // namespace

std::size_t bytes_on_wire(std::size_t message_bytes) {
  const double bytes = static_cast<double>(message_bytes) + kPreamble;
  return static_cast<std::size_t>(bytes + std::ceil(bytes / kSegment) * kHeaders);
}

double reached_mbit(const Emulate& e, int streams) {
  if (e.loss_percent <= 0 || e.rtt_ms <= 0) return e.bandwidth_mbit;
  const double loss = e.loss_percent / 100, rtt = e.rtt_ms / 1000;
  // Average window in segments: CUBIC's with C = 0.4, beta = 0.7, and Reno's with the same beta.
  const double cubic = std::pow(0.4 * 3.7 / (4 * 0.3), 0.25) * std::pow(rtt / loss, 0.75);
  const double reno = std::sqrt(1.5 / loss);
  const double each = std::max(cubic, reno) * kSegment * 8 / rtt / 1e6;
  return std::min(e.bandwidth_mbit, each * streams);
}

EmulatedUplink::EmulatedUplink(const Emulate& emulate, int streams, std::uint64_t seed)
    : seconds_a_byte_(8 / (reached_mbit(emulate, streams) * 1e6)),
      latency_(emulate.rtt_ms / 2000),
      jitter_(emulate.jitter_ms / 1000),
      seed_(seed),
      thread_([this] { run(); }) {}

EmulatedUplink::~EmulatedUplink() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void EmulatedUplink::hold(int to, int stream, std::size_t bytes, std::function<void()> send) {
  const std::lock_guard lock(mutex_);
  free_ = std::max(free_, steady_seconds()) + static_cast<double>(bytes_on_wire(bytes)) * seconds_a_byte_;
  double& last = arrived_[{to, stream}];
  last = std::max(last, free_ + latency_ + jitter_ * uniform_float(random_words(seed_, 0, count_++)[0]));
  held_.emplace(last, std::move(send));  // equal times stay in order
  changed_.notify_all();
}

void EmulatedUplink::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return failure_ || (held_.empty() && !sending_); });
  if (failure_) std::rethrow_exception(failure_);
}

void EmulatedUplink::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (held_.empty() || failure_) {
      changed_.wait(lock);
      continue;
    }
    const double left = held_.begin()->first - steady_seconds();
    if (left > 0) {
      changed_.wait_for(lock, std::chrono::duration<double>(left));
      continue;
    }
    const auto send = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    sending_ = true;
    lock.unlock();
    std::exception_ptr failure;
    try {
      send();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    sending_ = false;
    if (failure) failure_ = failure;
    changed_.notify_all();
  }
}

}  // namespace atl::link
