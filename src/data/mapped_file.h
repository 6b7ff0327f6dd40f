// MappedFile: a regular file as read-only bytes, without reading it first.  And the file descriptor that it needs.
//
// Whoever cuts the file short while it is mapped makes the next access end the process (SIGBUS); atoll's own writers
// rename new files into place, which leaves what is mapped as it was.
#pragma once
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace atl {

// An open file, closed with the object; -1 for none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Opens `path` close-on-exec, new files with mode 0666 and the umask.  Throws ConfigError "PATH: cannot WHAT: reason".
FileDescriptor open_file(const std::filesystem::path& path, int flags, const std::string& what);
// Throws ConfigError "PATH: cannot WHAT: No space left on device (errno 28)".
[[noreturn]] void fail_errno(const std::filesystem::path& path, const std::string& what, int error = errno);

class MappedFile {
 public:
  // Throws ConfigError when it cannot be opened or mapped, or is no regular file.  An empty file has no bytes.
  explicit MappedFile(std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace atl
