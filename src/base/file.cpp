#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>

namespace atl {

namespace {

// Throws with errno in words: "runs/a/config.toml: cannot write: No space left on device (errno 28)".
[[noreturn]] void fail_errno(Blame blame, const std::filesystem::path& path, const char* what, int error = errno) {
  fail(blame,
       text(path.string(), ": cannot ", what, ": ", std::generic_category().message(error), " (errno ", error, ")"));
}

// Calls again when a signal came in between.
template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// An open file, closed with the object.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // False with errno set when the file system says only now that a write was lost.
  bool close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t n = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// A hidden name in the same folder that nobody else uses, on another machine neither (the folder may be shared).
std::filesystem::path aside_of(const std::filesystem::path& path) {
  std::random_device random;
  return folder_of(path) / text(".", path.filename().string(), ".aside-", std::hex, random(), random());
}

void sync_folder(const std::filesystem::path& folder, Blame blame) {
  const Descriptor fd(folder, O_RDONLY | O_DIRECTORY);
  if (!fd.is_open()) fail_errno(blame, folder, "open folder");
  // Some network file systems cannot flush a folder, and say EINVAL.
  if (retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) fail_errno(blame, folder, "flush folder");
}

void write_aside(const std::filesystem::path& aside, const std::filesystem::path& path,
                 std::span<const std::byte> bytes, Blame blame) {
  Descriptor fd(aside, O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.is_open()) fail_errno(blame, path, "create");
  if (!write_all(fd.get(), bytes)) fail_errno(blame, path, "write");
  if (retry([&] { return ::fsync(fd.get()); }) != 0) fail_errno(blame, path, "flush");
  if (!fd.close()) fail_errno(blame, path, "close");
}

template <class Container>
Container read_whole(const std::filesystem::path& path, std::size_t limit, Blame blame) {
  const Descriptor fd(path, O_RDONLY);
  if (!fd.is_open()) fail_errno(blame, path, "open");
  struct ::stat status {};
  if (::fstat(fd.get(), &status) != 0) fail_errno(blame, path, "look at");
  if (!S_ISREG(status.st_mode)) fail(blame, path.string() + ": is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > limit) fail(blame, text(path.string(), ": has ", size, " bytes, but ", limit, " is the limit"));
  Container content(size, typename Container::value_type{});
  for (std::size_t done = 0; done < size;) {
    const ::ssize_t n = retry([&] { return ::read(fd.get(), content.data() + done, size - done); });
    if (n < 0) fail_errno(blame, path, "read");
    if (n == 0)
      fail(blame,
           text(path.string(), ": ended after ", done, " bytes, ", size, " expected: it was cut while being read"));
    done += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, Blame blame) {
  const auto aside = aside_of(path);
  try {
    write_aside(aside, path, bytes, blame);
    if (::rename(aside.c_str(), path.c_str()) != 0) fail_errno(blame, path, "rename the new file to this name");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  sync_folder(folder_of(path), blame);
}

void write_atomically(const std::filesystem::path& path, std::string_view text, Blame blame) {
  write_atomically(path, std::as_bytes(std::span(text)), blame);
}

std::vector<std::byte> read_file(const std::filesystem::path& path, std::size_t limit, Blame blame) {
  return read_whole<std::vector<std::byte>>(path, limit, blame);
}

std::string read_text(const std::filesystem::path& path, std::size_t limit, Blame blame) {
  return read_whole<std::string>(path, limit, blame);
}

void append_line(const std::filesystem::path& path, std::string_view line, Blame blame) {
  ATOLL_CHECK(line.find('\n') == std::string_view::npos, "a newline at ", line.find('\n'), " of ", line.size());
  const std::string whole = std::string(line) + '\n';
  Descriptor fd(path, O_WRONLY | O_APPEND | O_CREAT);
  if (!fd.is_open()) fail_errno(blame, path, "open");
  const ::ssize_t n = retry([&] { return ::write(fd.get(), whole.data(), whole.size()); });
  if (n < 0) fail_errno(blame, path, "append to");
  if (static_cast<std::size_t>(n) != whole.size())
    fail(blame,
         text(path.string(), ": only ", n, " of ", whole.size(), " bytes of a line were written: is the disk full?"));
  if (!fd.close()) fail_errno(blame, path, "close");
}

}  // namespace atl
