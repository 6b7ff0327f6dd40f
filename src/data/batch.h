// Batch: what one inner step of one site is made from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace atl {

// `sequences` windows of `length` + 1 tokens, one after the other: tokens[s * (length + 1) + i].
// The first `length` of a window are inputs, the last `length` targets.
struct Batch {
  std::size_t sequences = 0;
  std::size_t length = 0;            // T, the context
  std::vector<std::int32_t> tokens;  // [sequences * (length + 1)]
  std::uint64_t first_position = 0;  // of its first sample in the run's order of samples
  std::size_t token_count() const { return sequences * length; }
};

}  // namespace atl
