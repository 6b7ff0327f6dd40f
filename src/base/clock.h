// The clock that runs never back: for durations and deadlines.  What a run computes never depends on it.
#pragma once
#include <chrono>

namespace atl {

// Seconds since some fixed moment.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace atl
