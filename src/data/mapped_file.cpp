#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "base/error.h"

namespace atl {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void fail_errno(const std::filesystem::path& path, const std::string& what, int error) {
  throw ConfigError(
      text(path.string(), ": cannot ", what, ": ", std::generic_category().message(error), " (errno ", error, ")"));
}

FileDescriptor open_file(const std::filesystem::path& path, int flags, const std::string& what) {
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_errno(path, what);
  return FileDescriptor(fd);
}

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const FileDescriptor fd = open_file(path_, O_RDONLY, "open");
  struct ::stat status {};
  if (::fstat(fd.get(), &status) != 0) fail_errno(path_, "look at");
  if (!S_ISREG(status.st_mode)) throw ConfigError(path_.string() + ": is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // mmap refuses it
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) fail_errno(path_, "map");
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace atl
