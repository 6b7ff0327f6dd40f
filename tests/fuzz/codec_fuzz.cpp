// libFuzzer on all decoders.  Byte 0: the codec, with blocks of 16 or its own; bytes 1 and 2: the number of values.
// ATOLL_FUZZ_CODEC=NAME: that one only, for long runs by hand.
#include <cstdlib>

#include "fuzz/codec_property.h"

namespace {

const std::vector<std::unique_ptr<atl::Codec>>& codecs() {
  static const auto all = [] {
    std::vector<std::unique_ptr<atl::Codec>> made;
    const char* only = std::getenv("ATOLL_FUZZ_CODEC");
    for (const std::string& name : atl::codec_names()) {
      if (only != nullptr && name != only) continue;
      made.push_back(atl::make_codec(name));
      if (made.back()->block() > 1) made.push_back(atl::make_codec(atl::CodecConfig{.name = name, .block = 16}));
    }
    ATOLL_CHECK(!made.empty(), "ATOLL_FUZZ_CODEC names no codec");
    return made;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size < 3) return 0;
  const atl::Codec& codec = *codecs()[data[0] % codecs().size()];
  const std::size_t n = (data[1] | std::size_t{data[2]} << 8U) % 1100;
  atl::payload_holds(codec, std::as_bytes(std::span(data + 3, size - 3)), n);
  return 0;
}
