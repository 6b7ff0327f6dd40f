#include "data/prepare.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "data/data_files.h"
#include "data/dataset.h"
#include "data/text_split.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

std::string poem(int lines, const std::string& word) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += word + " " + std::to_string(i) + "\n";
  return text;
}
std::string as_text(const fs::path& path) {
  const TokenFile file(path);
  std::vector<std::int32_t> ids(file.info().tokens);
  file.read(0, ids);
  return {ids.begin(), ids.end()};
}
std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.insert(entry.path().filename().string());
  return found;
}
void check_refused(const PrepareConfig& config, const std::string& message) {
  CHECK_THROWS_WITH_AS(prepare(config), doctest::Contains(message.c_str()), ConfigError);
}

TEST_CASE("prepare: the splits are the texts' pieces, byte for byte") {
  const TempDir dir;
  const std::string a = poem(400, "sea"), b = poem(300, "\xE6\xB5\xB7");
  spill(dir / "a.txt", a);
  spill(dir / "b.txt", b);
  const PrepareReport report =
      prepare({.files = {dir / "a.txt", dir / "b.txt"}, .out = dir / "out" / "deep", .val = 0.1});

  std::string train, val;
  for (const std::string* text : {&a, &b})
    for (const TextPiece& p : split_text(*text, 0.1)) (p.validation ? val : train) += p.text;
  CHECK(as_text(report.out / "train.tokens") == train);
  CHECK(as_text(report.out / "val.tokens") == val);
  CHECK(report.train_tokens == train.size());
  CHECK(report.val_tokens == val.size());
  CHECK(report.val_tokens + report.train_tokens == a.size() + b.size());
  CHECK(val.find("sea") != std::string::npos);  // of both files
  CHECK(val.find("\xE6\xB5\xB7") != std::string::npos);
  CHECK(names(report.out) == std::set<std::string>{"train.tokens", "val.tokens", "dataset.json", "prepare.lock"});
  CHECK(TokenFile(report.out / "train.tokens").info().split == "train");
  CHECK(TokenFile(report.out / "val.tokens").info().split == "val");

  const auto json = nlohmann::json::parse(slurp(report.out / "dataset.json"));
  CHECK(json["atoll_dataset"] == 1);
  CHECK(json["tokenizer"]["vocabulary"] == 256);
  CHECK(json["sources"].size() == 2);
  CHECK(json["sources"][1]["bytes"] == b.size());
  CHECK(json["splits"]["val"]["tokens"] == val.size());
  CHECK(json["hash"] == report.hash.hex());
  CHECK(report.hash == Dataset(report.out, 8, 0).hash());
  CHECK(doctest::Contains("training and").checkWith(describe(report).c_str()));
}

TEST_CASE(
    "prepare: the same text gives the same bytes in another folder and under another name, another text does not") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  fs::create_directory(dir / "there");
  fs::copy_file(dir / "a.txt", dir / "there" / "b.txt");
  prepare({.files = {dir / "a.txt"}, .out = dir / "1"});
  prepare({.files = {dir / "there" / "b.txt"}, .out = dir / "2"});
  for (const char* file : {"train.tokens", "val.tokens"}) CHECK(slurp(dir / "1" / file) == slurp(dir / "2" / file));
  spill(dir / "a.txt", poem(400, "bay"));
  CHECK(prepare({.files = {dir / "a.txt"}, .out = dir / "3"}).hash != Dataset(dir / "1", 8, 0).hash());
}

TEST_CASE("prepare: with a SentencePiece model, in parts that give what the whole would") {
  const TempDir dir;
  std::string text;  // larger than what a tokenizer is given at once
  for (int i = 0; i < 130'000; ++i) text += "So long lives this\n";
  spill(dir / "a.txt", text);
  const std::string spec = std::string("spm:") + ATOLL_SOURCE_DIR + "/tests/data/spm/bytes.model";
  const PrepareReport report = prepare({.files = {dir / "a.txt"}, .out = dir / "out", .tokenizer = spec});
  CHECK(report.vocabulary == 330);
  CHECK(report.train_tokens + report.val_tokens == 130'000 * 12);  // 11 and the newline
  const TokenFile train(dir / "out" / "train.tokens");
  CHECK(train.info().tokenizer == "spm:bytes.model");
  std::vector<std::int32_t> ids(train.info().tokens);
  train.read(0, ids);
  for (std::size_t i = 12; i < ids.size(); ++i) REQUIRE(ids[i] == ids[i - 12]);
}

TEST_CASE("prepare: a dataset of ours is replaced, also one of which only a part was written") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  spill(dir / "b.txt", poem(500, "bay"));
  prepare({.files = {dir / "a.txt"}, .out = dir / "out"});
  const Hash128 second = prepare({.files = {dir / "b.txt"}, .out = dir / "out"}).hash;
  CHECK(Dataset(dir / "out", 8, 0).hash() == second);
  fs::create_directory(dir / "killed");
  spill(dir / "killed" / "train.tokens.partial", "ATOLL");
  spill(dir / "killed" / "prepare.lock", "");
  CHECK(prepare({.files = {dir / "b.txt"}, .out = dir / "killed"}).hash == second);
}

TEST_CASE("prepare: a folder with something else in it is left as it is") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  fs::create_directory(dir / "out");
  spill(dir / "out" / "thesis.tex", "x");
  check_refused(
      {.files = {dir / "a.txt"}, .out = dir / "out"},
      "out: holds thesis.tex and no dataset.json of atoll, so it is left as it is: name a new folder, or an empty one");
  CHECK(names(dir / "out") == std::set<std::string>{"thesis.tex"});
  fs::remove(dir / "out" / "thesis.tex");
  spill(dir / "out" / "dataset.json", "{}");
  check_refused({.files = {dir / "a.txt"}, .out = dir / "out"}, "out: holds dataset.json and no dataset.json of atoll");
  check_refused({.files = {dir / "a.txt"}, .out = dir / "a.txt"}, "a.txt: cannot make this folder");
  check_refused({.files = {dir / "a.txt"}, .out = dir / "a.txt" / "x"}, "cannot make this folder: Not a directory");
}

