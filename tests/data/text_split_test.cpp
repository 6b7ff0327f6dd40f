#include "data/text_split.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "base/error.h"

namespace atl {
namespace {

std::size_t held_out(const std::vector<TextPiece>& pieces) {
  std::size_t bytes = 0;
  for (const TextPiece& p : pieces) bytes += p.validation ? p.text.size() : 0;
  return bytes;
}
std::string lines(std::size_t count, std::size_t length) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    std::string line = std::to_string(i) + " ";
    line.resize(length - 1, 'x');
    all += line + "\n";
  }
  return all;
}

TEST_CASE("split: a small text gives one piece, whole lines of its middle") {
  // 10 lines of 10 bytes, a fifth: 20 bytes from 40 on.
  const std::string text = lines(10, 10);
  const auto pieces = split_text(text, 0.2);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].text == text.substr(0, 40));
  CHECK_FALSE(pieces[0].validation);
  CHECK(pieces[1].text == text.substr(40, 20));
  CHECK(pieces[1].validation);
  CHECK(pieces[2].text == text.substr(60));
  CHECK_FALSE(pieces[2].validation);
}

TEST_CASE("split: a large text gives pieces from all over it") {
  const std::string text = lines(200'000, 50);  // 10 MB
  const auto pieces = split_text(text, 0.05);   // 500 KB: 8 pieces of 62.5 KB
  std::size_t count = 0, at = 0;
  for (const TextPiece& p : pieces) {
    if (p.validation) {
      // In the middle of its eighth of 1.25 MB, each boundary moved on to a line of 50 bytes.
      CHECK(at >= count * 1'250'000 + 593'750);
      CHECK(at < count * 1'250'000 + 593'750 + 50);
      CHECK(p.text.size() > 62'500 - 50);
      CHECK(p.text.size() < 62'500 + 50);
      ++count;
    }
    at += p.text.size();
  }
  CHECK(count == 8);
  CHECK(split_text(text, 0.05).size() == pieces.size());
}

TEST_CASE("split: text without lines is cut between characters") {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\xE6\xB5\xB7";  // one character of three bytes
  const auto pieces = split_text(text, 0.1);
  REQUIRE(pieces.size() == 3);
  for (const TextPiece& p : pieces) CHECK(p.text.size() % 3 == 0);
  CHECK(pieces[1].text.size() == 6'000);
}

TEST_CASE("cut: after the newline, when it is near; else between characters; never before where was asked") {
  CHECK(next_cut("ab\ncd", 0) == 0);
  CHECK(next_cut("ab\ncd", 1) == 3);
  CHECK(next_cut("ab\ncd", 3) == 3);  // a line begins here
  CHECK(next_cut("ab\ncd", 4) == 4);
  CHECK(next_cut("ab\ncd", 5) == 5);
  CHECK(next_cut("ab\ncd", 99) == 5);
  CHECK(next_cut("", 0) == 0);
  const std::string far = std::string(kLineSearch + 10, 'x') + "\n";
  CHECK(next_cut(far, 11) == far.size());  // its last byte to look at is the newline
  CHECK(next_cut(far, 10) == 10);
  CHECK(next_cut("\xE6\xB5\xB7", 1) == 3);
  CHECK(next_cut("\x80\x80\x80\x80\x80\x80", 1) == 4);  // no UTF-8: at most three bytes further
}

TEST_CASE("split: whatever the text, pieces are the whole text in order, alternate, and hold out about the share") {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = i % 20 == 0 ? 1'000'000 + below(3'000'000) : below(3'000);
    const std::size_t line = 1 + below(200);
    std::string text(size, 'x');
    for (std::size_t at = 0; at < size; at += 1 + below(2 * line)) text[at] = '\n';
    const double share = (1.0 + static_cast<double>(below(98))) / 100;
    const auto pieces = split_text(text, share);
    std::string joined;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      REQUIRE_FALSE(pieces[p].text.empty());
      if (p > 0) REQUIRE(pieces[p].validation != pieces[p - 1].validation);
      joined += pieces[p].text;
    }
    REQUIRE(joined == text);
    // Each end of a piece moves on by less than two lines' longest, or to the end of the text.
    const double segments = std::max(1.0, std::round(static_cast<double>(size) * share / double{kValidationPiece}));
    const double off = std::abs(static_cast<double>(held_out(pieces)) - static_cast<double>(size) * share);
    REQUIRE(off <= segments * (2 * static_cast<double>(line) + 2));
  }
  CHECK_THROWS_AS(split_text("x", 0.0), Bug);
  CHECK_THROWS_AS(split_text("x", 1.0), Bug);
}

}  // namespace
}  // namespace atl
