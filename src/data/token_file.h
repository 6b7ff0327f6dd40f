// TokenFile: one split of a text as token ids, memory-mapped and checked.
//
// The bytes are written in docs/token_file.md, which is the authority.  Written by data/token_writer.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/mapped_file.h"

namespace atl {

constexpr std::size_t kTokenHeaderBytes = 256;
constexpr std::uint32_t kTokenFileVersion = 1;
constexpr std::size_t kTokenizerNameLimit = 96;       // bytes
constexpr std::uint32_t kMaxVocabulary = 0x7FFFFFFF;  // ids fit into int32

struct TokenFileInfo {
  std::uint32_t vocabulary = 0;   // ids are below it
  std::uint32_t token_bytes = 2;  // 2 or 4
  std::uint64_t tokens = 0;
  Hash128 payload_hash;    // XXH3-128 of all token bytes
  Hash128 tokenizer_hash;  // of the tokenizer's model; what ids mean
  Hash128 set_hash;        // the same in the files of one `prepare`; zero: not known
  std::string tokenizer;   // "bytes", "spm:english.model": for people
  std::string split;       // "train", "val"
};

// The header as it stands in a file.  Throws Bug for what no file may hold.
std::vector<std::byte> encode_token_header(const TokenFileInfo& info);
// Throws ConfigError that begins with `name` unless `bytes` begin with a whole and sound header.
TokenFileInfo decode_token_header(std::span<const std::byte> bytes, const std::string& name);

class TokenFile {
 public:
  // What is looked at when a file is opened.  `everything` also reads all of it once (checksum, ids below the
  // vocabulary): a second for some GB that are in memory, as long as the disk takes for those that are not.
  enum class Check { header_and_length, everything };

  // Throws ConfigError: which file, what was found, what must hold, what to do.
  explicit TokenFile(const std::filesystem::path& path, Check check = Check::everything);

  const TokenFileInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // Tokens [first, first + out.size()) into `out`.  Throws Bug past the end.  Any number of threads at once.
  void read(std::uint64_t first, std::span<std::int32_t> out) const;
  // Checksum, and ids below the vocabulary.  Throws ConfigError.
  void verify() const;

 private:
  MappedFile file_;
  TokenFileInfo info_;
  std::span<const std::byte> payload_;
};

}  // namespace atl
