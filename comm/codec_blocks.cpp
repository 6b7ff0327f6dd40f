// fp16, int8, int4, e3m0: one scale a block.
#include <algorithm>

#include "base/error.h"
#include "comm/codec_parts.h"
#include "kernels/block_codes.h"

namespace atl::codecs {
namespace {

using kernels::BlockCode;

class BlockCodec final : public Codec {
 public:
  BlockCodec(std::string name, BlockCode code, std::size_t block)
      : name_(std::move(name)), code_(code), block_(block) {}
  std::string_view name() const override { return name_; }
  std::size_t block() const override { return block_; }
  std::size_t encoded_bytes(std::size_t n) const override { return kernels::block_code_bytes(code_, n, block_); }
  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name_, encoded_bytes(values.size()), out.size());
    check_decoded(name_, values.size(), decoded.size());
    made_at(
        place, out, [&](Bytes bytes) { kernels::encode_blocks(code_, values, block_, bytes, place); },
        [&](Bytes bytes) {
          if (!decoded.empty()) kernels::decode_blocks(code_, bytes, block_, decoded, place);
        });
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name_, encoded_bytes(out.size()), bytes.size(), out.size());
    if (code_ == BlockCode::e3m0) check_scales(bytes, out.size());
    kernels::decode_blocks(code_, bytes, block_, out, {});
  }

 private:
  // Smaller scales would put magnitudes below the exponents of a float.
  void check_scales(std::span<const std::byte> bytes, std::size_t n) const {
    constexpr unsigned kSmallest = kernels::detail::E3m0::kSmallest;
    for (std::size_t at = 0, block = 0; at < n; at += block_, ++block) {
      const auto scale = std::to_integer<unsigned>(bytes[encoded_bytes(at)]);
      if (scale < kSmallest)
        throw LinkError(text("block ", block, " of a payload in e3m0 has the scale ", scale,
                             ", but it must be at least ", kSmallest));
    }
  }

  std::string name_;
  BlockCode code_;
  std::size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_block_codec(const CodecConfig& config) {
  struct Known {
    std::string_view name;
    BlockCode code;
    std::size_t block;
  };
  constexpr Known kKnown[] = {{"fp16", BlockCode::fp16, 1024},
                              {"int8", BlockCode::int8, 256},
                              {"int4", BlockCode::int4, 256},
                              {"e3m0", BlockCode::e3m0, 256}};
  for (const Known& known : kKnown) {
    if (config.name != known.name) continue;
    no_keep(config);
    return std::make_unique<BlockCodec>(config.name, known.code, block_of(config, known.block, 65536));
  }
  return nullptr;
}

}  // namespace atl::codecs
