#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace atl {
namespace {

constexpr std::uint64_t kPermutationStream = 0x7065726D;  // "perm"
constexpr int kRounds = 6;

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) : n_(n), seed_(seed), epoch_(epoch) {
  ATOLL_CHECK(n > 0, "a permutation of nothing");
  const int bits = static_cast<int>(std::bit_width(n - 1));
  half_bits_ = std::max(1, (bits + 1) / 2);
}

std::uint64_t Permutation::operator()(std::uint64_t i) const {
  ATOLL_CHECK(i < n_, i, " of ", n_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // A Feistel network is a bijection of [0, 4^half_bits); walked until the result is in [0, n), of [0, n).  n is more than a
  // quarter of the domain (or it is tiny), so a few walks are enough.
  do {
    std::uint64_t left = i >> half_bits_, right = i & mask;
    for (int round = 0; round < kRounds; ++round) {
      const auto words = random_words(seed_, kPermutationStream + (epoch_ << 32U) + static_cast<std::uint64_t>(round), right);
      const std::uint64_t mixed = (std::uint64_t{words[0]} << 32U | words[1]) & mask;
      left = std::exchange(right, left ^ mixed);
    }
    i = left << half_bits_ | right;
  } while (i >= n_);
  return i;
}

Dataset::Dataset(const std::filesystem::path& dir, std::size_t context, std::uint64_t seed)
    : context_(context), seed_(seed), train_(dir / "train.tokens", "train"), val_(dir / "val.tokens", "val") {
  ATOLL_CHECK(context > 0, "a context of 0");
  const TokenFileHeader &t = train_.header(), &v = val_.header();
  if (t.vocabulary != v.vocabulary || t.tokenizer != v.tokenizer)
    throw ConfigError(text(dir.string(), ": train.tokens and val.tokens are of different tokenizers (vocabularies ", t.vocabulary, " and ",
                           v.vocabulary, "): write both again with one `atoll data prepare`"));
  for (const TokenFile* file : {&train_, &val_})
    if (file->size() < context + 1)
      throw ConfigError(text(file->path().string(), ": ", file->size(), " tokens, but one window of model.context = ", context, " needs ", context + 1));
}

std::uint32_t Dataset::vocabulary() const { return train_.header().vocabulary; }
std::uint64_t Dataset::train_windows() const { return (train_.size() - 1) / context_; }
std::uint64_t Dataset::val_windows() const { return (val_.size() - 1) / context_; }

Hash128 Dataset::hash() const {
  std::string all;
  for (const TokenFile* file : {&train_, &val_}) all += file->header().content.hex() + file->header().tokenizer.hex();
  return hash_text(all + std::to_string(vocabulary()));
}

void Dataset::append(const TokenFile& file, std::uint64_t window, Batch& batch) const {
  const std::size_t at = batch.tokens.size();
  batch.tokens.resize(at + context_ + 1);
  file.read(window * context_, std::span(batch.tokens).subspan(at));
  ++batch.sequences;
}

Batch Dataset::train(std::uint64_t position, std::size_t count) const {
  Batch batch{.sequences = 0, .length = context_, .tokens = {}, .first_position = position};
  batch.tokens.reserve(count * (context_ + 1));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t p = position + i, epoch = p / train_windows();
    append(train_, Permutation(train_windows(), seed_, epoch)(p % train_windows()), batch);
  }
  return batch;
}

std::vector<Batch> Dataset::validation(std::size_t count, std::size_t batch) const {
  ATOLL_CHECK(batch > 0, "batches of 0");
  const std::uint64_t all = val_windows(), wanted = count == 0 ? all : std::min<std::uint64_t>(count, all);
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    if (i % batch == 0) batches.push_back({.sequences = 0, .length = context_, .tokens = {}, .first_position = i});
    append(val_, i * all / wanted, batches.back());
  }
  return batches;
}

}  // namespace atl
