// Dataset: a folder that `atoll data prepare` wrote; windows of it in the order of one keyed permutation an epoch.
//
// Stateless: position -> window, so that the whole state of the data is one integer.  Window w of a split covers tokens
// [w T, w T + T] (T inputs, T targets; neighbours share one token).  Format: docs/token_file.md.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/batch.h"
#include "data/token_file.h"

namespace atl {

// A bijection of [0, n) for each (seed, epoch): a Feistel network over the next even power of two, walked until inside.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);
  std::uint64_t operator()(std::uint64_t i) const;  // i < n

 private:
  std::uint64_t n_, seed_, epoch_;
  int half_bits_ = 1;
};

class Dataset {
 public:
  // Opens DIR/train.tokens and DIR/val.tokens.  context = T >= 1.  Throws ConfigError (which file, what was found) when
  // one is absent, cut short, of another version, has a wrong checksum, vocabularies that differ, or no whole window.
  Dataset(const std::filesystem::path& dir, std::size_t context, std::uint64_t seed);

  std::uint32_t vocabulary() const;       // token ids are below it
  std::uint64_t train_windows() const;    // samples an epoch
  std::uint64_t val_windows() const;
  Hash128 hash() const;                   // of both files' contents, tokenizer and vocabulary; must agree between sites

  // Samples at positions [position, position + count) of the endless training order; epoch e is positions
  // [e * train_windows(), (e + 1) * train_windows()).
  Batch train(std::uint64_t position, std::size_t count) const;
  // `count` fixed validation windows, spread evenly over the split; all if count is 0 or too large.
  // In batches of at most `batch` sequences.
  std::vector<Batch> validation(std::size_t count, std::size_t batch) const;

 private:
  void append(const TokenFile& file, std::uint64_t window, Batch& batch) const;

  std::size_t context_;
  std::uint64_t seed_;
  TokenFile train_, val_;
};

}  // namespace atl
