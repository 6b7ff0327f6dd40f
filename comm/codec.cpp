#include "comm/codec.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "kernels/bf16.h"
#include "kernels/buffer.h"

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

class Fp32 final : public Codec {
 public:
  std::string_view name() const override { return "fp32"; }
  std::size_t block() const override { return 1; }
  std::size_t encoded_bytes(std::size_t n) const override { return n * sizeof(float); }
  void encode(std::span<const float> values, Place place, std::span<std::byte> out) const override {
    check_encode(name(), encoded_bytes(values.size()), out.size());
    copy_bytes(std::as_bytes(values), place, out, {});
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name(), encoded_bytes(out.size()), bytes.size(), out.size());
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  }
};

class Bf16 final : public Codec {
 public:
  std::string_view name() const override { return "bf16"; }
  std::size_t block() const override { return 1; }
  std::size_t encoded_bytes(std::size_t n) const override { return n * sizeof(std::uint16_t); }
  void encode(std::span<const float> values, Place place, std::span<std::byte> out) const override {
    check_encode(name(), encoded_bytes(values.size()), out.size());
    if (place.on_host()) return kernels::to_bf16(values, as_bf16(out), place);
    // Converted on the device: half the bytes cross the bus.
    Buffer converted((values.size() + 1) / 2, place);
    const std::span<std::uint16_t> halves(reinterpret_cast<std::uint16_t*>(converted.values().data()), values.size());
    kernels::to_bf16(values, halves, place);
    copy_bytes(std::as_bytes(halves), place, out, {});
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name(), encoded_bytes(out.size()), bytes.size(), out.size());
    kernels::from_bf16({reinterpret_cast<const std::uint16_t*>(bytes.data()), out.size()}, out, {});
  }

 private:
  static std::span<std::uint16_t> as_bf16(std::span<std::byte> bytes) {
    return {reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / sizeof(std::uint16_t)};
  }
};

}  // namespace

std::vector<std::string> codec_names() { return {"fp32", "bf16"}; }

std::unique_ptr<Codec> make_codec(std::string_view name) {
  if (name == "fp32") return std::make_unique<Fp32>();
  if (name == "bf16") return std::make_unique<Bf16>();
  std::string known;
  for (const std::string& each : codec_names()) known += (known.empty() ? "" : ", ") + each;
  throw ConfigError(text("codec \"", name, "\" does not exist: it must be one of ", known));
}

}  // namespace atl
