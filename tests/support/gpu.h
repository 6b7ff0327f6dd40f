// For tests that need a GPU: when to skip them, and values on the card.
#pragma once
#include <cstdlib>
#include <vector>

#include "kernels/buffer.h"

namespace atl {

// With ATOLL_REQUIRE_GPU set nothing is skipped, so a machine that should have a GPU and has none fails instead of
// passing with fewer tests.
inline bool no_gpu() { return !cuda_available() && std::getenv("ATOLL_REQUIRE_GPU") == nullptr; }

inline Place gpu() { return {.kind = Place::Kind::cuda}; }

// A copy of host values on the card.
class GpuFloats {
 public:
  explicit GpuFloats(const std::vector<float>& host) : buffer_(host.size(), gpu()) {
    copy(host, {}, buffer_.values(), gpu());
  }
  std::span<float> values() { return buffer_.values(); }
  std::vector<float> to_host() const {
    std::vector<float> host(buffer_.values().size());
    copy(buffer_.values(), gpu(), host, {});
    return host;
  }

 private:
  Buffer buffer_;
};

}  // namespace atl
