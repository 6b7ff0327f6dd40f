#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/clones.h"
#include "kernels/finite.h"

namespace atl::kernels {

bool all_finite(std::span<const float> x, Place place) {
  switch (place.kind) {
    case Place::Kind::host:
      return detail::all_finite_cpu(x.data(), x.size());
    case Place::Kind::cuda:
      return detail::all_finite_cuda(x.data(), x.size(), place);
  }
  return false;
}

namespace detail {

namespace {

// No branch inside, so that it is vectorised: an exponent of all ones is what infinities and NaNs have.
ATOLL_CLONES bool block_finite(const float* x, std::size_t n) {
  constexpr std::uint32_t kExponent = 0x7F800000U;
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < n; ++i) bad |= (std::bit_cast<std::uint32_t>(x[i]) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

}  // namespace

bool all_finite_cpu(const float* x, std::size_t n) {
  constexpr std::size_t kBlock = 4096;  // then one look at whether to go on
  for (std::size_t i = 0; i < n; i += kBlock)
    if (!block_finite(x + i, std::min(kBlock, n - i))) return false;
  return true;
}

}  // namespace detail

}  // namespace atl::kernels
