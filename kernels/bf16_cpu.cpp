#include <bit>

#include "base/error.h"
#include "kernels/bf16.h"
#include "kernels/clones.h"

namespace atl::kernels {

void to_bf16(std::span<const float> in, std::span<std::uint16_t> out, Place place) {
  ATOLL_CHECK(in.size() == out.size(), "in ", in.size(), ", out ", out.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::to_bf16_cpu(in.data(), out.data(), in.size());
    case Place::Kind::cuda:
      return detail::to_bf16_cuda(in.data(), out.data(), in.size(), place);
  }
}

void from_bf16(std::span<const std::uint16_t> in, std::span<float> out, Place place) {
  ATOLL_CHECK(in.size() == out.size(), "in ", in.size(), ", out ", out.size());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::from_bf16_cpu(in.data(), out.data(), in.size());
    case Place::Kind::cuda:
      return detail::from_bf16_cuda(in.data(), out.data(), in.size(), place);
  }
}

ATOLL_CLONES void detail::to_bf16_cpu(const float* in, std::uint16_t* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = bf16_bits(std::bit_cast<std::uint32_t>(in[i]));
}

ATOLL_CLONES void detail::from_bf16_cpu(const std::uint16_t* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(fp32_bits(in[i]));
}

}  // namespace atl::kernels
