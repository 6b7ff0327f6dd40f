#include "data/dataset.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <set>

#include "base/error.h"
#include "data/data_files.h"

namespace atl {
namespace {

// A dataset whose token at place i is i: a window shows where it lies.
void write_counting(const std::filesystem::path& dir, std::size_t train, std::size_t val = 100) {
  write_tokens(dir / "train.tokens", counting(train), 100'000, "train");
  write_tokens(dir / "val.tokens", counting(val), 100'000, "val");
}
// The window's number, after a check that its tokens are a whole window of the counting text.
std::uint64_t window_of(const Batch& batch, std::size_t sequence) {
  const std::size_t t = batch.length;
  const auto first = batch.tokens[sequence * (t + 1)];
  REQUIRE(static_cast<std::size_t>(first) % t == 0);
  for (std::size_t i = 0; i <= t; ++i)
    REQUIRE(batch.tokens[sequence * (t + 1) + i] == first + static_cast<std::int32_t>(i));
  return static_cast<std::uint64_t>(first) / t;
}
std::vector<std::uint64_t> windows_of(const Batch& batch) {
  std::vector<std::uint64_t> all;
  for (std::size_t s = 0; s < batch.sequences; ++s) all.push_back(window_of(batch, s));
  return all;
}
void check_refused(const std::filesystem::path& dir, const std::string& message, std::size_t context = 4) {
  CHECK_THROWS_WITH_AS(Dataset(dir, context, 0), doctest::Contains(message.c_str()), ConfigError);
}

TEST_CASE("dataset: neighbouring windows share one token, and what is left at the end is not used") {
  const TempDir dir;
  for (const auto& [tokens, windows] : std::map<std::size_t, std::uint64_t>{{5, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}}) {
    write_counting(dir.path(), tokens);
    CHECK(Dataset(dir.path(), 4, 0).train_windows() == windows);
  }
}

TEST_CASE("dataset: an epoch uses every window once, whatever the batch, and every epoch in an order of its own") {
  const TempDir dir;
  for (const std::size_t windows : {1U, 2U, 3U, 7U, 64U, 65U}) {
    write_counting(dir.path(), windows * 4 + 1);
    const Dataset data(dir.path(), 4, 11);
    REQUIRE(data.train_windows() == windows);
    std::set<std::vector<std::uint64_t>> orders;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      const Batch all = data.train(epoch * windows, windows);
      CHECK(all.first_position == epoch * windows);
      CHECK(all.token_count() == windows * 4);
      const auto order = windows_of(all);
      CHECK(std::set<std::uint64_t>(order.begin(), order.end()).size() == windows);
      orders.insert(order);
      std::vector<std::uint64_t> in_threes;
      for (std::uint64_t p = 0; p < windows; p += 3)
        for (const std::uint64_t w :
             windows_of(data.train(epoch * windows + p, std::min<std::uint64_t>(3, windows - p))))
          in_threes.push_back(w);
      CHECK(in_threes == order);
    }
    if (windows >= 7) CHECK(orders.size() == 4);
  }
}

TEST_CASE("dataset: a batch may reach over the end of one epoch, or of several") {
  const TempDir dir;
  write_counting(dir.path(), 5 * 4 + 1);
  const Dataset data(dir.path(), 4, 1);
  std::vector<std::uint64_t> one_by_one;
  for (std::uint64_t p = 3; p < 15; ++p) one_by_one.push_back(windows_of(data.train(p, 1))[0]);
  CHECK(windows_of(data.train(3, 12)) == one_by_one);
  CHECK(data.train(3, 0).sequences == 0);
}

TEST_CASE("dataset: sites that are dealt positions in turn share no sample, and together use all of an epoch") {
  const TempDir dir;
  write_counting(dir.path(), 60 * 4 + 1);
  const Dataset data(dir.path(), 4, 5);
  for (const std::uint64_t sites : {1U, 2U, 3U, 4U, 5U}) {
    const std::uint64_t batch = 60 / sites / 3;  // three steps an epoch
    std::map<std::uint64_t, int> used;
    for (std::uint64_t step = 0; step < 3; ++step)
      for (std::uint64_t m = 0; m < sites; ++m)
        for (const std::uint64_t w : windows_of(data.train((step * sites + m) * batch, batch))) ++used[w];
    CHECK(used.size() == 3 * sites * batch);
    for (const auto& [window, times] : used) CHECK(times == 1);
  }
}

TEST_CASE("dataset: seeds give orders of their own, files opened again the same one") {
  const TempDir dir;
  write_counting(dir.path(), 50 * 4 + 1);
  const auto order = windows_of(Dataset(dir.path(), 4, 1).train(0, 50));
  CHECK(windows_of(Dataset(dir.path(), 4, 1).train(0, 50)) == order);
  CHECK(windows_of(Dataset(dir.path(), 4, 2).train(0, 50)) != order);
}

TEST_CASE("dataset: validation windows are spread evenly, fixed, and of any seed") {
  const TempDir dir;
  write_counting(dir.path(), 100, 10 * 4 + 1);
  const Dataset data(dir.path(), 4, 1);
  REQUIRE(data.val_windows() == 10);
  const auto chosen = [&](std::size_t count, std::size_t batch) {
    std::vector<std::uint64_t> all;
    std::size_t sequences = 0;
    for (const Batch& b : data.validation(count, batch)) {
      CHECK(b.sequences >= 1);
      CHECK(b.sequences <= batch);
      CHECK(b.first_position == sequences);
      sequences += b.sequences;
      for (const std::uint64_t w : windows_of(b)) all.push_back(w);
    }
    return all;
  };
  using Windows = std::vector<std::uint64_t>;
  CHECK(chosen(0, 4) == Windows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(chosen(10, 100) == chosen(0, 1));
  CHECK(chosen(11, 3) == chosen(0, 1));
  CHECK(chosen(5, 2) == Windows{0, 2, 4, 6, 8});
  CHECK(chosen(3, 2) == Windows{0, 3, 6});
  CHECK(chosen(7, 7) == Windows{0, 1, 2, 4, 5, 7, 8});  // floor(10 i / 7)
  CHECK(chosen(1, 2) == Windows{0});
  CHECK(data.validation(5, 2).size() == 3);
  CHECK(Dataset(dir.path(), 4, 99).validation(3, 8)[0].tokens == data.validation(3, 8)[0].tokens);
}

TEST_CASE("dataset: its hash is of contents, tokenizer and vocabulary, not of names") {
  const TempDir dir;
  write_counting(dir.path(), 50);
  const Hash128 hash = Dataset(dir.path(), 4, 1).hash();
  CHECK(Dataset(dir.path(), 8, 2).hash() == hash);
  const auto changed = [&](auto write) {
    write_counting(dir.path(), 50);
    write();
    return Dataset(dir.path(), 4, 1).hash() != hash;
  };
  CHECK(changed([&] { write_tokens(dir / "train.tokens", counting(51), 100'000); }));
  CHECK(changed([&] { write_tokens(dir / "val.tokens", counting(99), 100'000, "val"); }));
  CHECK(changed([&] {
    for (const char* split : {"train", "val"})
      write_tokens(dir / (std::string(split) + ".tokens"), counting(split[0] == 't' ? 50 : 100), 99'999, split);
  }));
  CHECK(changed([&] {
    for (const char* split : {"train", "val"})
      write_tokens(dir / (std::string(split) + ".tokens"), counting(split[0] == 't' ? 50 : 100), 100'000, split, {},
                   {1, 2});
  }));
  CHECK_FALSE(changed([] {}));
}

TEST_CASE("dataset: splits that do not belong together are refused") {
  const TempDir dir;
  write_counting(dir.path(), 50);
  write_tokens(dir / "val.tokens", counting(50), 330, "val");
  check_refused(dir.path(),
                "train.tokens and val.tokens: the vocabularies are 100000 and 330, but they must be the same");
  write_tokens(dir / "val.tokens", counting(50), 100'000, "val", {}, {.high = 0, .low = 7});
  check_refused(dir.path(),
                "train.tokens and val.tokens: the tokenizers are test (00000000000000000000000000000000) and test "
                "(00000000000000000000000000000007), but they must be the same");
  write_tokens(dir / "train.tokens", counting(50), 100'000, "train", {.high = 0, .low = 1});
  write_tokens(dir / "val.tokens", counting(50), 100'000, "val", {.high = 0, .low = 2});
  check_refused(dir.path(), "they come from different runs of `atoll data prepare`");
  write_tokens(dir / "val.tokens", counting(50), 100'000, "val");  // of another program, which does not say
  CHECK_NOTHROW(Dataset(dir.path(), 4, 0));
}

TEST_CASE("dataset: files in each other's place are refused") {
  const TempDir dir;
  write_counting(dir.path(), 50);
  std::filesystem::rename(dir / "train.tokens", dir / "x");
  std::filesystem::rename(dir / "val.tokens", dir / "train.tokens");
  std::filesystem::rename(dir / "x", dir / "val.tokens");
  check_refused(dir.path(), "train.tokens: holds the split \"val\", but it must hold \"train\"");
  std::filesystem::rename(dir / "val.tokens", dir / "train.tokens");
  std::filesystem::copy_file(dir / "train.tokens", dir / "val.tokens");  // a training loss called a validation loss
  check_refused(dir.path(), "val.tokens: holds the split \"train\", but it must hold \"val\"");
}

TEST_CASE("dataset: a text without one window is refused, with the numbers") {
  const TempDir dir;
  write_counting(dir.path(), 64, 100);
  CHECK_NOTHROW(Dataset(dir.path(), 63, 0));
  check_refused(
      dir.path(),
      "train.tokens: has 64 tokens, but one window of model.context = 64 needs 65: a shorter context, or more text",
      64);
  write_counting(dir.path(), 100, 64);
  check_refused(dir.path(), "val.tokens: has 64 tokens, but one window of model.context = 64 needs 65", 64);
  write_counting(dir.path(), 0, 100);
  check_refused(dir.path(), "train.tokens: has 0 tokens");
}

TEST_CASE("dataset: a folder that is not there, not one of ours, or not readable is named") {
  const TempDir dir;
  check_refused(dir / "none", "none: there is no such folder: run `atoll data prepare FILES --out ");
  spill(dir / "file", "x");
  check_refused(dir / "file", "file: is no folder, but it must be one that `atoll data prepare` wrote");
  std::filesystem::create_directory(dir / "empty");
  check_refused(dir / "empty",
                "empty: holds no train.tokens, so it is no folder that `atoll data prepare` has finished");
  std::filesystem::create_directory(dir / "half");
  write_tokens(dir / "half" / "train.tokens", counting(50));
  check_refused(dir / "half", "half: holds no val.tokens");

  std::filesystem::create_directory(dir / "closed");
  write_counting(dir / "closed", 50);
  REQUIRE(::chmod((dir / "closed").c_str(), 0) == 0);
  const bool root = ::geteuid() == 0;
  REQUIRE(::chmod(dir.path().c_str(), 0755) == 0);
  if (root) REQUIRE(::seteuid(65534) == 0);  // root reads everything: be nobody for a moment
  check_refused(dir / "closed", "closed/train.tokens: cannot open: Permission denied (errno 13)");
  if (root) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::chmod((dir / "closed").c_str(), 0755) == 0);
}

TEST_CASE("dataset: damage is found when it is opened, or, if so asked, only damage of the header") {
  const TempDir dir;
  write_counting(dir.path(), 50);
  flip_byte(dir / "val.tokens", 300);
  check_refused(dir.path(), "val.tokens: the tokens' checksum is ");
  CHECK_NOTHROW(Dataset(dir.path(), 4, 0, TokenFile::Check::header_and_length));
  std::filesystem::resize_file(dir / "train.tokens", 400);
  CHECK_THROWS_WITH_AS(Dataset(dir.path(), 4, 0, TokenFile::Check::header_and_length),
                       doctest::Contains("it was cut short"), ConfigError);
}

}  // namespace
}  // namespace atl
