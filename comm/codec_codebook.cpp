// int8_codebook, stat4, stat2: a table of values a block.
#include "comm/codec_parts.h"
#include "kernels/codebook.h"

namespace atl::codecs {
namespace {

class CodebookCodec final : public Codec {
 public:
  CodebookCodec(std::string name, unsigned bits, std::size_t block)
      : name_(std::move(name)), bits_(bits), block_(block) {}
  std::string_view name() const override { return name_; }
  std::size_t block() const override { return block_; }
  std::size_t encoded_bytes(std::size_t n) const override { return kernels::codebook_bytes(bits_, n, block_); }
  using Codec::encode;
  void encode(std::span<const float> values, Place place, std::span<std::byte> out,
              std::span<float> decoded) const override {
    check_encode(name_, encoded_bytes(values.size()), out.size());
    check_decoded(name_, values.size(), decoded.size());
    made_at(
        place, out, [&](Bytes bytes) { kernels::encode_codebook(bits_, values, block_, bytes, place); },
        [&](Bytes bytes) {
          if (!decoded.empty()) kernels::decode_codebook(bits_, bytes, block_, decoded, place);
        });
  }
  void decode(std::span<const std::byte> bytes, std::span<float> out) const override {
    check_decode(name_, encoded_bytes(out.size()), bytes.size(), out.size());
    kernels::decode_codebook(bits_, bytes, block_, out, {});
  }

 private:
  std::string name_;
  unsigned bits_;
  std::size_t block_;
};

}  // namespace

std::unique_ptr<Codec> make_codebook_codec(const CodecConfig& config) {
  struct Known {
    std::string_view name;
    unsigned bits;
    std::size_t block;
  };
  // A table is at most 0.8 % of its codes.
  constexpr Known kKnown[] = {{"int8_codebook", 8, 65536}, {"stat4", 4, 8192}, {"stat2", 2, 4096}};
  for (const Known& known : kKnown) {
    if (config.name != known.name) continue;
    no_keep(config);
    return std::make_unique<CodebookCodec>(config.name, known.bits,
                                           block_of(config, known.block, kernels::kLargestCodebookBlock));
  }
  return nullptr;
}

}  // namespace atl::codecs