TEST_CASE("prepare: what cannot be prepared is named, before anything is written") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  spill(dir / "empty.txt", "");
  const auto out = dir / "out";
  check_refused({.files = {}, .out = out}, "no file is named");
  check_refused({.files = {dir / "none.txt"}, .out = out}, "none.txt: cannot open: No such file or directory");
  check_refused({.files = {dir.path()}, .out = out}, "is no regular file");
  check_refused({.files = {dir / "a.txt", dir / "empty.txt"}, .out = out},
                "empty.txt: is empty, but it must hold some text");
  check_refused({.files = {dir / "a.txt", dir / "." / "a.txt"}, .out = out}, "a.txt: is named twice");
  check_refused({.files = {dir / "a.txt"}, .out = out, .tokenizer = "words"}, "--tokenizer words");
  for (const double val : {0.0, 1.0, -0.1, 1.5, std::nan("")})
    check_refused({.files = {dir / "a.txt"}, .out = out, .val = val}, "but it must be a number between 0 and 1");
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("prepare: a split that would hold nothing is refused, and says what to change") {
  const TempDir dir;
  spill(dir / "line.txt", "one line without an end");
  check_refused({.files = {dir / "line.txt"}, .out = dir / "out", .val = 0.01},
                "the validation split would have 0 tokens, but it must have 2 or more: a larger --val, or more text");
  spill(dir / "two.txt", "ab");
  check_refused({.files = {dir / "two.txt"}, .out = dir / "out", .val = 0.5},
                "the training split would have 1 tokens, but it must have 2 or more: a smaller --val, or more text");
  CHECK(names(dir / "out") == std::set<std::string>{"prepare.lock"});
}

TEST_CASE("prepare: a full disk is named, and the former dataset stays whole") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  spill(dir / "b.txt", poem(300'000, "bay"));
  const Hash128 before = prepare({.files = {dir / "a.txt"}, .out = dir / "out"}).hash;
  {
    const FileSizeLimit limit(1'000'000);
    check_refused({.files = {dir / "b.txt"}, .out = dir / "out"}, "train.tokens: cannot write token");
  }
  CHECK(Dataset(dir / "out", 8, 0).hash() == before);
  CHECK(names(dir / "out") == std::set<std::string>{"train.tokens", "val.tokens", "dataset.json", "prepare.lock"});
}

TEST_CASE("prepare: a disk that is full only when all tokens are on it leaves the former dataset whole too") {
  const TempDir dir;
  spill(dir / "a.txt", poem(10, "sea"));
  spill(dir / "b.txt", poem(10, "bay"));
  const Hash128 before = prepare({.files = {dir / "a.txt"}, .out = dir / "out", .val = 0.2}).hash;
  const std::string json = slurp(dir / "out" / "dataset.json");
  REQUIRE(json.size() > 450);
  REQUIRE(std::filesystem::file_size(dir / "out" / "train.tokens") < 400);
  {
    const FileSizeLimit limit(400);
    check_refused({.files = {dir / "b.txt"}, .out = dir / "out", .val = 0.2}, "dataset.json.partial: cannot write");
  }
  CHECK(Dataset(dir / "out", 2, 0).hash() == before);
  CHECK(slurp(dir / "out" / "dataset.json") == json);
  CHECK(names(dir / "out") == std::set<std::string>{"train.tokens", "val.tokens", "dataset.json", "prepare.lock"});
}

TEST_CASE("prepare: two at work in one folder do not mix") {
  const TempDir dir;
  spill(dir / "a.txt", poem(400, "sea"));
  prepare({.files = {dir / "a.txt"}, .out = dir / "out"});
  const FileDescriptor other = open_file(dir / "out" / "prepare.lock", O_RDWR, "open");
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  check_refused({.files = {dir / "a.txt"}, .out = dir / "out"}, "another `atoll data prepare` is writing here");
}

}  // namespace
}  // namespace atl
