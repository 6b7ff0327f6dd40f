// topk: the largest magnitudes of each block, with a table of four values.
#include "base/error.h"
#include "comm/codec_parts.h"
#include "kernels/topk.h"

namespace atl::codecs {
namespace {

class TopkCodec final : public Codec {
 public:
  explicit TopkCodec(kernels::TopkShape shape) : shape_(shape) {}
  std::string_view name() const override { return "topk"; }
  std::size_t block() const override { return shape_.block; }
  std::size_t encoded_bytes(std::size_t n) const override { return kernels::topk_bytes(shape_, n); }
  bool sparse() const override { return true; }
  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name(), encoded_bytes(values.size()), out.size());
    check_decoded(name(), values.size(), decoded.size());
    made_at(
        place, out, [&](Bytes bytes) { kernels::encode_topk(shape_, values, bytes, place); },
        [&](Bytes bytes) {
          if (!decoded.empty()) kernels::decode_topk(shape_, bytes, decoded, place);
        });
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name(), encoded_bytes(out.size()), bytes.size(), out.size());
    if (!kernels::decode_topk(shape_, bytes, out, {}))
      throw LinkError(text("a payload of ", out.size(),
                           " values in topk has places that do not ascend, or that lie past the end of their block"));
  }

 private:
  kernels::TopkShape shape_;
};

}  // namespace

std::unique_ptr<Codec> make_topk_codec(const CodecConfig& config) {
  if (config.name != "topk") return nullptr;
  kernels::TopkShape shape;
  shape.block = block_of(config, shape.block, kernels::kLargestTopkBlock);
  if (config.keep != 0)
    shape.keep = config.keep;
  else if (shape.keep > shape.block)
    shape.keep = shape.block;
  if (shape.keep > shape.block)
    throw ConfigError(text("codec \"topk\" keeps ", shape.keep, " of each ", shape.block,
                           " values, but it cannot keep more than a block has"));
  return std::make_unique<TopkCodec>(shape);
}

}  // namespace atl::codecs
