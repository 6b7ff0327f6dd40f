// Dataset: a folder that `atoll data prepare` wrote; windows of it in the order of one keyed permutation an epoch.
//
// Stateless: position -> window, so that the whole state of the data is one integer.  Window w of a split covers tokens
// [w T, w T + T] (T inputs, T targets; neighbours share one token); what is left at the end, fewer than T, is not used.
// Format: docs/token_file.md.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/hash.h"
#include "data/batch.h"
#include "data/permutation.h"
#include "data/token_file.h"

namespace atl {

class Dataset {
 public:
  // Opens DIR/train.tokens and DIR/val.tokens.  context = T >= 1.  Throws ConfigError (which file, what was found, what
  // to do) when one is absent, cut short, of another version, has a wrong checksum, vocabularies or tokenizers that
  // differ, files of two different datasets, or no whole window.  `check`: see TokenFile; by default both are read
  // once.
  Dataset(const std::filesystem::path& dir, std::size_t context, std::uint64_t seed,
          TokenFile::Check check = TokenFile::Check::everything);

  std::uint32_t vocabulary() const { return train_.info().vocabulary; }  // token ids are below it
  std::uint64_t train_windows() const { return windows(train_); }        // samples an epoch
  std::uint64_t val_windows() const { return windows(val_); }
  // Of both files' contents, tokenizer and vocabulary, not of names and folders; must agree between sites.
  Hash128 hash() const;

  // Samples at positions [position, position + count) of the endless training order; epoch e is positions
  // [e * train_windows(), (e + 1) * train_windows()), each window once in an order of its own.  Two sites that are
  // given positions without overlap share no sample.  Any number of threads at once.
  Batch train(std::uint64_t position, std::size_t count) const;
  // `count` of the validation windows, spread evenly over the split, the same in every run; all if count is 0 or too
  // large.  In batches of at most `batch` sequences; first_position counts from 0 in this order.
  std::vector<Batch> validation(std::size_t count, std::size_t batch) const;

 private:
  std::uint64_t windows(const TokenFile& file) const;
  // Appends window w of `file` to `batch`.
  void add_window(const TokenFile& file, std::uint64_t w, Batch& batch) const;

  std::size_t context_;
  std::uint64_t seed_;
  TokenFile train_, val_;
};

// What Dataset::hash() is, from the headers of its two files.
Hash128 dataset_hash(const TokenFileInfo& train, const TokenFileInfo& val);

}  // namespace atl
