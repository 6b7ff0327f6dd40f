#include "data/tokenizer.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/temp_dir.h"

namespace atl {
namespace {

using Ids = std::vector<std::int32_t>;

Ids encode(Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}
std::string model(const std::string& name) {
  return std::string("spm:") + ATOLL_SOURCE_DIR + "/tests/data/spm/" + name;
}

TEST_CASE("tokenizer: bytes are themselves") {
  const auto bytes = make_tokenizer("bytes");
  CHECK(bytes->name() == "bytes");
  CHECK(bytes->vocabulary() == 256);
  CHECK(encode(*bytes, std::string_view("a\n\xFF\0", 4)) == Ids{97, 10, 255, 0});
  CHECK(encode(*bytes, "").empty());
}

// Ids by the Python package sentencepiece 0.2.3: tests/data/spm/make.py.
const Ids kShall{259, 327, 289, 283, 262, 259, 319, 309, 268, 329, 314, 300, 265,
                 260, 271, 260, 260, 275, 286, 291, 267, 261, 302, 276, 317};
const Ids kSoLong{295, 279, 282, 259, 262, 263, 274, 261, 271, 263, 261};

TEST_CASE("tokenizer: a SentencePiece model gives the ids of the Python package") {
  const auto spm = make_tokenizer(model("bytes.model"));
  CHECK(spm->name() == "spm:bytes.model");
  CHECK(spm->vocabulary() == 330);
  CHECK(encode(*spm, "Shall I compare thee to a summer's day?") == kShall);
  CHECK(encode(*spm, "So long lives this") == kSoLong);
  CHECK(encode(*spm, "caf\u00e9 \u6d77") == Ids{309, 300, 313, 198, 172, 259, 233, 184, 186});
  CHECK(encode(*spm, "").empty());
}

TEST_CASE("tokenizer: lines are encoded one by one, with the model's newline between them") {
  const auto spm = make_tokenizer(model("bytes.model"));
  Ids want = kSoLong;
  want.insert(want.end(), {13, 13});  // <0x0A>, and an empty line
  want.insert(want.end(), kShall.begin(), kShall.end());
  want.push_back(13);
  CHECK(encode(*spm, "So long lives this\n\nShall I compare thee to a summer's day?\n") == want);
}

TEST_CASE("tokenizer: a model that knows no newline leaves it out, and unknown characters are its unknown piece") {
  const auto spm = make_tokenizer(model("plain.model"));
  CHECK(spm->vocabulary() == 60);
  const Ids so_long{35, 29, 32, 3, 7, 6, 47, 4, 5, 19, 6, 5};
  Ids twice = so_long;
  twice.insert(twice.end(), so_long.begin(), so_long.end());
  CHECK(encode(*spm, "So long lives this\nSo long lives this\n") == twice);
  CHECK(encode(*spm, "caf\u00e9 \u6d77") == Ids{3, 20, 40, 42, 0, 3, 0});
}

TEST_CASE("tokenizer: a text much larger than a pipe, more than once") {
  const auto spm = make_tokenizer(model("bytes.model"));
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "So long lives this\n";
  for (int time = 0; time < 2; ++time) {
    const Ids ids = encode(*spm, text);
    REQUIRE(ids.size() == 20'000 * (kSoLong.size() + 1));
    CHECK(Ids(ids.end() - 12, ids.end() - 1) == kSoLong);
  }
}

TEST_CASE("tokenizer: other models have other hashes, the same model the same under another name") {
  const TempDir dir;
  const auto bytes = make_tokenizer("bytes"), one = make_tokenizer(model("bytes.model")),
             two = make_tokenizer(model("plain.model"));
  std::filesystem::copy_file(model("bytes.model").substr(4), dir / "renamed");
  CHECK(one->hash() != two->hash());
  CHECK(one->hash() != bytes->hash());
  CHECK(make_tokenizer("spm:" + (dir / "renamed").string())->hash() == one->hash());
}

TEST_CASE("tokenizer: what does not exist or is no model is named") {
  const TempDir dir;
  CHECK_THROWS_WITH_AS(make_tokenizer("words"),
                       "--tokenizer words, but it must be bytes or spm:MODEL (a file of SentencePiece)", ConfigError);
  CHECK_THROWS_AS(make_tokenizer("spm:"), ConfigError);
  CHECK_THROWS_AS(make_tokenizer(""), ConfigError);
  CHECK_THROWS_WITH_AS(make_tokenizer("spm:" + (dir / "none").string()),
                       doctest::Contains("none: cannot open: No such file"), ConfigError);
  spill(dir / "text", "Shall I compare thee");
  CHECK_THROWS_WITH_AS(make_tokenizer("spm:" + (dir / "text").string()),
                       doctest::Contains("text: is no SentencePiece model: "), ConfigError);
}

TEST_CASE("tokenizer: a helper that is not there, or dies, is an error and not the end") {
  CHECK_THROWS_WITH_AS(make_tokenizer(model("bytes.model"), "/nowhere/atoll-tokenize"),
                       doctest::Contains("/nowhere/atoll-tokenize: there is no such program"), ConfigError);
  CHECK_THROWS_WITH_AS(make_tokenizer(model("bytes.model"), "/bin/true"),
                       doctest::Contains("true: ended before its work was done"), ConfigError);
}

TEST_CASE("tokenizer: a helper that dies between two texts is an error, not a signal") {
  const TempDir dir;
  spill(dir / "helper", "#!/bin/sh\nprintf '\\0\\0\\0\\0\\100\\0\\0\\0'\n");  // no error, a vocabulary of 64: and ends
  std::filesystem::permissions(dir / "helper", std::filesystem::perms::owner_all);
  const auto spm = make_tokenizer(model("bytes.model"), dir / "helper");
  CHECK(spm->vocabulary() == 64);
  Ids ids;
  const std::string text(4'000'000, 'x');  // more than the socket holds
  CHECK_THROWS_WITH_AS(spm->encode(text, ids), doctest::Contains("helper: ended before its work was done"),
                       ConfigError);
}

}  // namespace
}  // namespace atl
