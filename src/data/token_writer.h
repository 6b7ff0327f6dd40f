// TokenWriter: writes a token file (data/token_file.h) piece by piece, without holding it in memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/mapped_file.h"
#include "data/token_file.h"

namespace atl {

// Writes PATH.partial, which becomes PATH only with commit(); until then, and after an error, PATH is what it was.
// Throws ConfigError naming the file and the system's reason, a full disk among them.  One writer a path at a time.
class TokenWriter {
 public:
  // `info`: all but tokens, token_bytes and payload_hash, which the writer finds out.
  TokenWriter(std::filesystem::path path, TokenFileInfo info);
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;
  ~TokenWriter();  // removes PATH.partial, unless committed

  void append(std::span<const std::int32_t> ids);  // throws Bug for an id that is not in [0, vocabulary)
  std::uint64_t tokens() const { return info_.tokens; }

  // Everything is on the disk, header and checksum too.  To be called once, before commit().
  const TokenFileInfo& finish();
  void commit();

 private:
  void flush();
  void write(std::span<const std::byte> bytes, std::uint64_t offset);

  std::filesystem::path path_, partial_;
  TokenFileInfo info_;
  FileDescriptor fd_;
  std::vector<std::byte> waiting_;  // encoded, not yet written
  std::uint64_t end_ = kTokenHeaderBytes;
  bool finished_ = false, committed_ = false;
};

}  // namespace atl
