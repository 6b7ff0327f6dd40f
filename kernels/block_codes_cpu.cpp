#include "kernels/block_codes.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/largest.h"

namespace atl::kernels {

namespace {

template <class C>
std::size_t bytes_of(std::size_t n, std::size_t block) {
  const std::size_t rest = n % block;
  return n / block * detail::record_bytes<C>(block) + (rest == 0 ? 0 : detail::record_bytes<C>(rest));
}

}  // namespace

std::size_t block_code_bytes(BlockCode code, std::size_t n, std::size_t block) {
  switch (code) {
    case BlockCode::fp16:
      return bytes_of<detail::Fp16>(n, block);
    case BlockCode::int8:
      return bytes_of<detail::Int8>(n, block);
    case BlockCode::int4:
      return bytes_of<detail::Int4>(n, block);
    case BlockCode::e3m0:
      return bytes_of<detail::E3m0>(n, block);
  }
  return 0;
}

void encode_blocks(BlockCode code, std::span<const float> in, std::size_t block, std::span<std::byte> out,
                   Place place) {
  const std::size_t bytes = block_code_bytes(code, in.size(), block);
  ATOLL_CHECK(out.size() == bytes, "out ", out.size(), " bytes, ", bytes, " needed");
  auto* const to = reinterpret_cast<unsigned char*>(out.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::encode_blocks_cpu(code, in.data(), in.size(), block, to);
    case Place::Kind::cuda:
      return detail::encode_blocks_cuda(code, in.data(), in.size(), block, to, place);
  }
}

void decode_blocks(BlockCode code, std::span<const std::byte> in, std::size_t block, std::span<float> out,
                   Place place) {
  const std::size_t bytes = block_code_bytes(code, out.size(), block);
  ATOLL_CHECK(in.size() == bytes, "in ", in.size(), " bytes, ", bytes, " needed");
  const auto* const from = reinterpret_cast<const unsigned char*>(in.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::decode_blocks_cpu(code, from, out.data(), out.size(), block);
    case Place::Kind::cuda:
      return detail::decode_blocks_cuda(code, from, out.data(), out.size(), block, place);
  }
}

namespace detail {

namespace {

template <class C>
ATOLL_INLINE void pack(const float* in, std::size_t n, typename C::Scale s, unsigned char* out) {
  if constexpr (C::kBits == 16) {
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) {
      const auto half = static_cast<std::uint16_t>(C::code(in[i], s));
      std::memcpy(out + 2 * i, &half, sizeof half);
    }
  } else if constexpr (C::kBits == 8) {
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<unsigned char>(C::code(in[i], s));
  } else {
    const std::size_t h = packed_bytes(n, 4);
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n - h; ++i)
      out[i] = static_cast<unsigned char>(C::code(in[i], s) | C::code(in[i + h], s) << 4U);
    if (n % 2 == 1) out[h - 1] = static_cast<unsigned char>(C::code(in[h - 1], s));
  }
}

template <class C>
ATOLL_INLINE void unpack(const unsigned char* in, std::size_t n, typename C::Scale s, float* out) {
  if constexpr (C::kBits == 16) {
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, in + 2 * i, sizeof half);
      out[i] = C::value(half, s);
    }
  } else if constexpr (C::kBits == 8) {
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) out[i] = C::value(in[i], s);
  } else {
    const std::size_t h = packed_bytes(n, 4);
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < h; ++i) out[i] = C::value(in[i] & 15U, s);
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < n - h; ++i) out[i + h] = C::value(static_cast<std::uint32_t>(in[i]) >> 4U, s);
  }
}

template <class C>
ATOLL_INLINE void encode_all(const float* in, std::size_t n, std::size_t block, unsigned char* out) {
  for (std::size_t at = 0; at < n; at += block) {
    const std::size_t m = std::min(block, n - at);
    const std::uint32_t most = largest(in + at, m);
    const bool finite = most < kInfinity;
    const std::uint32_t header = finite ? C::header(most) : C::kNanHeader;
    std::memcpy(out, &header, C::kHeader);
    if (finite)
      pack<C>(in + at, m, C::scale(header), out + C::kHeader);
    else
      std::memset(out + C::kHeader, 0, record_bytes<C>(m) - C::kHeader);
    out += record_bytes<C>(m);
  }
}

template <class C>
ATOLL_INLINE void decode_all(const unsigned char* in, float* out, std::size_t n, std::size_t block) {
  for (std::size_t at = 0; at < n; at += block) {
    const std::size_t m = std::min(block, n - at);
    std::uint32_t header = 0;
    std::memcpy(&header, in, C::kHeader);
    if (C::nan(header))
      std::fill_n(out + at, m, as_float(kNan));
    else
      unpack<C>(in + C::kHeader, m, C::scale(header), out + at);
    in += record_bytes<C>(m);
  }
}

}  // namespace

ATOLL_CLONES void encode_blocks_cpu(BlockCode code, const float* in, std::size_t n, std::size_t block,
                                    unsigned char* out) {
  switch (code) {
    case BlockCode::fp16:
      return encode_all<Fp16>(in, n, block, out);
    case BlockCode::int8:
      return encode_all<Int8>(in, n, block, out);
    case BlockCode::int4:
      return encode_all<Int4>(in, n, block, out);
    case BlockCode::e3m0:
      return encode_all<E3m0>(in, n, block, out);
  }
}

ATOLL_CLONES void decode_blocks_cpu(BlockCode code, const unsigned char* in, float* out, std::size_t n,
                                    std::size_t block) {
  switch (code) {
    case BlockCode::fp16:
      return decode_all<Fp16>(in, out, n, block);
    case BlockCode::int8:
      return decode_all<Int8>(in, out, n, block);
    case BlockCode::int4:
      return decode_all<Int4>(in, out, n, block);
    case BlockCode::e3m0:
      return decode_all<E3m0>(in, out, n, block);
  }
}

}  // namespace detail

}  // namespace atl::kernels
