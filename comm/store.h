// FileStore: the meeting place of links, a directory.  Keys are paths below it ("join/site-0").
//
// A value is written aside and renamed, so that a reader sees all of it or none; create() is link(2): of several, one wins.
// Works on a local disk and on a shared file system with atomic rename and link (NFS has both).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace atl {

class FileStore {
 public:
  static constexpr std::size_t kLargestValue = 64 * 1024;  // bytes; a larger one is refused on both sides

  // url: "file:///folder".  Makes the folder.  Throws ConfigError: another kind of url, not a folder, not writable.
  explicit FileStore(const std::string& url);

  void put(const std::string& key, std::span<const std::byte> value);
  bool create(const std::string& key, std::span<const std::byte> value);  // false: it is there already
  std::optional<std::vector<std::byte>> get(const std::string& key) const;
  std::vector<std::string> list(const std::string& folder) const;  // names in it, sorted; empty when it is absent
  void remove_all(const std::string& folder);                      // never throws: for what nobody needs any more

  // Holds the key's lock (flock) until the process ends; false when another process has it.
  bool lock(const std::string& key);

  const std::filesystem::path& root() const { return root_; }
  std::string url() const { return "file://" + root_.string(); }

 private:
  std::filesystem::path path_of(const std::string& key) const;
  std::filesystem::path write_aside(const std::filesystem::path& target, std::span<const std::byte> value);

  std::filesystem::path root_;
  std::string own_;  // random: no two stores share a name, not even on machines with equal process numbers
  std::uint64_t written_ = 0;
};

}  // namespace atl
