// Codec: how a span of floats becomes bytes on the wire and back.  Layout: docs/wire_format.md, which is the authority.
//
// Decoding is deterministic: the same bytes give the same floats on every machine (integer operations and products).
// So is encoding: sums are of integers and depend on no order.
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

struct CodecConfig {
  std::string name = "fp32";
  std::size_t block = 0;  // values that share a scale or a codebook; 0: the codec's own
  std::size_t keep = 0;   // topk: values kept of each block; 0: the codec's own
  bool operator==(const CodecConfig&) const = default;
};

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string_view name() const = 0;
  // Values that must stay together: a split of a span must fall on a multiple of it.  1 for fp32 and bf16.
  virtual std::size_t block() const = 0;
  // Bytes for n values; a pure function of n.  encoded_bytes(a + b) == encoded_bytes(a) + encoded_bytes(b) when a is a
  // multiple of block().
  virtual std::size_t encoded_bytes(std::size_t n) const = 0;
  // True for sparse codecs: a mean of sparse payloads is not sparse, so payloads go to everybody (all-gather) and each
  // site averages all of them; no mean is sent back.
  virtual bool sparse() const { return false; }
  // values [n] at `place`, out [encoded_bytes(n)] on the host; returns when out is complete.  decoded: empty, or [n] at
  // `place`, not overlapping the values: what decode() will give, bit for bit (for error feedback).  Throws Bug on a
  // wrong size.
  virtual void encode(std::span<const float> values, Place place, std::span<std::byte> out,
                      std::span<float> decoded) const = 0;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out) const {
    encode(values, place, out, {});
  }
  // bytes [encoded_bytes(n)], out [n], both on the host.  Bytes need no alignment, here and in encode().  Throws
  // LinkError on a wrong size; any other bytes throw LinkError too, or give defined floats (wire_format.md).
  virtual void decode(std::span<const std::byte> bytes, std::span<float> out) const = 0;
};

// Throws ConfigError for a name that does not exist (listing those that do), and for a block or keep that the codec
// cannot have.
std::unique_ptr<Codec> make_codec(const CodecConfig& config);
std::unique_ptr<Codec> make_codec(std::string_view name);  // with its own block and keep
std::vector<std::string> codec_names();

}  // namespace atl
