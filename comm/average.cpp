#include "comm/average.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/accumulate.h"

namespace atl {
namespace {

struct Weights {
  std::vector<double> each;
  double total = 0;
};

// Equal weights are taken as 1, so that their products are exact.
Weights in_double(std::span<const std::uint64_t> tokens) {
  const bool equal = std::all_of(tokens.begin(), tokens.end(), [&](std::uint64_t w) { return w == tokens[0]; });
  Weights weights;
  for (const std::uint64_t w : tokens) {
    ATOLL_CHECK(w > 0, "a weight is 0");
    weights.each.push_back(equal ? 1.0 : static_cast<double>(w));
    weights.total += weights.each.back();
  }
  return weights;
}

template <class T>
std::vector<const T*> where_they_lie(std::span<const std::span<const std::byte>> payloads) {
  std::vector<const T*> inputs;
  for (const auto& payload : payloads) inputs.push_back(reinterpret_cast<const T*>(payload.data()));
  return inputs;
}

// fp32 and bf16 are read where they lie, when they are aligned: twice as fast as decoding bf16 first.  False: they are not.
bool average_in_place(std::span<const std::span<const std::byte>> payloads, const Weights& weights, const Codec& codec,
                      std::span<float> mean) {
  const auto aligned = [&](std::size_t to) {
    return std::all_of(payloads.begin(), payloads.end(),
                       [&](const auto& p) { return reinterpret_cast<std::uintptr_t>(p.data()) % to == 0; });
  };
  if (codec.name() == "fp32" && aligned(alignof(float))) {
    kernels::weighted_mean(where_they_lie<float>(payloads), weights.each, weights.total, mean, {});
    return true;
  }
  if (codec.name() == "bf16" && aligned(alignof(std::uint16_t))) {
    kernels::weighted_mean_bf16(where_they_lie<std::uint16_t>(payloads), weights.each, weights.total, mean, {});
    return true;
  }
  return false;
}

// Others are decoded in parts that stay in the cache.
void average_decoded(std::span<const std::span<const std::byte>> payloads, const Weights& weights, const Codec& codec,
                     std::span<float> mean) {
  constexpr std::size_t kPart = 8192;  // values
  const std::size_t part = std::max<std::size_t>(1, kPart / codec.block()) * codec.block();
  std::vector<std::vector<float>> decoded(payloads.size(), std::vector<float>(std::min(part, mean.size())));
  std::vector<const float*> inputs;
  for (const auto& values : decoded) inputs.push_back(values.data());
  for (std::size_t offset = 0; offset < mean.size(); offset += part) {
    const std::size_t n = std::min(part, mean.size() - offset);
    for (std::size_t r = 0; r < payloads.size(); ++r)
      codec.decode(payloads[r].subspan(codec.encoded_bytes(offset), codec.encoded_bytes(n)),
                   std::span(decoded[r]).first(n));
    kernels::weighted_mean(inputs, weights.each, weights.total, mean.subspan(offset, n), {});
  }
}

}  // namespace

void average(std::span<const std::span<const std::byte>> payloads, std::span<const std::uint64_t> weights,
             const Codec& codec, std::span<float> mean) {
  ATOLL_CHECK(!payloads.empty() && payloads.size() == weights.size(), payloads.size(), " payloads, ", weights.size(),
              " weights");
  const std::size_t bytes = codec.encoded_bytes(mean.size());
  for (std::size_t r = 0; r < payloads.size(); ++r)
    if (payloads[r].size() != bytes)
      throw LinkError(text("rank ", r, ": a payload of ", mean.size(), " values in ", codec.name(), " has ",
                           payloads[r].size(), " bytes, expected ", bytes));
  const Weights in_fp64 = in_double(weights);
  if (mean.empty()) return;
  if (!average_in_place(payloads, in_fp64, codec, mean)) average_decoded(payloads, in_fp64, codec, mean);
}

std::vector<Chunk> chunk_plan(std::size_t n, int sites, std::size_t block) {
  ATOLL_CHECK(sites > 0 && block > 0, sites, " sites, blocks of ", block);
  const std::size_t parts = static_cast<std::size_t>(sites), blocks = (n + block - 1) / block;
  std::vector<Chunk> chunks;
  std::size_t done = 0;  // blocks
  for (std::size_t r = 0; r < parts; ++r) {
    const std::size_t mine = blocks / parts + (r < blocks % parts ? 1 : 0);
    const std::size_t from = std::min(n, done * block), to = std::min(n, (done + mine) * block);
    chunks.push_back({.offset = from, .count = to - from});
    done += mine;
  }
  return chunks;
}

std::size_t exchange_block(const Codec& codec, const Codec& mean_codec) {
  return std::lcm(codec.block(), mean_codec.block());
}

bool travels_inline(std::size_t payload_bytes) {
  constexpr std::size_t kLargestInline = 4096;
  return payload_bytes <= kLargestInline;
}

std::uint64_t sent_payload_bytes(std::size_t n, int rank, int sites, const Codec& codec, const Codec& mean_codec) {
  const auto others = static_cast<std::uint64_t>(sites - 1);
  const std::size_t payload = codec.encoded_bytes(n);
  if (travels_inline(payload) || sites <= 2 || codec.sparse()) return payload * others;
  const Chunk own = chunk_plan(n, sites, exchange_block(codec, mean_codec))[static_cast<std::size_t>(rank)];
  return payload - codec.encoded_bytes(own.count) + mean_codec.encoded_bytes(own.count) * others;
}

void exchange_mean(std::span<const std::span<const std::byte>> payloads, std::span<const std::uint64_t> weights,
                   const Codec& codec, const Codec& mean_codec, std::span<float> mean) {
  // fp32 returns the mean's own bits: its two copies would cost as much as the averaging.
  if (payloads.size() < 3 || codec.sparse() || mean_codec.name() == "fp32")
    return average(payloads, weights, codec, mean);
  std::vector<std::span<const std::byte>> parts(payloads.size());
  std::vector<std::byte> encoded;
  for (const Chunk& chunk :
       chunk_plan(mean.size(), static_cast<int>(payloads.size()), exchange_block(codec, mean_codec))) {
    for (std::size_t r = 0; r < payloads.size(); ++r)
      parts[r] = payloads[r].subspan(codec.encoded_bytes(chunk.offset), codec.encoded_bytes(chunk.count));
    const auto owned = mean.subspan(chunk.offset, chunk.count);
    average(parts, weights, codec, owned);
    encoded.resize(mean_codec.encoded_bytes(chunk.count));
    mean_codec.encode(owned, {}, encoded);
    mean_codec.decode(encoded, owned);
  }
}

}  // namespace atl
