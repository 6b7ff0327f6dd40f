#include <bit>

#include "kernels/clones.h"
#include "kernels/hash.h"
#include "kernels/hash_mix.h"

namespace atl::kernels {

Hash128 hash_values(std::span<const float> values, std::uint64_t offset, Place place) {
  switch (place.kind) {
    case Place::Kind::host:
      return detail::hash_values_cpu(values.data(), values.size(), offset);
    case Place::Kind::cuda:
      return detail::hash_values_cuda(values.data(), values.size(), offset, place);
  }
  return {};
}

ATOLL_CLONES Hash128 detail::hash_values_cpu(const float* values, std::size_t n, std::uint64_t offset) {
  std::uint64_t high = 0, low = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const HashWords words = hash_words(offset + i, std::bit_cast<std::uint32_t>(values[i]));
    high += words.high;
    low += words.low;
  }
  return {.high = high, .low = low};
}

}  // namespace atl::kernels
