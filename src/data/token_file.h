// Token file: one split of a prepared text, memory-mapped.  Format: docs/token_file.md, which is the authority.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/hash.h"

namespace atl {

struct TokenFileHeader {
  static constexpr std::size_t kBytes = 128;
  std::uint32_t width = 2;         // bytes a token: 2 or 4
  std::uint32_t vocabulary = 256;  // every token is below it
  std::uint64_t tokens = 0;
  Hash128 tokenizer;               // of its name and model
  Hash128 content;                 // of the tokens' bytes
  std::string split;               // "train" or "val", at most 16 bytes
};

// Writes header and tokens aside and renames.  Throws ConfigError (disk full ..., or a token that is not below the vocabulary).
void write_token_file(const std::filesystem::path& path, TokenFileHeader header, std::span<const std::uint32_t> tokens);

// Read-only; the file must not change while it is open.
class TokenFile {
 public:
  // Throws ConfigError: not there, no token file, other version, cut short or too long, wrong checksum (which reads all of it
  // once), not the split that is expected.
  TokenFile(const std::filesystem::path& path, const std::string& split);
  ~TokenFile();
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;

  const TokenFileHeader& header() const { return header_; }
  std::uint64_t size() const { return header_.tokens; }
  const std::filesystem::path& path() const { return path_; }
  // Tokens [first, first + out.size()), written to out.  Throws Bug past the end.
  void read(std::uint64_t first, std::span<std::int32_t> out) const;

 private:
  std::filesystem::path path_;
  TokenFileHeader header_;
  const std::byte* map_ = nullptr;
  std::size_t mapped_ = 0;
};

}  // namespace atl
