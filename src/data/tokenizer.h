// Tokenizers: bytes, or a SentencePiece model.  Used when data is prepared, not when it is trained on.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace atl {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::uint32_t vocabulary() const = 0;
  virtual Hash128 hash() const = 0;  // of what decides the tokens: "bytes", or the model file
  virtual std::string name() const = 0;
  virtual std::vector<std::uint32_t> encode(std::string_view text) const = 0;
};

// "bytes", or "spm:FILE".  Throws ConfigError for another word or a model that cannot be read.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word);

}  // namespace atl
