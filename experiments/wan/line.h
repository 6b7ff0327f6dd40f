// Line: one direction of a site's access line: a drop-tail queue that is drained at a fixed rate.  Times in, times out: no clock, no I/O.
//
// Exact whatever the caller's own delays are: a packet's departure follows from the departures before it, not from when this is called.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace atl::wan {

using Time = std::chrono::nanoseconds;  // of the steady clock

class Line {
 public:
  struct Count {
    std::uint64_t bytes = 0;    // that left
    std::uint64_t dropped = 0;  // packets for which there was no room
  };
  Line(double bits_per_second, std::size_t queue_bytes) : rate_(bits_per_second), queue_bytes_(queue_bytes) {}

  // A packet comes at `now`, not before the one before: when its last bit has left; nothing when the queue is full.  The queue
  // holds what has not left wholly, the packet on the line included.
  std::optional<Time> enter(Time now, std::size_t bytes) {
    for (; !queue_.empty() && queue_.front().first <= now; queue_.pop_front()) queued_ -= queue_.front().second;
    if (queued_ + bytes > queue_bytes_) {
      ++count_.dropped;
      return std::nullopt;
    }
    free_at_ = std::max(free_at_, now) + Time(static_cast<std::int64_t>(static_cast<double>(bytes) * 8e9 / rate_));
    queue_.emplace_back(free_at_, bytes);
    queued_ += bytes;
    count_.bytes += bytes;
    return free_at_;
  }
  const Count& count() const { return count_; }

 private:
  double rate_;
  std::size_t queue_bytes_, queued_ = 0;
  Time free_at_{0};
  std::deque<std::pair<Time, std::size_t>> queue_;  // when it has left, its bytes
  Count count_;
};

}  // namespace atl::wan
