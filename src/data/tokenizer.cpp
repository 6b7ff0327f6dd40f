#include "data/tokenizer.h"

#include <sentencepiece_processor.h>

#include "base/error.h"
#include "base/file.h"

namespace atl {
namespace {

class Bytes final : public Tokenizer {
 public:
  std::uint32_t vocabulary() const override { return 256; }
  Hash128 hash() const override { return hash_text("bytes"); }
  std::string name() const override { return "bytes"; }
  std::vector<std::uint32_t> encode(std::string_view text) const override {
    std::vector<std::uint32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
};

class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(const std::string& file) : file_(file) {
    constexpr std::size_t kLimit = 64U << 20U;
    const std::string model = read_text(file, kLimit);
    hash_ = hash_text(model);
    if (const auto status = processor_.LoadFromSerializedProto(model); !status.ok())
      throw ConfigError(text(file, ": not a SentencePiece model: ", status.ToString()));
  }
  std::uint32_t vocabulary() const override { return static_cast<std::uint32_t>(processor_.GetPieceSize()); }
  Hash128 hash() const override { return hash_; }
  std::string name() const override { return "spm:" + file_; }
  std::vector<std::uint32_t> encode(std::string_view text) const override {
    std::vector<std::uint32_t> tokens;
    // By line: SentencePiece takes a sentence at a time, and what it cannot see (newlines) would be lost.  A line's end is kept
    // as the model's piece for it where there is one.
    std::size_t at = 0;
    while (at < text.size()) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::vector<int> ids;
      const auto status = processor_.Encode(std::string(text.substr(at, end - at)), &ids);
      if (!status.ok()) throw ConfigError(file_ + ": " + status.ToString());
      for (const int id : ids) tokens.push_back(static_cast<std::uint32_t>(id));
      if (end < text.size()) {
        const int newline = processor_.PieceToId("<0x0A>");
        if (newline != processor_.unk_id()) tokens.push_back(static_cast<std::uint32_t>(newline));
      }
      at = end + 1;
    }
    return tokens;
  }

 private:
  std::string file_;
  Hash128 hash_;
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& word) {
  if (word == "bytes") return std::make_unique<Bytes>();
  if (word.starts_with("spm:") && word.size() > 4) return std::make_unique<SentencePiece>(word.substr(4));
  throw ConfigError(text("tokenizer \"", word, "\": it must be \"bytes\" or \"spm:MODEL\""));
}

}  // namespace atl
