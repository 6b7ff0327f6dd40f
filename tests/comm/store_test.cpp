// The store as a folder: what a reader may see, who wins, and what a user is told.
#include "comm/store.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

namespace {

std::string url_of(const TempDir& folder) { return "file://" + folder.path().string(); }
std::span<const std::byte> bytes_of(const std::string& value) { return std::as_bytes(std::span(value)); }
std::string string_of(const std::vector<std::byte>& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

// In a child process, as another link would; its exit status.
template <class Do>
int elsewhere(const Do& what) {
  const pid_t child = fork();
  if (child == 0) _exit(what() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("store: a key is absent, then what was put, then what was put last") {
  const TempDir folder;
  FileStore store(url_of(folder));
  CHECK_FALSE(store.get("join/a").has_value());
  store.put("join/a", bytes_of("one"));
  CHECK(string_of(store.get("join/a").value()) == "one");
  store.put("join/a", bytes_of("two two"));
  CHECK(string_of(store.get("join/a").value()) == "two two");
  store.put("join/a", {});
  CHECK(store.get("join/a").value().empty());
  store.put("gloo/1-2/0/rank_0", bytes_of("deep"));
  CHECK(string_of(store.get("gloo/1-2/0/rank_0").value()) == "deep");
}

TEST_CASE("store: of many that create a key one wins, and its value stays") {
  const TempDir folder;
  for (int round = 0; round < 20; ++round) {
    const std::string key = "gen/" + std::to_string(round);
    std::atomic<int> won{0}, winner{-1};
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([&, i] {
        FileStore store(url_of(folder));
        if (!store.create(key, bytes_of(std::to_string(i)))) return;
        ++won;
        winner = i;
      });
    for (std::thread& each : all) each.join();
    CHECK(won == 1);
    CHECK(string_of(FileStore(url_of(folder)).get(key).value()) == std::to_string(winner.load()));
  }
}

TEST_CASE("store: a reader sees all of a value or all of another, never a part") {
  const TempDir folder;
  FileStore reader(url_of(folder));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    FileStore store(url_of(folder));
    for (std::size_t i = 0; !stop; ++i)
      store.put("join/a", bytes_of(std::string(1 + i * 997 % 20'000, static_cast<char>('a' + i % 26))));
  });
  int seen = 0, torn = 0;
  for (int i = 0; i < 2000 || seen < 100; ++i) {
    const auto value = reader.get("join/a");
    if (!value) continue;
    ++seen;
    const std::string found = string_of(*value);
    if (found.empty() || found.find_first_not_of(found[0]) != std::string::npos) ++torn;
  }
  stop = true;
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("store: a list has the keys of a folder in order, and nothing half written") {
  const TempDir folder;
  FileStore store(url_of(folder));
  CHECK(store.list("gen").empty());
  CHECK(store.list("nowhere").empty());
  for (const char* key : {"gen/2", "gen/10", "gen/1"}) store.put(key, bytes_of("x"));
  spill(folder.path() / "gen" / ".aside.77.1", "half");
  CHECK(store.list("gen") == std::vector<std::string>{"1", "10", "2"});
  store.remove_all("gen");
  CHECK(store.list("gen").empty());
  store.remove_all("gen");  // twice is fine
  store.put("gen/3", bytes_of("x"));
  CHECK(store.list("gen") == std::vector<std::string>{"3"});
}

TEST_CASE("store: values of up to 64 KiB are kept, larger ones are refused on both sides") {
  const TempDir folder;
  FileStore store(url_of(folder));
  const std::string largest(FileStore::kLargestValue, 'x');
  store.put("join/a", bytes_of(largest));
  CHECK(store.get("join/a").value().size() == largest.size());
  CHECK_THROWS_AS(store.put("join/a", bytes_of(largest + "x")), Bug);
  spill(folder.path() / "join" / "b", largest + "x");
  CHECK_THROWS_WITH_AS(store.get("join/b"), doctest::Contains("larger than 65536 bytes"), LinkError);
}

TEST_CASE("store: a lock is held by one process until that process ends") {
  const TempDir folder;
  FileStore store(url_of(folder));
  REQUIRE(store.lock("lock/a"));
  CHECK(elsewhere([&] { return !FileStore(url_of(folder)).lock("lock/a"); }) == 0);
  CHECK(elsewhere([&] { return FileStore(url_of(folder)).lock("lock/b"); }) == 0);
  CHECK(elsewhere([&] { return FileStore(url_of(folder)).lock("lock/b"); }) == 0);  // the one before has ended

  std::array<int, 2> ready{}, go{};
  REQUIRE(pipe(ready.data()) == 0);
  REQUIRE(pipe(go.data()) == 0);
  const pid_t holder = fork();
  if (holder == 0) {
    char c = FileStore(url_of(folder)).lock("lock/c") ? '1' : '0';
    if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) < 0) _exit(1);
    for (;;) pause();
  }
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  CHECK(c == '1');
  CHECK_FALSE(store.lock("lock/c"));
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  CHECK(store.lock("lock/c"));
}

TEST_CASE("store: a url that cannot work is the user's to fix, and the text says what is wrong") {
  const TempDir folder;
  CHECK_THROWS_WITH_AS(FileStore(""), doctest::Contains("file:///"), ConfigError);
  CHECK_THROWS_WITH_AS(FileStore("redis://host"), doctest::Contains("\"redis://host\""), ConfigError);
  CHECK_THROWS_WITH_AS(FileStore("file://relative/folder"), doctest::Contains("absolute"), ConfigError);
  CHECK_THROWS_WITH_AS(FileStore("file://"), doctest::Contains("absolute"), ConfigError);
  spill(folder / "file", "x");
  CHECK_THROWS_WITH_AS(FileStore("file://" + (folder / "file").string()), doctest::Contains("not a folder"),
                       ConfigError);
  CHECK_THROWS_AS(FileStore("file://" + (folder / "file" / "below").string()), ConfigError);
  CHECK_THROWS_AS(FileStore("file:///proc/atoll"), ConfigError);  // also root cannot make a folder there
  CHECK_NOTHROW(FileStore("file://" + (folder / "new" / "folder").string()));
}

TEST_CASE("store: a folder without permission to write is refused") {
  if (geteuid() != 0) return;  // the test needs to give its rights away in a child
  const TempDir folder;
  const auto store = folder / "store";
  std::filesystem::create_directory(store);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(store, std::filesystem::perms::owner_all | std::filesystem::perms::others_read |
                                          std::filesystem::perms::others_exec);
  CHECK(elsewhere([&] {
          if (setuid(65534) != 0) return false;
          try {
            FileStore("file://" + store.string());
          } catch (const ConfigError& e) {
            return std::string(e.what()).find(store.string()) != std::string::npos;
          }
          return false;
        }) == 0);
}

TEST_CASE("store: it works on when its folder is removed under it") {
  const TempDir folder;
  const auto root = folder / "store";
  FileStore store("file://" + root.string());
  store.put("join/a", bytes_of("x"));
  std::filesystem::remove_all(root);
  CHECK_FALSE(store.get("join/a").has_value());
  CHECK(store.list("join").empty());
  store.put("join/a", bytes_of("y"));
  CHECK(string_of(store.get("join/a").value()) == "y");
  CHECK(store.create("gen/1", bytes_of("z")));
}

TEST_CASE("store: a key cannot leave the folder") {
  const TempDir folder;
  FileStore store(url_of(folder));
  for (const char* key : {"", "/etc/x", "../x", "join/../../x"}) CHECK_THROWS_AS(store.put(key, bytes_of("x")), Bug);
}
