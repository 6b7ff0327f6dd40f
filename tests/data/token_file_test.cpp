#include "data/token_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>

#include "base/error.h"
#include "data/data_files.h"

namespace atl {
namespace {

std::vector<std::int32_t> all_of(const TokenFile& file) {
  std::vector<std::int32_t> ids(file.info().tokens);
  file.read(0, ids);
  return ids;
}

void check_refused(const std::filesystem::path& path, const std::string& message) {
  CHECK_THROWS_WITH_AS(TokenFile{path}, doctest::Contains((path.string() + ": " + message).c_str()), ConfigError);
}

// Puts `bytes` at `at` of a token file and makes the header's checksum fit again: what another program could have written.
void rewrite_header(const std::filesystem::path& path, std::size_t at, std::string_view bytes) {
  std::string file = slurp(path);
  file.replace(at, bytes.size(), bytes);
  const XXH128_hash_t hash = XXH3_128bits(file.data(), 240);
  std::memcpy(file.data() + 240, &hash.low64, 8);
  std::memcpy(file.data() + 248, &hash.high64, 8);
  spill(path, file);
}
std::string number(std::uint64_t value, std::size_t bytes) { return {reinterpret_cast<const char*>(&value), bytes}; }

TEST_CASE("token file: what was written is read, two bytes a token") {
  const TempDir dir;
  write_tokens(dir / "a", {0, 1, 65535, 258}, 65536, "val");
  const TokenFile file(dir / "a");
  CHECK(file.info().token_bytes == 2);
  CHECK(file.info().tokens == 4);
  CHECK(file.info().vocabulary == 65536);
  CHECK(file.info().split == "val");
  CHECK(all_of(file) == std::vector<std::int32_t>{0, 1, 65535, 258});
  std::vector<std::int32_t> some(2);
  file.read(1, some);
  CHECK(some == std::vector<std::int32_t>{1, 65535});
}

TEST_CASE("token file: a larger vocabulary takes four bytes a token") {
  const TempDir dir;
  write_tokens(dir / "a", {0, 65536, 70000, 1}, 70001);
  const TokenFile file(dir / "a");
  CHECK(file.info().token_bytes == 4);
  CHECK(all_of(file) == std::vector<std::int32_t>{0, 65536, 70000, 1});
}

TEST_CASE("token file: the bytes are those of docs/token_file.md") {
  const TempDir dir;
  const std::vector<std::int32_t> ids{1, 2, 513};
  write_tokens(dir / "a", ids, 1000, "train", {.high = 3, .low = 4}, {.high = 5, .low = 6});
  const std::string payload = number(1, 2) + number(2, 2) + number(513, 2);
  const XXH128_hash_t payload_hash = XXH3_128bits(payload.data(), payload.size());
  std::string want = "ATOLLTOK" + number(1, 4) + number(256, 4) + number(1000, 4) + number(2, 4) + number(3, 8) +
                     number(payload_hash.low64, 8) + number(payload_hash.high64, 8) + number(6, 8) + number(5, 8) +
                     number(4, 8) + number(3, 8) + number(4, 4) + "test" + number(5, 4) + "train";
  want.resize(240, '\0');
  const XXH128_hash_t header_hash = XXH3_128bits(want.data(), want.size());
  want += number(header_hash.low64, 8) + number(header_hash.high64, 8) + payload;
  CHECK(slurp(dir / "a") == want);
}

TEST_CASE("token file: many pieces are one file, larger than the writer's buffer") {
  const TempDir dir;
  constexpr std::int32_t n = 700'000;
  TokenWriter out(dir / "a", {.vocabulary = 1'000'000,
                              .payload_hash = {},
                              .tokenizer_hash = {},
                              .set_hash = {},
                              .tokenizer = "t",
                              .split = "train"});
  for (std::int32_t first = 0; first < n; first += 7) {
    std::vector<std::int32_t> piece;
    for (std::int32_t id = first; id < std::min(first + 7, n); ++id) piece.push_back(id);
    out.append(piece);
  }
  CHECK(out.tokens() == n);
  out.finish();
  CHECK_FALSE(std::filesystem::exists(dir / "a"));
  out.commit();
  CHECK(all_of(TokenFile(dir / "a")) == counting(n));
  CHECK_FALSE(std::filesystem::exists(dir / "a.partial"));
}

TEST_CASE("token file: without tokens it is a file all the same") {
  const TempDir dir;
  write_tokens(dir / "a", {});
  CHECK(TokenFile(dir / "a").info().tokens == 0);
}

TEST_CASE("token file: cut short anywhere it is refused") {
  const TempDir dir;
  write_tokens(dir / "whole", {1, 2, 3});
  const std::string whole = slurp(dir / "whole");
  REQUIRE(whole.size() == 262);
  const auto path = dir / "a";
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CAPTURE(bytes);
    spill(path, whole.substr(0, bytes));
    if (bytes < 8)
      check_refused(path,
                    "is no token file: it does not begin with ATOLLTOK; run `atoll data prepare FILES --out DIR`");
    else if (bytes < 256)
      check_refused(path, "has " + std::to_string(bytes) +
                              " bytes, but its header alone has 256: it was cut short; copy it again");
    else
      check_refused(path,
                    "holds " + std::to_string(bytes - 256) +
                        " bytes of tokens, but its header says 3 tokens of 2 bytes: it was cut short; copy it again");
  }
  spill(path, whole + "x");
  check_refused(path, "holds 7 bytes of tokens, but its header says 3 tokens of 2 bytes: it was added to");
}

TEST_CASE("token file: a flipped byte anywhere is refused") {
  const TempDir dir;
  const auto path = dir / "a";
  write_tokens(path, {1, 2, 3});
  for (std::size_t at = 0; at < 262; ++at) {
    CAPTURE(at);
    flip_byte(path, at);
    if (at < 8)
      check_refused(path, "is no token file");
    else if (at < 12)
      check_refused(path, "is a token file of version ");
    else if (at < 256)
      check_refused(path, "the header's checksum does not fit it: its bytes have changed; copy it again");
    else
      check_refused(path, "the tokens' checksum is ");
    flip_byte(path, at);
  }
  CHECK_NOTHROW(TokenFile{path});
}

TEST_CASE("token file: without the check of everything, a flipped token is found when asked") {
  const TempDir dir;
  write_tokens(dir / "a", {1, 2, 3});
  flip_byte(dir / "a", 256);
  const TokenFile file(dir / "a", TokenFile::Check::header_and_length);
  CHECK(all_of(file) == std::vector<std::int32_t>{0, 2, 3});
  CHECK_THROWS_WITH_AS(file.verify(), doctest::Contains("bytes have changed"), ConfigError);
}

TEST_CASE("token file: another version says which") {
  const TempDir dir;
  write_tokens(dir / "a", {1, 2, 3});
  rewrite_header(dir / "a", 8, number(2, 4));
  check_refused(dir / "a",
                "is a token file of version 2, but this program reads version 1: run `atoll data prepare` again");
}

TEST_CASE("token file: what another program wrote wrongly is refused too, checksums or not") {
  const TempDir dir;
  const auto path = dir / "a";
  const auto written = [&](std::size_t at, const std::string& bytes) {
    write_tokens(path, {1, 2, 3});
    rewrite_header(path, at, bytes);
  };
  written(12, number(128, 4));
  check_refused(path, "has a header of 128 bytes, but version 1 has one of 256");
  written(16, number(0, 4));
  check_refused(path, "the vocabulary is 0, but it must be from 1 to 2147483647");
  written(16, number(0x80000000, 4));
  check_refused(path, "the vocabulary is 2147483648, but it must be from 1 to 2147483647");
  written(20, number(3, 4));
  check_refused(path, "a token has 3 bytes, but it must have 2 or 4");
  written(24, number(~std::uint64_t{0}, 8));  // 2 (2^64 - 1) + 256 bytes do not fit into 64 bits
  check_refused(path, "holds 6 bytes of tokens, but its header says 18446744073709551615 tokens of 2 bytes");
  written(80, number(97, 4));
  CHECK_THROWS_AS(TokenFile{path}, ConfigError);
  written(16, number(3, 4));  // ids 1, 2, 3
  check_refused(path, "token 2 is 3, but it must be below the vocabulary (3)");
}

TEST_CASE("token file: what cannot be opened is named with the reason") {
  const TempDir dir;
  check_refused(dir / "none", "cannot open: No such file or directory");
  std::filesystem::create_directory(dir / "folder");
  check_refused(dir / "folder", "is no regular file");
  spill(dir / "text", "To be, or not to be");
  check_refused(dir / "text", "is no token file");
  spill(dir / "empty", "");
  check_refused(dir / "empty", "is no token file");

  write_tokens(dir / "mine", {1, 2});
  REQUIRE(::chmod((dir / "mine").c_str(), 0) == 0);
  const bool root = ::geteuid() == 0;
  if (root) REQUIRE(::seteuid(65534) == 0);  // root reads everything: be nobody for a moment
  CHECK_THROWS_WITH_AS(TokenFile{dir / "mine"}, doctest::Contains("mine: cannot open: Permission denied"), ConfigError);
  if (root) REQUIRE(::seteuid(0) == 0);
}

TEST_CASE("token file: reading past the end, or writing an id past the vocabulary, is a bug") {
  const TempDir dir;
  write_tokens(dir / "a", {1, 2, 3});
  const TokenFile file(dir / "a");
  std::vector<std::int32_t> two(2);
  CHECK_NOTHROW(file.read(1, two));
  CHECK_THROWS_AS(file.read(2, two), Bug);
  CHECK_THROWS_AS(file.read(~std::uint64_t{0}, two), Bug);
  CHECK_NOTHROW(file.read(3, {}));
  CHECK_THROWS_WITH_AS(write_tokens(dir / "b", {1, 7}, 7), doctest::Contains("token 7"), Bug);
  CHECK_THROWS_AS(write_tokens(dir / "b", {-1}, 7), Bug);
  CHECK_FALSE(std::filesystem::exists(dir / "b"));
  CHECK_FALSE(std::filesystem::exists(dir / "b.partial"));
}

TEST_CASE("token file: a full disk is named, and what was there stays") {
  const TempDir dir;
  write_tokens(dir / "a", {1, 2, 3});
  const std::string before = slurp(dir / "a");
  {
    const FileSizeLimit limit(10'000);
    CHECK_THROWS_WITH_AS(write_tokens(dir / "a", std::vector<std::int32_t>(1'000'000, 5)),
                         doctest::Contains("a: cannot write token 1000000: File too large (errno 27)"), ConfigError);
  }
  CHECK(slurp(dir / "a") == before);
  CHECK_FALSE(std::filesystem::exists(dir / "a.partial"));
  CHECK_THROWS_WITH_AS(write_tokens(dir / "none" / "a", {1}),
                       doctest::Contains("cannot create: No such file or directory"), ConfigError);
}

TEST_CASE("token file: one that is replaced stays readable where it is open") {
  const TempDir dir;
  write_tokens(dir / "a", {1, 2, 3});
  const TokenFile open(dir / "a");
  write_tokens(dir / "a", {9});
  CHECK(all_of(open) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(all_of(TokenFile(dir / "a")) == std::vector<std::int32_t>{9});
}

}  // namespace
}  // namespace atl
