// libFuzzer: bytes that a stranger sends as a payload.  The first byte chooses the codec, the next two n; the rest is the payload, cut
// or filled up with zeros to the size that n values have (every receiver checks the size first).
// Each decoder must refuse, or give n finite floats (fp32, bf16: any), the same twice, and the same in parts; an encoder must take the
// bytes as floats and write what its decoder reads.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "comm/codec.h"

namespace {

using atl::Codec;

void require(bool right) {
  if (!right) std::abort();
}

const std::vector<std::unique_ptr<Codec>>& codecs() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Codec>> made;
    for (const std::string& name : atl::codec_names()) made.push_back(atl::make_codec(name));
    for (const char* name : {"fp16", "int8", "int8_codebook", "e3m0", "int4", "stat4", "stat2"})
      made.push_back(atl::make_codec(atl::CodecConfig{name, 16}));
    made.push_back(atl::make_codec(atl::CodecConfig{"topk", 64, 5}));
    return made;
  }();
  return all;
}

void decode(const Codec& codec, std::size_t n, std::vector<std::byte> bytes) {
  bytes.resize(codec.encoded_bytes(n));
  std::vector<float> once(n, 1.0F), twice(n, 2.0F);
  try {
    codec.decode(bytes, once);
  } catch (const atl::LinkError&) {
    return;
  }
  const bool any = codec.name() == "fp32" || codec.name() == "bf16";
  for (const float x : once) require(any || std::isfinite(x));
  codec.decode(bytes, twice);
  require(n == 0 || std::memcmp(once.data(), twice.data(), n * sizeof(float)) == 0);
  const std::size_t cut = n / 2 / codec.block() * codec.block(), at = codec.encoded_bytes(cut);
  codec.decode(std::span(bytes).first(at), std::span(twice).first(cut));
  codec.decode(std::span(bytes).subspan(at), std::span(twice).subspan(cut));
  require(n == 0 || std::memcmp(once.data(), twice.data(), n * sizeof(float)) == 0);
}

void encode(const Codec& codec, const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  std::vector<std::byte> out(codec.encoded_bytes(values.size()));
  std::vector<float> said(values.size()), read(values.size());
  codec.encode(values, {}, out, said);
  codec.decode(out, read);
  const bool exact = codec.name() == "fp32" || codec.name() == "bf16";
  for (std::size_t i = 0; i < read.size(); ++i) {
    require(exact || std::isfinite(read[i]));
    require(std::memcmp(&said[i], &read[i], sizeof(float)) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const Codec& codec = *codecs()[data[0] % codecs().size()];
  const std::size_t n = (data[1] | std::size_t{data[2]} << 8U) % 1200;
  const auto* rest = reinterpret_cast<const std::byte*>(data + 3);
  const std::vector<std::byte> bytes(rest, rest + size - 3);
  decode(codec, n, bytes);
  encode(codec, bytes);
  return 0;
}
