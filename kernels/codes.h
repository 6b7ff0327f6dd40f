// Codes: a block of floats as few bits, and back.  Each block stands alone: a scale or a codebook, then its codes.
// Layout of each: docs/wire_format.md, which is the authority.  Sources beside the definitions in kernels/code_block.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/place.h"

namespace atl::kernels {

enum class Code : std::uint8_t {
  fp16,   // IEEE binary16 times a power of two
  int8,   // integers times absmax / 127
  int4,   // integers times absmax / 7
  e3m0,   // sign and 7 powers of two, or zero
  book8,  // 256 buckets over mean +- 6 sigma, entry = their values' mean
  book4,  // 16
  book2,  // 4
  topk,   // the largest magnitudes: indices, and a codebook of 4
};

struct Coding {
  Code code = Code::int8;
  std::size_t block = 256;  // values
  std::size_t keep = 0;     // topk: of a whole block
};

// Of one block with n <= block values; 0 for n = 0.
std::size_t block_bytes(const Coding& coding, std::size_t n);
// Of n values in blocks: additive at multiples of the block.
std::size_t encoded_bytes(const Coding& coding, std::size_t n);

// in: [n], out: [encoded_bytes(n)], both at `place`, not overlapping; out need not be aligned.
// Bit-equal twins.  What is not finite is encoded as if it were: an infinity as the largest float, a NaN as 0.
// cuda: queued on place.stream and not waited for.  Throws Bug on unequal lengths, and for cuda in a build without it.
void encode(const Coding& coding, std::span<const float> in, std::span<std::byte> out, Place place);

// bytes: [encoded_bytes(out.size())], out: [n], both at `place`.  False: these are bytes that no encoder writes, and out
// holds anything.  Never reads or writes elsewhere.  The same bytes give the same bits on every machine.
// cuda: waits for the stream.
bool decode(const Coding& coding, std::span<const std::byte> bytes, std::span<float> out, Place place);

namespace detail {  // called by the above and the twin test, by nothing else
void encode_cpu(const Coding& coding, const float* in, std::size_t n, std::uint8_t* out);
bool decode_cpu(const Coding& coding, const std::uint8_t* bytes, float* out, std::size_t n);
void encode_cuda(const Coding& coding, const float* in, std::size_t n, std::uint8_t* out, const Place& place);
bool decode_cuda(const Coding& coding, const std::uint8_t* bytes, float* out, std::size_t n, const Place& place);
}  // namespace detail

}  // namespace atl::kernels
