#include "kernels/topk.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "kernels/clones.h"

namespace atl::kernels {

namespace {

void check_shape(TopkShape s) {
  ATOLL_CHECK(s.keep > 0 && s.keep <= s.block && s.block <= kLargestTopkBlock, s.keep, " of each ", s.block);
}

}  // namespace

std::size_t topk_bytes(TopkShape shape, std::size_t n) {
  const std::size_t rest = n % shape.block;
  return n / shape.block * detail::topk_record_bytes(shape, shape.block) +
         (rest == 0 ? 0 : detail::topk_record_bytes(shape, rest));
}

void encode_topk(TopkShape shape, std::span<const float> in, std::span<std::byte> out, Place place) {
  check_shape(shape);
  const std::size_t bytes = topk_bytes(shape, in.size());
  ATOLL_CHECK(out.size() == bytes, "out ", out.size(), " bytes, ", bytes, " needed");
  auto* const to = reinterpret_cast<unsigned char*>(out.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::encode_topk_cpu(shape, in.data(), in.size(), to);
    case Place::Kind::cuda:
      return detail::encode_topk_cuda(shape, in.data(), in.size(), to, place);
  }
}

bool decode_topk(TopkShape shape, std::span<const std::byte> in, std::span<float> out, Place place) {
  check_shape(shape);
  const std::size_t bytes = topk_bytes(shape, out.size());
  ATOLL_CHECK(in.size() == bytes, "in ", in.size(), " bytes, ", bytes, " needed");
  const auto* const from = reinterpret_cast<const unsigned char*>(in.data());
  if (place.on_host()) return detail::decode_topk_cpu(shape, from, out.data(), out.size());
  detail::decode_topk_cuda(shape, from, out.data(), out.size(), place);
  return true;
}

namespace detail {

namespace {

// The k-th largest of n magnitudes: its bits from the top, by counting.
ATOLL_CLONES std::uint32_t kth_largest(const std::uint32_t* a, std::size_t n, std::size_t k) {
  std::uint32_t found = 0;
  for (std::uint32_t bit = 1U << 30U; bit != 0; bit >>= 1U) {
    const std::uint32_t trial = found | bit;
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < n; ++i) count += a[i] >= trial ? 1U : 0U;
    if (count >= k) found = trial;
  }
  return found;
}

ATOLL_CLONES void magnitudes(const float* in, std::size_t n, std::uint32_t* a, std::uint32_t* largest) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = magnitude(in[i]);
    most = a[i] > most ? a[i] : most;
  }
  *largest = most;
}

ATOLL_CLONES std::size_t count_above(const std::uint32_t* a, std::size_t n, std::uint32_t than) {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < n; ++i) count += a[i] > than ? 1U : 0U;
  return count;
}

using Places = std::array<std::uint16_t, kLargestTopkBlock + 1>;

// Ascending.
void find_places(const std::uint32_t* a, std::size_t n, std::size_t k, Places& places) {
  const std::uint32_t least = kth_largest(a, n, k);
  std::size_t equal = k - count_above(a, n, least), found = 0;  // the first so many of those that equal the least
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i] < least) continue;
    if (a[i] == least && equal == 0) continue;
    if (a[i] == least) --equal;
    places[found++] = static_cast<std::uint16_t>(i);
  }
}

// places: [k], and one zero more.
void write_places(const Places& places, std::size_t k, unsigned char* out) {
  for (std::size_t i = 0; i < k; i += 2) {
    const unsigned pair = places[i] | static_cast<unsigned>(places[i + 1]) << 12U;
    *out++ = static_cast<unsigned char>(pair);
    *out++ = static_cast<unsigned char>(pair >> 8U);
    if (i + 1 < k) *out++ = static_cast<unsigned char>(pair >> 16U);
  }
}

unsigned read_place(const unsigned char* in, std::size_t i) {
  in += i / 2 * 3;
  return i % 2 == 0 ? in[0] | (in[1] & 15U) << 8U
                    : static_cast<unsigned>(in[1]) >> 4U | static_cast<unsigned>(in[2]) << 4U;
}

void encode_block(TopkShape shape, const float* in, std::size_t n, unsigned char* out) {
  const std::size_t k = kept(shape, n), h = packed_bytes(k, 2);
  std::array<std::uint32_t, kLargestTopkBlock> a;
  std::uint32_t most = 0;
  magnitudes(in, n, a.data(), &most);
  Places places;
  std::array<std::uint16_t, 4> entries;
  unsigned char* const codes = out + kTopkTable + places_bytes(k);
  std::memset(codes, 0, h);
  if (most >= kInfinity) {
    for (std::size_t i = 0; i < k; ++i) places[i] = static_cast<std::uint16_t>(i);
    entries.fill(kBf16Nan);
  } else {
    find_places(a.data(), n, k, places);
    const Grid grid = grid_of(most);
    std::int64_t sum = 0, squares = 0;
    for (std::size_t i = 0; i < k; ++i) {
      const auto integer = static_cast<std::int32_t>(on_grid(in[places[i]], grid));
      sum += integer;
      squares += std::int64_t{integer} * integer;
    }
    const Buckets buckets = buckets_of(sum, squares, k, 4);
    std::array<std::uint64_t, 4> tally{};
    for (std::size_t i = 0; i < k; ++i) {
      const float integer = on_grid(in[places[i]], grid);
      const std::uint32_t code = bucket_of(integer, buckets);
      tally[code] += counted(static_cast<std::int32_t>(integer));
      codes[i % h] = static_cast<unsigned char>(codes[i % h] | code << (2 * (i / h)));
    }
    for (std::size_t c = 0; c < entries.size(); ++c) entries[c] = entry_of(tally[c], grid);
  }
  places[k] = 0;
  std::memcpy(out, entries.data(), kTopkTable);
  write_places(places, k, out + kTopkTable);
}

bool decode_block(TopkShape shape, const unsigned char* in, float* out, std::size_t n) {
  const std::size_t k = kept(shape, n), h = packed_bytes(k, 2);
  std::array<std::uint16_t, 4> entries;
  std::memcpy(entries.data(), in, kTopkTable);
  const unsigned char *places = in + kTopkTable, *codes = places + places_bytes(k);
  std::memset(out, 0, n * sizeof(float));
  std::size_t least = 0;  // of the next place
  for (std::size_t i = 0; i < k; ++i) {
    const std::size_t place = read_place(places, i);
    if (place < least || place >= n) return false;
    least = place + 1;
    out[place] = as_float(fp32_bits(entries[codes[i % h] >> (2 * (i / h)) & 3]));
  }
  return true;
}

}  // namespace

void encode_topk_cpu(TopkShape shape, const float* in, std::size_t n, unsigned char* out) {
  for (std::size_t at = 0; at < n; at += shape.block) {
    const std::size_t m = std::min(shape.block, n - at);
    encode_block(shape, in + at, m, out);
    out += topk_record_bytes(shape, m);
  }
}

bool decode_topk_cpu(TopkShape shape, const unsigned char* in, float* out, std::size_t n) {
  bool right = true;
  for (std::size_t at = 0; at < n; at += shape.block) {
    const std::size_t m = std::min(shape.block, n - at);
    right = decode_block(shape, in, out + at, m) && right;
    in += topk_record_bytes(shape, m);
  }
  return right;
}

}  // namespace detail

}  // namespace atl::kernels
