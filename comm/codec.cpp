#include "comm/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "kernels/bf16.h"
#include "kernels/buffer.h"
#include "kernels/codes.h"

namespace atl {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are little-endian and are written as they lie in memory");

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

// A code of kernels/codes.h.
struct Known {
  std::string_view name;
  kernels::Code code;
  std::size_t block, keep;  // its own
};
constexpr std::array<Known, 8> kKnown{{{"fp16", kernels::Code::fp16, 1024, 0},
                                       {"int8", kernels::Code::int8, 256, 0},
                                       {"int8_codebook", kernels::Code::book8, 65536, 0},
                                       {"e3m0", kernels::Code::e3m0, 256, 0},
                                       {"int4", kernels::Code::int4, 256, 0},
                                       {"stat4", kernels::Code::book4, 4096, 0},
                                       {"stat2", kernels::Code::book2, 4096, 0},
                                       {"topk", kernels::Code::topk, 4096, 64}}};

class Blocks final : public Codec {
 public:
  Blocks(std::string_view name, const kernels::Coding& coding) : name_(name), coding_(coding) {}
  std::string_view name() const override { return name_; }
  std::size_t block() const override { return coding_.block; }
  std::size_t encoded_bytes(std::size_t n) const override { return kernels::encoded_bytes(coding_, n); }
  bool sparse() const override { return coding_.code == kernels::Code::topk; }

  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name_, encoded_bytes(values.size()), out.size());
    check_decoded(name_, values.size(), decoded.size());
    if (values.empty()) return;
    if (!place.on_host()) return encode_on_device(values, place, out, decoded);
    if (decoded.empty()) return kernels::encode(coding_, values, out, place);
    const std::size_t part = std::max<std::size_t>(1, kInCache / coding_.block) * coding_.block;
    for (std::size_t done = 0; done < values.size(); done += part) {
      const std::size_t n = std::min(part, values.size() - done);
      const auto bytes = out.subspan(encoded_bytes(done), encoded_bytes(n));
      kernels::encode(coding_, values.subspan(done, n), bytes, place);
      ATOLL_CHECK(kernels::decode(coding_, bytes, decoded.subspan(done, n), place), name_,
                  " wrote what it cannot read");
    }
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name_, encoded_bytes(out.size()), bytes.size(), out.size());
    if (!kernels::decode(coding_, bytes, out, {}))
      throw LinkError(
          text("a payload of ", out.size(), " values in ", name_, " is damaged: no encoder writes such bytes"));
  }

 private:
  static constexpr std::size_t kInCache = 16'384;  // values

  void encode_on_device(std::span<const float> values, Place place, std::span<std::byte> out,
                        std::span<float> decoded) const {
    Buffer staging((out.size() + sizeof(float) - 1) / sizeof(float), place);
    const auto bytes = std::as_writable_bytes(staging.values()).first(out.size());
    kernels::encode(coding_, values, bytes, place);
    if (!decoded.empty())
      ATOLL_CHECK(kernels::decode(coding_, bytes, decoded, place), name_, " wrote what it cannot read");
    copy_bytes(bytes, place, out, {});
  }

  std::string_view name_;
  kernels::Coding coding_;
};

void check_blocks(const Known& known, const kernels::Coding& coding) {
  const bool sparse = known.code == kernels::Code::topk;
  const std::size_t most = sparse ? 4096 : std::size_t{1} << 20U;
  if (!std::has_single_bit(coding.block) || coding.block < 16 || coding.block > most)
    throw ConfigError(text("codec \"", known.name, "\" with blocks of ", coding.block,
                           " values: it must be a power of two from 16 to ", most));
  if (!sparse && coding.keep != 0)
    throw ConfigError(text("codec \"", known.name, "\" keeps every value: leave keep out"));
  if (coding.keep > coding.block)
    throw ConfigError(text("codec \"", known.name, "\" keeps ", coding.keep, " values of a block of ", coding.block,
                           ": it must be at most all of them"));
}

std::unique_ptr<Codec> make_blocks(const Known& known, const CodecConfig& config) {
  const kernels::Coding coding{.code = known.code,
                               .block = config.block == 0 ? known.block : config.block,
                               .keep = config.keep == 0 ? known.keep : config.keep};
  check_blocks(known, coding);
  return std::make_unique<Blocks>(known.name, coding);
}

}  // namespace

std::vector<std::string> codec_names() {
  std::vector<std::string> names{"fp32", "bf16"};
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

std::unique_ptr<Codec> make_codec(const CodecConfig& config) {
  for (const Known& known : kKnown)
    if (known.name == config.name) return make_blocks(known, config);
  std::unique_ptr<Codec> codec;
  if (config.name == "fp32") codec = std::make_unique<Fp32>();
  if (config.name == "bf16") codec = std::make_unique<Bf16>();
  if (codec == nullptr) {
    std::string names;
    for (const std::string& each : codec_names()) names += (names.empty() ? "" : ", ") + each;
    throw ConfigError(text("codec \"", config.name, "\" does not exist: it must be one of ", names));
  }
  if (config.block != 0) throw ConfigError(text("codec \"", config.name, "\" has no blocks: leave the block size out"));
  if (config.keep != 0) throw ConfigError(text("codec \"", config.name, "\" keeps every value: leave keep out"));
  return codec;
}

std::unique_ptr<Codec> make_codec(std::string_view name) { return make_codec(CodecConfig{.name = std::string(name)}); }

}  // namespace atl
