// What the files of the codecs share; for comm/codec*.cpp only.
#pragma once
#include <functional>
#include <memory>

#include "comm/codec.h"

namespace atl::codecs {

void check_encode(std::string_view codec, std::size_t want, std::size_t got);                 // throws Bug
void check_decode(std::string_view codec, std::size_t want, std::size_t got, std::size_t n);  // throws LinkError
void check_decoded(std::string_view codec, std::size_t values, std::size_t decoded);          // throws Bug

// The config's block, or `own` when it names none.  Throws ConfigError when it is no power of two in [16, most].
std::size_t block_of(const CodecConfig& config, std::size_t own, std::size_t most);
void no_keep(const CodecConfig& config);  // throws ConfigError when there is one

// Calls kernel(bytes at `place`) where bytes for `out` are made, and brings them to `out` on the host; returns when they
// are there.  Then after(the same bytes at `place`).
using Bytes = std::span<std::byte>;
void made_at(Place place, Bytes out, const std::function<void(Bytes)>& kernel, const std::function<void(Bytes)>& after);

// Null when the config's name is not one of theirs.
std::unique_ptr<Codec> make_block_codec(const CodecConfig& config);     // fp16, int8, int4, e3m0
std::unique_ptr<Codec> make_codebook_codec(const CodecConfig& config);  // int8_codebook, stat4, stat2
std::unique_ptr<Codec> make_topk_codec(const CodecConfig& config);      // topk

}  // namespace atl::codecs
