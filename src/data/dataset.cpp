#include "data/dataset.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"

namespace atl {

namespace {

void check_split(const TokenFile& file, const std::string& split) {
  if (file.info().split != split)
    throw ConfigError(text(file.path().string(), ": holds the split \"", file.info().split, "\", but it must hold \"",
                           split, "\": was it renamed? Write both again with `atoll data prepare`"));
}

TokenFile open_split(const std::filesystem::path& dir, const char* name, TokenFile::Check check) {
  std::error_code error;
  const auto kind = std::filesystem::status(dir, error).type();
  if (kind == std::filesystem::file_type::not_found)
    throw ConfigError(dir.string() + ": there is no such folder: run `atoll data prepare FILES --out " + dir.string() +
                      "`");
  if (kind != std::filesystem::file_type::directory && kind != std::filesystem::file_type::unknown && !error)
    throw ConfigError(dir.string() + ": is no folder, but it must be one that `atoll data prepare` wrote");
  if (!error && !std::filesystem::exists(dir / name, error) && !error)
    throw ConfigError(dir.string() + ": holds no " + name +
                      ", so it is no folder that `atoll data prepare` has finished");
  return TokenFile(dir / name, check);
}

// "12 differs from 13": of two files that must belong together.
void check_pair(const TokenFile& train, const TokenFile& val) {
  const TokenFileInfo &t = train.info(), &v = val.info();
  const std::string both = text(train.path().string(), " and ", val.path().filename().string());
  if (t.vocabulary != v.vocabulary)
    throw ConfigError(text(both, ": the vocabularies are ", t.vocabulary, " and ", v.vocabulary,
                           ", but they must be the same: prepare both splits with one tokenizer"));
  if (t.tokenizer_hash != v.tokenizer_hash)
    throw ConfigError(text(both, ": the tokenizers are ", t.tokenizer, " (", t.tokenizer_hash.hex(), ") and ",
                           v.tokenizer, " (", v.tokenizer_hash.hex(),
                           "), but they must be the same: prepare both splits with one"));
  if (t.set_hash != v.set_hash && t.set_hash != Hash128{} && v.set_hash != Hash128{})
    throw ConfigError(text(both,
                           ": they come from different runs of `atoll data prepare`, so that the one may hold the "
                           "other's text: prepare them together"));
}

}  // namespace

Hash128 dataset_hash(const TokenFileInfo& train, const TokenFileInfo& val) {
  ByteWriter out;
  for (const TokenFileInfo* info : {&train, &val})
    out.hash(info->payload_hash)
        .u64(info->tokens)
        .u32(info->token_bytes)
        .u32(info->vocabulary)
        .hash(info->tokenizer_hash);
  return hash_bytes(out.view());
}

Dataset::Dataset(const std::filesystem::path& dir, std::size_t context, std::uint64_t seed, TokenFile::Check check)
    : context_(context),
      seed_(seed),
      train_(open_split(dir, "train.tokens", check)),
      val_(open_split(dir, "val.tokens", check)) {
  ATOLL_CHECK(context > 0, "a context of no tokens");
  check_split(train_, "train");
  check_split(val_, "val");
  check_pair(train_, val_);
  for (const TokenFile* file : {&train_, &val_})
    if (windows(*file) == 0)
      throw ConfigError(text(file->path().string(), ": has ", file->info().tokens,
                             " tokens, but one window of model.context = ", context, " needs ", context + 1,
                             ": a shorter context, or more text"));
}

Hash128 Dataset::hash() const { return dataset_hash(train_.info(), val_.info()); }

std::uint64_t Dataset::windows(const TokenFile& file) const {
  return file.info().tokens == 0 ? 0 : (file.info().tokens - 1) / context_;
}

void Dataset::add_window(const TokenFile& file, std::uint64_t w, Batch& batch) const {
  const std::size_t at = batch.tokens.size();
  batch.tokens.resize(at + context_ + 1);
  file.read(w * context_, std::span(batch.tokens).subspan(at));
  ++batch.sequences;
}

Batch Dataset::train(std::uint64_t position, std::size_t count) const {
  Batch batch{.sequences = 0, .length = context_, .tokens = {}, .first_position = position};
  batch.tokens.reserve(count * (context_ + 1));
  const std::uint64_t epoch_size = train_windows();
  std::optional<Permutation> order;
  for (std::uint64_t p = position; p < position + count; ++p) {
    if (!order || p % epoch_size == 0) order.emplace(epoch_size, seed_, p / epoch_size);
    add_window(train_, (*order)(p % epoch_size), batch);
  }
  return batch;
}

std::vector<Batch> Dataset::validation(std::size_t count, std::size_t batch) const {
  ATOLL_CHECK(batch > 0, "batches of no sequences");
  const std::uint64_t all = val_windows();
  const std::uint64_t wanted = count == 0 || count > all ? all : count;
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    if (i % batch == 0) batches.push_back({.sequences = 0, .length = context_, .tokens = {}, .first_position = i});
    // floor(i all / wanted), without a product that could overflow
    add_window(val_, i * (all / wanted) + i * (all % wanted) / wanted, batches.back());
  }
  return batches;
}

}  // namespace atl
