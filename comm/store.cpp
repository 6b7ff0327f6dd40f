#include "comm/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& what, int error) {
  throw LinkError(text("store ", path.string(), ": cannot ", what, ": ", std::strerror(error)));
}

}  // namespace

FileStore::FileStore(const std::string& url) {
  constexpr std::string_view kScheme = "file://";
  if (!url.starts_with(kScheme) || url.size() == kScheme.size() || url[kScheme.size()] != '/')
    throw ConfigError(text("store.url = \"", url, "\", but it must be file:///FOLDER, an absolute path"));
  root_ = url.substr(kScheme.size());
  std::error_code error;
  if (fs::exists(root_, error) && !fs::is_directory(root_, error))
    throw ConfigError(text("store.url = \"", url, "\": that is not a folder"));
  for (const char* part : {"join", "gen", "left", "lock", "gloo"}) {
    fs::create_directories(root_ / part, error);
    if (error) throw ConfigError(text("store.url = \"", url, "\": cannot make folders in it: ", error.message()));
  }
  std::random_device random;
  own_ = text(std::hex, random(), random());
  const fs::path probe = root_ / ("probe." + own_);
  const int fd = open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) throw ConfigError(text("store.url = \"", url, "\": not writable: ", std::strerror(errno)));
  close(fd);
  unlink(probe.c_str());
}

fs::path FileStore::path_of(const std::string& key) const {
  ATOLL_CHECK(!key.empty() && key.find("..") == std::string::npos && key[0] != '/', "key ", key);
  return root_ / key;
}

fs::path FileStore::write_aside(const fs::path& target, std::span<const std::byte> value) {
  ATOLL_CHECK(value.size() <= kLargestValue, value.size(), " bytes for ", target.string());
  const fs::path aside = target.parent_path() / (".aside." + own_ + "." + std::to_string(++written_));
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  const int fd = open(aside.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) refuse(target, "write", errno);
  const ssize_t done = write(fd, value.data(), value.size());
  const int failed = errno;
  close(fd);
  if (done != static_cast<ssize_t>(value.size())) {
    unlink(aside.c_str());
    refuse(target, "write", done < 0 ? failed : ENOSPC);
  }
  return aside;
}

void FileStore::put(const std::string& key, std::span<const std::byte> value) {
  const fs::path target = path_of(key), aside = write_aside(target, value);
  if (rename(aside.c_str(), target.c_str()) == 0) return;
  const int error = errno;
  unlink(aside.c_str());
  refuse(target, "write", error);
}

bool FileStore::create(const std::string& key, std::span<const std::byte> value) {
  const fs::path target = path_of(key), aside = write_aside(target, value);
  const bool created = link(aside.c_str(), target.c_str()) == 0;
  const int error = errno;
  unlink(aside.c_str());
  if (!created && error != EEXIST) refuse(target, "create", error);
  return created;
}

std::optional<std::vector<std::byte>> FileStore::get(const std::string& key) const {
  const fs::path path = path_of(key);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ESTALE) return std::nullopt;
    refuse(path, "read", errno);
  }
  std::vector<std::byte> value(kLargestValue + 1);
  std::size_t size = 0;
  for (ssize_t n; (n = read(fd, value.data() + size, value.size() - size)) > 0;) size += static_cast<std::size_t>(n);
  close(fd);
  if (size > kLargestValue)
    throw LinkError(text("store ", path.string(), ": larger than ", kLargestValue, " bytes: nothing of atoll's"));
  value.resize(size);
  return value;
}

std::vector<std::string> FileStore::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path_of(folder), error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(".aside.")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void FileStore::remove_all(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(path_of(folder), ignored);
}

bool FileStore::lock(const std::string& key) {
  const fs::path path = path_of(key);
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) refuse(path, "open", errno);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return true;  // the descriptor stays open, on purpose
  const int error = errno;
  close(fd);
  if (error != EWOULDBLOCK) refuse(path, "lock", error);
  return false;
}

}  // namespace atl
