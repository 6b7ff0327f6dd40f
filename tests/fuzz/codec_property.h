// What must hold for any bytes that claim to be a payload: a decoder throws LinkError or gives floats, the same ones each
// time and part by part.  Driven by libFuzzer (codec_fuzz.cpp) and by random numbers (tests/comm/codec_test.cpp).
#pragma once
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "comm/codec.h"

namespace atl {

// True when the bytes, cut or padded with zeros to a payload of n values, were decoded.
inline bool payload_holds(const Codec& codec, std::span<const std::byte> bytes, std::size_t n) {
  std::vector<std::byte> payload(codec.encoded_bytes(n));
  if (!payload.empty() && !bytes.empty())
    std::memcpy(payload.data(), bytes.data(), std::min(payload.size(), bytes.size()));
  const auto decoded = [&](std::vector<float>& out, std::size_t part) {
    try {
      for (std::size_t at = 0; at < n; at += part) {
        const std::size_t count = std::min(part, n - at), from = codec.encoded_bytes(at);
        codec.decode(std::span(payload).subspan(from, codec.encoded_bytes(count)), std::span(out).subspan(at, count));
      }
    } catch (const LinkError&) {
      return false;
    }
    return true;
  };
  std::vector<float> whole(n, 1.0F), again(n, 2.0F), parts(n, 3.0F);
  const bool taken = decoded(whole, n + 1);
  ATOLL_CHECK(decoded(again, n + 1) == taken && decoded(parts, codec.block()) == taken, codec.name(),
              ": the same bytes were taken and refused");
  if (!taken || n == 0) return taken;
  ATOLL_CHECK(std::memcmp(whole.data(), again.data(), n * sizeof(float)) == 0, codec.name(), ": two decodings differ");
  ATOLL_CHECK(std::memcmp(whole.data(), parts.data(), n * sizeof(float)) == 0, codec.name(), ": the parts differ");
  return true;
}

}  // namespace atl
