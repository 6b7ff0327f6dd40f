// The one function that forms a mean over sites: in rank order, accumulated in fp64, rounded once to fp32.
//
// simulate, launch and train all call it, so they give the same bits, and M equal payloads give exactly one of them,
// for every M (docs/algorithms.md, 1).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/codec.h"

namespace atl {

// mean[i] = fp32( (sum over r of w_r * decode(payloads[r])[i]) / (sum over r of w_r) ), r = 0 .. payloads.size() - 1.
//   payloads  [M], each codec.encoded_bytes(mean.size()) bytes: the same span of every site, in rank order
//   weights   [M] tokens, > 0; equal weights are taken as 1
//   mean      [n], written; may not overlap the payloads.  n = 0 is legal.
// Throws LinkError on a payload of the wrong size, Bug when M = 0 or a weight is 0.
void average(std::span<const std::span<const std::byte>> payloads, std::span<const std::uint64_t> weights,
             const Codec& codec, std::span<float> mean);

// The part of [0, n) that each of `sites` ranks owns: contiguous, in rank order, on multiples of `block`, sizes
// differing by at most one block; parts may be empty (n < sites * block).  Their counts sum to n.
struct Chunk {
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const Chunk&) const = default;
};
std::vector<Chunk> chunk_plan(std::size_t n, int sites, std::size_t block);

// Splits must fall on multiples of it: the least common multiple of both codecs' blocks.
std::size_t exchange_block(const Codec& codec, const Codec& mean_codec);

// A payload of at most 4096 bytes travels with its header, to everybody; all average it themselves.
bool travels_inline(std::size_t payload_bytes);

// Payload bytes that a site hands to the transport for one slot of n values, without headers.
//   one site: 0; inline or a sparse codec: the payload to each other site; two sites: the payload; more: the payload
//   without the own chunk, and the own chunk's mean to each other site.
std::uint64_t sent_payload_bytes(std::size_t n, int rank, int sites, const Codec& codec, const Codec& mean_codec);

// What an exchange among payloads.size() sites computes, for one whole slot: two sites or one, and sparse payloads, are
// averaged directly; with three or more every chunk's mean goes through `mean_codec` (encoded by its owner, decoded by all).  The block for the
// plan is the least common multiple of both codecs' blocks.
void exchange_mean(std::span<const std::span<const std::byte>> payloads, std::span<const std::uint64_t> weights,
                   const Codec& codec, const Codec& mean_codec, std::span<float> mean);

}  // namespace atl
