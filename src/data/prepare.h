// `atoll data prepare`: text files -> a folder with train.tokens, val.tokens and dataset.json (docs/token_file.md).
//
// The same text, share and tokenizer give the same bytes, on every machine and in every folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"

namespace atl {

struct PrepareConfig {
  std::vector<std::filesystem::path> files;  // in this order, one after the other, with nothing between them
  std::filesystem::path out;                 // made if it is not there; a dataset of ours in it is replaced
  std::string tokenizer = "bytes";           // or "spm:MODEL"
  double val = 0.05;                         // share of the text held out, in (0, 1); which: data/text_split.h
  std::filesystem::path tokenize_program;    // empty: atoll-tokenize beside the running program
};

struct PrepareSource {
  std::string file;  // as given
  std::uint64_t bytes = 0, val_bytes = 0;
  Hash128 hash;
};

struct PrepareReport {
  std::filesystem::path out;
  std::string tokenizer;
  std::uint32_t vocabulary = 0;
  std::vector<PrepareSource> sources;
  std::uint64_t train_tokens = 0, val_tokens = 0;
  Hash128 hash;  // Dataset::hash() of the folder
};

// Blocks; memory is the size of a piece of text, not of the files.  Each file of the folder is written aside, flushed
// and renamed, dataset.json last; after an error those of a former dataset are as they were.  Throws ConfigError for:
// no file; a file that is not there, not regular, empty, or named twice; an unknown tokenizer; val outside (0, 1); an
// `out` that holds something else; another `prepare` at work in it; a split of fewer than 2 tokens; a full disk.
PrepareReport prepare(const PrepareConfig& config);

// What was made, for people, in a few lines.
std::string describe(const PrepareReport& report);

}  // namespace atl
