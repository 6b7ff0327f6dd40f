#include "base/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "support/temp_dir.h"

namespace atl {
namespace {

std::size_t files_in(const TempDir& dir) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
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

TEST_CASE("file: written whole, replaced whole, nothing left aside, readable by others as the umask says") {
  const TempDir dir;
  const auto path = dir / "a";
  write_atomically(path, "one");
  CHECK(slurp(path) == "one");
  write_atomically(path, std::string(300'000, 'x'));
  CHECK(slurp(path) == std::string(300'000, 'x'));
  write_atomically(path, "");
  CHECK(slurp(path).empty());
  CHECK(files_in(dir) == 1);
  const ::mode_t mask = ::umask(0);
  ::umask(mask);
  struct ::stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == (0666U & ~mask));
}

TEST_CASE("file: a disk that is full leaves what was there and nothing aside, and says so") {
  const TempDir dir;
  const auto path = dir / "a";
  write_atomically(path, "old");
  {
    const FileSizeLimit limit(4096);
    CHECK_THROWS_WITH_AS(write_atomically(path, std::string(10'000, 'x')),
                         doctest::Contains("a: cannot write: File too large (errno 27)"), ConfigError);
    CHECK_THROWS_AS(write_atomically(path, std::string(10'000, 'x'), Blame::link), LinkError);
  }
  CHECK(slurp(path) == "old");
  CHECK(files_in(dir) == 1);
  CHECK_THROWS_WITH_AS(append_line("/dev/full", "x"), "/dev/full: cannot append to: No space left on device (errno 28)",
                       ConfigError);
}

TEST_CASE("file: a folder that is not there, or a folder in the file's place, is named") {
  const TempDir dir;
  CHECK_THROWS_WITH_AS(write_atomically(dir / "no" / "a", "x"),
                       doctest::Contains("no/a: cannot create: No such file or directory (errno 2)"), ConfigError);
  std::filesystem::create_directory(dir / "folder");
  CHECK_THROWS_WITH_AS(write_atomically(dir / "folder", "x"), doctest::Contains("rename the new file"), ConfigError);
  CHECK(files_in(dir) == 1);
  CHECK_THROWS_WITH_AS(read_file(dir / "missing", 10), doctest::Contains("missing: cannot open: No such file"),
                       ConfigError);
  CHECK_THROWS_AS(read_file(dir / "missing", 10, Blame::link), LinkError);
  CHECK_THROWS_WITH_AS(read_file(dir / "folder", 10), doctest::Contains("is no regular file"), ConfigError);
}

TEST_CASE("file: many writers of one path leave one whole content") {
  const TempDir dir;
  const auto path = dir / "a";
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&path, c] {
      for (int i = 0; i < 5; ++i) write_atomically(path, std::string(10'000, c));
    });
  for (auto& writer : writers) writer.join();
  const std::string content = slurp(path);
  CHECK(content.size() == 10'000);
  CHECK(std::ranges::all_of(content, [&](char c) { return c == content[0]; }));
  CHECK(files_in(dir) == 1);
}

TEST_CASE("file: read whole up to the limit, and not one byte more") {
  const TempDir dir;
  const auto path = dir / "a";
  spill(path, std::string("a\0b", 3));
  CHECK(read_text(path, 3) == std::string("a\0b", 3));
  CHECK(read_file(path, 100) == std::vector<std::byte>{std::byte{'a'}, std::byte{0}, std::byte{'b'}});
  CHECK_THROWS_WITH_AS(read_file(path, 2), doctest::Contains("a: has 3 bytes, but 2 is the limit"), ConfigError);
  spill(path, "");
  CHECK(read_text(path, 0).empty());
}

TEST_CASE("file: lines are appended whole, by several threads too") {
  const TempDir dir;
  const auto path = dir / "lines";
  append_line(path, "first");
  append_line(path, "");
  CHECK(slurp(path) == "first\n\n");
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&path, c] {
      for (int i = 0; i < 50; ++i) append_line(path, std::string(3000, c));
    });
  for (auto& writer : writers) writer.join();
  std::ifstream in(path);
  std::string line;
  int lines = 0;
  bool whole = true;
  while (std::getline(in, line)) {
    if (++lines <= 2) continue;
    whole = whole && line.size() == 3000 && line == std::string(3000, line[0]);
  }
  CHECK(lines == 202);
  CHECK(whole);
  CHECK_THROWS_WITH_AS(append_line(path, "a\nb"), doctest::Contains("a newline at 1 of 3"), Bug);
}

TEST_CASE("file: a line of which the disk took only a part is an error") {
  const TempDir dir;
  append_line(dir / "lines", std::string(4000, 'x'));
  const FileSizeLimit limit(4096);
  CHECK_THROWS_WITH_AS(append_line(dir / "lines", std::string(1000, 'y')), doctest::Contains("only 95 of 1001 bytes"),
                       ConfigError);
}

}  // namespace
}  // namespace atl
