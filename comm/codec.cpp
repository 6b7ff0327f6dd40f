#include "comm/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "comm/codec_parts.h"
#include "kernels/bf16.h"
#include "kernels/buffer.h"

namespace atl {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are little-endian and are written as they lie in memory");

using namespace codecs;

class Fp32 final : public Codec {
 public:
  std::string_view name() const override { return "fp32"; }
  std::size_t block() const override { return 1; }
  std::size_t encoded_bytes(std::size_t n) const override { return n * sizeof(float); }
  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name(), encoded_bytes(values.size()), out.size());
    check_decoded(name(), values.size(), decoded.size());
    copy_bytes(std::as_bytes(values), place, out, {});
    if (!decoded.empty()) copy(values, place, decoded, place);
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name(), encoded_bytes(out.size()), bytes.size(), out.size());
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  }
};

using Halves = std::array<std::uint16_t, 2048>;

bool aligned(const std::byte* bytes) { return reinterpret_cast<std::uintptr_t>(bytes) % alignof(std::uint16_t) == 0; }

void encode_halves(std::span<const float> values, std::byte* out) {
  if (aligned(out)) return kernels::to_bf16(values, {reinterpret_cast<std::uint16_t*>(out), values.size()}, {});
  Halves part;
  for (std::size_t done = 0; done < values.size(); done += part.size()) {
    const std::size_t n = std::min(part.size(), values.size() - done);
    kernels::to_bf16(values.subspan(done, n), std::span(part).first(n), {});
    std::memcpy(out + done * sizeof(std::uint16_t), part.data(), n * sizeof(std::uint16_t));
  }
}

void decode_halves(const std::byte* bytes, std::span<float> out) {
  if (aligned(bytes)) return kernels::from_bf16({reinterpret_cast<const std::uint16_t*>(bytes), out.size()}, out, {});
  Halves part;
  for (std::size_t done = 0; done < out.size(); done += part.size()) {
    const std::size_t n = std::min(part.size(), out.size() - done);
    std::memcpy(part.data(), bytes + done * sizeof(std::uint16_t), n * sizeof(std::uint16_t));
    kernels::from_bf16(std::span<const std::uint16_t>(part).first(n), out.subspan(done, n), {});
  }
}

class Bf16 final : public Codec {
 public:
  std::string_view name() const override { return "bf16"; }
  std::size_t block() const override { return 1; }
  std::size_t encoded_bytes(std::size_t n) const override { return n * sizeof(std::uint16_t); }
  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name(), encoded_bytes(values.size()), out.size());
    check_decoded(name(), values.size(), decoded.size());
    if (place.on_host()) {
      encode_halves(values, out.data());
      if (!decoded.empty()) decode_halves(out.data(), decoded);
      return;
    }
    // Converted on the device: half the bytes cross the bus.
    Buffer converted((values.size() + 1) / 2, place);
    const std::span<std::uint16_t> halves(reinterpret_cast<std::uint16_t*>(converted.values().data()), values.size());
    kernels::to_bf16(values, halves, place);
    copy_bytes(std::as_bytes(halves), place, out, {});
    if (!decoded.empty()) kernels::from_bf16(halves, decoded, place);
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name(), encoded_bytes(out.size()), bytes.size(), out.size());
    decode_halves(bytes.data(), out);
  }
};

}  // namespace

namespace codecs {

void check_encode(std::string_view codec, std::size_t want, std::size_t got) {
  ATOLL_CHECK(want == got, codec, ": room for ", got, " bytes, ", want, " needed");
}

void check_decode(std::string_view codec, std::size_t want, std::size_t got, std::size_t n) {
  if (want != got)
    throw LinkError(text("a payload of ", n, " values in ", codec, " has ", got, " bytes, expected ", want));
}

void check_decoded(std::string_view codec, std::size_t values, std::size_t decoded) {
  ATOLL_CHECK(decoded == 0 || decoded == values, codec, ": room for ", decoded, " decoded values, ", values, " needed");
}

std::size_t block_of(const CodecConfig& config, std::size_t own, std::size_t most) {
  const std::size_t block = config.block == 0 ? own : config.block;
  if (block < 16 || block > most || !std::has_single_bit(block))
    throw ConfigError(text("codec \"", config.name, "\" with blocks of ", block,
                           " values, but a block must be a power of two in [16, ", most, "]"));
  return block;
}

void no_keep(const CodecConfig& config) {
  if (config.keep != 0) throw ConfigError(text("codec \"", config.name, "\" keeps every value: leave keep out"));
}

void made_at(Place place, Bytes out, const std::function<void(Bytes)>& kernel,
             const std::function<void(Bytes)>& after) {
  if (place.on_host()) {
    kernel(out);
    return after(out);
  }
  Buffer buffer((out.size() + sizeof(float) - 1) / sizeof(float), place);
  const Bytes made = std::as_writable_bytes(buffer.values()).first(out.size());
  kernel(made);
  copy_bytes(made, place, out, {});
  after(made);
}

}  // namespace codecs

std::vector<std::string> codec_names() {
  return {"fp32", "bf16", "fp16", "int8", "int8_codebook", "e3m0", "int4", "stat4", "stat2", "topk"};
}

std::unique_ptr<Codec> make_codec(const CodecConfig& config) {
  std::unique_ptr<Codec> codec = make_block_codec(config);
  if (codec == nullptr) codec = make_codebook_codec(config);
  if (codec == nullptr) codec = make_topk_codec(config);
  if (codec != nullptr) return codec;
  if (config.name == "fp32") codec = std::make_unique<Fp32>();
  if (config.name == "bf16") codec = std::make_unique<Bf16>();
  if (codec == nullptr) {
    std::string known;
    for (const std::string& each : codec_names()) known += (known.empty() ? "" : ", ") + each;
    throw ConfigError(text("codec \"", config.name, "\" does not exist: it must be one of ", known));
  }
  if (config.block != 0) throw ConfigError(text("codec \"", config.name, "\" has no blocks: leave the block size out"));
  no_keep(config);
  return codec;
}

std::unique_ptr<Codec> make_codec(std::string_view name) { return make_codec(CodecConfig{.name = std::string(name)}); }

}  // namespace atl
