#include "kernels/codebook.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/largest.h"

namespace atl::kernels {

namespace {

void check_shape(unsigned bits, std::size_t block) {
  ATOLL_CHECK(bits == 2 || bits == 4 || bits == 8, bits, " bits a value");
  ATOLL_CHECK(block > 0 && block <= kLargestCodebookBlock, "blocks of ", block);
}

}  // namespace

std::size_t codebook_bytes(unsigned bits, std::size_t n, std::size_t block) {
  const std::size_t rest = n % block;
  return n / block * detail::codebook_record_bytes(bits, block) +
         (rest == 0 ? 0 : detail::codebook_record_bytes(bits, rest));
}

void encode_codebook(unsigned bits, std::span<const float> in, std::size_t block, std::span<std::byte> out,
                     Place place) {
  check_shape(bits, block);
  const std::size_t bytes = codebook_bytes(bits, in.size(), block);
  ATOLL_CHECK(out.size() == bytes, "out ", out.size(), " bytes, ", bytes, " needed");
  auto* const to = reinterpret_cast<unsigned char*>(out.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::encode_codebook_cpu(bits, in.data(), in.size(), block, to);
    case Place::Kind::cuda:
      return detail::encode_codebook_cuda(bits, in.data(), in.size(), block, to, place);
  }
}

void decode_codebook(unsigned bits, std::span<const std::byte> in, std::size_t block, std::span<float> out,
                     Place place) {
  check_shape(bits, block);
  const std::size_t bytes = codebook_bytes(bits, out.size(), block);
  ATOLL_CHECK(in.size() == bytes, "in ", in.size(), " bytes, ", bytes, " needed");
  const auto* const from = reinterpret_cast<const unsigned char*>(in.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::decode_codebook_cpu(bits, from, out.data(), out.size(), block);
    case Place::Kind::cuda:
      return detail::decode_codebook_cuda(bits, from, out.data(), out.size(), block, place);
  }
}

namespace detail {

namespace {

// Codes of a block, one a byte, and what fell into each bucket.
template <unsigned kBits>
ATOLL_INLINE void sort_into(const float* in, std::size_t n, Grid grid, Buckets buckets, unsigned char* codes,
                            std::array<std::uint64_t, 1U << kBits>& tally) {
  constexpr std::size_t kPart = 1024, kTables = 4;  // tables: an addition need not wait for the one before
  std::array<std::array<std::uint64_t, 1U << kBits>, kTables> tables{};
  std::array<std::int32_t, kPart> integers;
  for (std::size_t at = 0; at < n; at += kPart) {
    const std::size_t m = std::min(kPart, n - at);
    ATOLL_INDEPENDENT
    for (std::size_t i = 0; i < m; ++i) {
      const float integer = on_grid(in[at + i], grid);
      integers[i] = static_cast<std::int32_t>(integer);
      codes[at + i] = static_cast<unsigned char>(bucket_of(integer, buckets));
    }
    std::size_t i = 0;
    for (; i + kTables <= m; i += kTables)
      for (std::size_t t = 0; t < kTables; ++t) tables[t][codes[at + i + t]] += counted(integers[i + t]);
    for (; i < m; ++i) tables[0][codes[at + i]] += counted(integers[i]);
  }
  for (std::size_t c = 0; c < tally.size(); ++c) tally[c] = tables[0][c] + tables[1][c] + tables[2][c] + tables[3][c];
}

// codes: [n], with room for 8 zeros more.
template <unsigned kBits>
ATOLL_INLINE void pack(unsigned char* codes, std::size_t n, unsigned char* out) {
  const std::size_t h = packed_bytes(n, kBits);
  std::memset(codes + n, 0, 8);
  ATOLL_INDEPENDENT
  for (std::size_t j = 0; j < h; ++j) {
    unsigned byte = 0;
    for (unsigned k = 0; k < 8 / kBits; ++k) byte |= static_cast<unsigned>(codes[j + k * h]) << (k * kBits);
    out[j] = static_cast<unsigned char>(byte);
  }
}

template <unsigned kBits>
ATOLL_INLINE void encode_block(const float* in, std::size_t n, unsigned char* codes, unsigned char* out) {
  constexpr unsigned kEntries = 1U << kBits;
  const std::uint32_t most = largest(in, n);
  std::array<std::uint16_t, kEntries> entries;
  if (most >= kInfinity) {
    entries.fill(kBf16Nan);
    std::memset(out + sizeof entries, 0, packed_bytes(n, kBits));
  } else {
    const Grid grid = grid_of(most);
    std::int64_t sum = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto integer = static_cast<std::int32_t>(on_grid(in[i], grid));
      sum += integer;
      squares += std::int64_t{integer} * integer;
    }
    std::array<std::uint64_t, kEntries> tally;
    sort_into<kBits>(in, n, grid, buckets_of(sum, squares, n, kEntries), codes, tally);
    for (unsigned c = 0; c < kEntries; ++c) entries[c] = entry_of(tally[c], grid);
    pack<kBits>(codes, n, out + sizeof entries);
  }
  std::memcpy(out, entries.data(), sizeof entries);
}

template <unsigned kBits>
ATOLL_INLINE void encode_all(const float* in, std::size_t n, std::size_t block, unsigned char* out) {
  std::vector<unsigned char> codes(std::min(n, block) + 8);
  for (std::size_t at = 0; at < n; at += block) {
    const std::size_t m = std::min(block, n - at);
    encode_block<kBits>(in + at, m, codes.data(), out);
    out += codebook_record_bytes(kBits, m);
  }
}

template <unsigned kBits>
ATOLL_INLINE void decode_all(const unsigned char* in, float* out, std::size_t n, std::size_t block) {
  constexpr unsigned kEntries = 1U << kBits;
  for (std::size_t at = 0; at < n; at += block) {
    const std::size_t m = std::min(block, n - at), h = packed_bytes(m, kBits);
    std::array<std::uint16_t, kEntries> halves;
    std::memcpy(halves.data(), in, sizeof halves);
    std::array<float, kEntries> entries;
    for (unsigned c = 0; c < kEntries; ++c) entries[c] = as_float(fp32_bits(halves[c]));
    const unsigned char* codes = in + sizeof halves;
    float* to = out + at;
    for (unsigned k = 0; k * h < m; ++k) {
      const std::size_t count = std::min(h, m - k * h);
      ATOLL_INDEPENDENT
      for (std::size_t j = 0; j < count; ++j)
        to[k * h + j] = entries[static_cast<unsigned>(codes[j]) >> (k * kBits) & (kEntries - 1)];
    }
    in += codebook_record_bytes(kBits, m);
  }
}

}  // namespace

ATOLL_CLONES void encode_codebook_cpu(unsigned bits, const float* in, std::size_t n, std::size_t block,
                                      unsigned char* out) {
  if (bits == 8) return encode_all<8>(in, n, block, out);
  if (bits == 4) return encode_all<4>(in, n, block, out);
  return encode_all<2>(in, n, block, out);
}

ATOLL_CLONES void decode_codebook_cpu(unsigned bits, const unsigned char* in, float* out, std::size_t n,
                                      std::size_t block) {
  if (bits == 8) return decode_all<8>(in, out, n, block);
  if (bits == 4) return decode_all<4>(in, out, n, block);
  return decode_all<2>(in, out, n, block);
}

}  // namespace detail

}  // namespace atl::kernels
