// Token files that a test writes byte by byte or through the writer, and ways to damage them.
#pragma once
#include <sys/resource.h>

#include <csignal>
#include <numeric>
#include <vector>

#include "data/token_writer.h"
#include "support/temp_dir.h"

namespace atl {

// A token file with these ids.
inline TokenFileInfo write_tokens(const std::filesystem::path& path, const std::vector<std::int32_t>& ids,
                                  std::uint32_t vocabulary = 256, const std::string& split = "train",
                                  Hash128 set_hash = {}, Hash128 tokenizer_hash = {}) {
  TokenWriter out(path, {.vocabulary = vocabulary,
                         .payload_hash = {},
                         .tokenizer_hash = tokenizer_hash,
                         .set_hash = set_hash,
                         .tokenizer = "test",
                         .split = split});
  out.append(ids);
  const TokenFileInfo info = out.finish();
  out.commit();
  return info;
}

// 0, 1, 2 ... n - 1.
inline std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

inline void flip_byte(const std::filesystem::path& path, std::size_t at) {
  std::string bytes = slurp(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  spill(path, bytes);
}

// While it lives, a file of this process that grows past `bytes` fails to be written: a full disk without a disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(::rlim_t bytes) : before_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    ::rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, before_signal_);
  }

 private:
  ::rlimit before_{};
  void (*before_signal_)(int);
};

}  // namespace atl
