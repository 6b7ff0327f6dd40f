#include "data/prepare.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/token_file.h"
#include "data/tokenizer.h"

namespace atl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{1} << 36U;  // 64 GiB: the text is held in memory
constexpr std::uint64_t kSegment = 8192, kSmallestSegment = 16, kSegments = 200;

void check(const PrepareConfig& config) {
  if (!(config.val > 0 && config.val < 1)) throw ConfigError(text("--val ", config.val, ", but it must be between 0 and 1, neither of them"));
  if (config.files.empty()) throw ConfigError("no files to prepare: name at least one text file");
  for (const fs::path& file : config.files) {
    if (!fs::exists(file)) throw ConfigError(text(file.string(), ": there is no such file"));
    if (!fs::is_regular_file(file)) throw ConfigError(text(file.string(), ": not a regular file: name the text files themselves"));
    if (fs::file_size(file) == 0) throw ConfigError(text(file.string(), ": it is empty"));
  }
  if (fs::exists(config.out) && !fs::is_directory(config.out)) throw ConfigError(text("--out ", config.out.string(), ": not a folder"));
  if (fs::exists(config.out) && !fs::is_empty(config.out) && !fs::exists(config.out / "dataset.json"))
    throw ConfigError(text("--out ", config.out.string(), ": it holds other files than a prepared text's: name a new folder"));
}

// Is segment i held out?  The share of held-out segments among the first i + 1 is as near below `val` as it can be.
bool held_out(std::uint64_t i, double val) {
  return std::floor(static_cast<double>(i + 1) * val) > std::floor(static_cast<double>(i) * val);
}

}  // namespace

PrepareReport prepare(const PrepareConfig& config) {
  check(config);
  const auto tokenizer = make_tokenizer(config.tokenizer);
  PrepareReport report{.out = config.out, .tokenizer = tokenizer->name(), .vocabulary = tokenizer->vocabulary()};
  std::vector<std::uint32_t> tokens;
  for (const fs::path& file : config.files) {
    const std::string content = read_text(file, kLargestFile);
    report.source_bytes += content.size();
    const std::vector<std::uint32_t> part = tokenizer->encode(content);
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  report.segment = std::clamp<std::uint64_t>(tokens.size() / kSegments, kSmallestSegment, kSegment);
  std::vector<std::uint32_t> train, val;
  for (std::uint64_t i = 0; i * report.segment < tokens.size(); ++i) {
    auto& split = held_out(i, config.val) ? val : train;
    const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(i * report.segment);
    const auto to = tokens.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(tokens.size(), (i + 1) * report.segment));
    split.insert(split.end(), from, to);
  }
  if (train.empty() || val.empty())
    throw ConfigError(text("the text has only ", tokens.size(), " tokens: with --val ", config.val, " nothing is left for one of the splits; give more text"));

  std::error_code error;
  fs::create_directories(config.out, error);
  if (error) throw ConfigError(text("--out ", config.out.string(), ": cannot make the folder: ", error.message()));
  fs::remove(config.out / "dataset.json", error);  // written last: a folder without it was not finished
  write_token_file(config.out / "train.tokens", {.vocabulary = report.vocabulary, .tokenizer = tokenizer->hash(), .split = "train"}, train);
  write_token_file(config.out / "val.tokens", {.vocabulary = report.vocabulary, .tokenizer = tokenizer->hash(), .split = "val"}, val);
  report.train_tokens = train.size();
  report.val_tokens = val.size();
  report.train_hash = TokenFile(config.out / "train.tokens", "train").header().content;  // reads back what is on the disk
  report.val_hash = TokenFile(config.out / "val.tokens", "val").header().content;

  nlohmann::json sources = nlohmann::json::array();
  for (const fs::path& file : config.files) sources.push_back({{"file", file.string()}, {"bytes", fs::file_size(file)}});
  const nlohmann::json about{{"tokenizer", report.tokenizer}, {"vocabulary", report.vocabulary}, {"train_tokens", report.train_tokens},
                             {"val_tokens", report.val_tokens}, {"val", config.val}, {"segment", report.segment},
                             {"train_hash", report.train_hash.hex()}, {"val_hash", report.val_hash.hex()}, {"sources", sources}};
  write_atomically(config.out / "dataset.json", about.dump(2) + "\n");
  return report;
}

std::string describe(const PrepareReport& r) {
  return text(r.out.string(), ": ", r.train_tokens, " tokens to train on, ", r.val_tokens, " held out, in segments of ", r.segment, "\ntokenizer ",
              r.tokenizer, ", vocabulary ", r.vocabulary, ", from ", r.source_bytes, " bytes of text\n");
}

}  // namespace atl
