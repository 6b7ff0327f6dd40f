// Tokenizers: text -> ids below a vocabulary.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace atl {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;          // "bytes", "spm:english.model"
  virtual Hash128 hash() const = 0;              // of what ids mean
  virtual std::uint32_t vocabulary() const = 0;  // ids are below it
  // Appends the ids of `text`, which should be whole lines: a tokenizer does not see over the ends of what it is given.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;
};

// "bytes": ids are the text's bytes, vocabulary 256.
// "spm:MODEL": the SentencePiece model in this file, through the program `helper` (tokenize_main.cpp says why it is one
//   of its own); empty: atoll-tokenize beside the running program.  A line is encoded by itself; a newline is the piece
//   "\n" of the model, else its byte <0x0A>, else nothing (lines are then held apart by the model's mark of a word's
//   beginning).
// Throws ConfigError for another name, and when the model or the program is not there or does not work.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, const std::filesystem::path& helper = {});

}  // namespace atl
