// Prepare: text files in, a folder of token files out (train.tokens, val.tokens, dataset.json).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"

namespace atl {

struct PrepareConfig {
  std::vector<std::filesystem::path> files;  // joined in this order
  std::filesystem::path out;
  std::string tokenizer = "bytes";  // or spm:MODEL
  double val = 0.05;                // share of the tokens that is held out, in (0, 1)
};

struct PrepareReport {
  std::filesystem::path out;
  std::string tokenizer;
  std::uint32_t vocabulary = 0;
  std::uint64_t source_bytes = 0, train_tokens = 0, val_tokens = 0;
  std::uint64_t segment = 0;  // tokens that stay together
  Hash128 train_hash, val_hash;
};

// The joined tokens are cut into segments of 8192 (of 1/200 of them when there are few), and every segment goes to one split, the held-out ones evenly
// spread: so both splits see every file.  Deterministic.  Files are written aside and renamed; dataset.json last.
// Throws ConfigError: a file that is absent or empty, `val` outside (0, 1), an `out` with other things in it, fewer than 2 segments, a full disk.
PrepareReport prepare(const PrepareConfig& config);
std::string describe(const PrepareReport& report);  // a few lines for a person

}  // namespace atl
