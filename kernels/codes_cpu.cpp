#include "base/error.h"
#include "kernels/clones.h"
#include "kernels/code_block.h"

namespace atl::kernels {

std::size_t block_bytes(const Coding& coding, std::size_t n) {
  ATOLL_CHECK(n <= coding.block, n, " values in a block of ", coding.block);
  return detail::bytes_of_block(coding, n);
}

std::size_t encoded_bytes(const Coding& coding, std::size_t n) {
  return n / coding.block * block_bytes(coding, coding.block) + block_bytes(coding, n % coding.block);
}

void encode(const Coding& coding, std::span<const float> in, std::span<std::byte> out, Place place) {
  const std::size_t bytes = encoded_bytes(coding, in.size());
  ATOLL_CHECK(out.size() == bytes, "room for ", out.size(), " bytes, ", bytes, " needed");
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::encode_cpu(coding, in.data(), in.size(), to);
    case Place::Kind::cuda:
      return detail::encode_cuda(coding, in.data(), in.size(), to, place);
  }
}

bool decode(const Coding& coding, std::span<const std::byte> bytes, std::span<float> out, Place place) {
  const std::size_t want = encoded_bytes(coding, out.size());
  ATOLL_CHECK(bytes.size() == want, bytes.size(), " bytes, ", want, " needed");
  const auto* const from = reinterpret_cast<const std::uint8_t*>(bytes.data());
  switch (place.kind) {
    case Place::Kind::host:
      return detail::decode_cpu(coding, from, out.data(), out.size());
    case Place::Kind::cuda:
      return detail::decode_cuda(coding, from, out.data(), out.size(), place);
  }
  return false;
}

namespace detail {

// Whole blocks at a time; the switch over codes is outside, so that each loop is compiled for its code.
ATOLL_CLONES void encode_cpu(const Coding& coding, const float* in, std::size_t n, std::uint8_t* out) {
  const std::size_t bytes = bytes_of_block(coding, coding.block);
  for (std::size_t done = 0; done < n; done += coding.block, out += bytes)
    encode_block(coding, in + done, n - done < coding.block ? n - done : coding.block, out);
}

ATOLL_CLONES bool decode_cpu(const Coding& coding, const std::uint8_t* bytes, float* out, std::size_t n) {
  const std::size_t a_block = bytes_of_block(coding, coding.block);
  bool good = true;
  for (std::size_t done = 0; done < n; done += coding.block, bytes += a_block)
    good &= decode_block(coding, bytes, out + done, n - done < coding.block ? n - done : coding.block);
  return good;
}

}  // namespace detail
}  // namespace atl::kernels
