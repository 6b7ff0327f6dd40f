// Codec: how a span of floats becomes bytes on the wire and back.  Layout: docs/wire_format.md, which is the authority.
//
// Decoding is deterministic: the same bytes give the same floats on every machine (integer operations on the bits).
// A codec has no state: the residual (what was lost) belongs to the engine.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/place.h"

namespace atl {

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Values that must stay together: a split of a span must fall on a multiple of it.  1 for fp32 and bf16.
  virtual std::size_t block() const = 0;
  // Bytes for n values; a pure function of n (dense codecs).  encoded_bytes(a + b) == encoded_bytes(a) +
  // encoded_bytes(b) when a is a multiple of block().
  virtual std::size_t encoded_bytes(std::size_t n) const = 0;
  // values [n] at `place`, out [encoded_bytes(n)] on the host; returns when out is complete.  Throws Bug on a wrong
  // size.
  virtual void encode(std::span<const float> values, Place place, std::span<std::byte> out) const = 0;
  // bytes [encoded_bytes(n)], out [n], both on the host.  Throws LinkError on a wrong size.
  virtual void decode(std::span<const std::byte> bytes, std::span<float> out) const = 0;
};

// "fp32" or "bf16".  Throws ConfigError for another name, listing those that exist.
std::unique_ptr<Codec> make_codec(std::string_view name);
std::vector<std::string> codec_names();

}  // namespace atl
