#include "data/prepare.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/mapped_file.h"
#include "data/text_split.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr int kJsonVersion = 1;
constexpr std::uint64_t kLeastTokens = 2;                    // one window of context 1
constexpr std::size_t kEncodeBytes = std::size_t{1} << 20U;  // text given to a tokenizer at once
constexpr const char *kTrain = "train.tokens", *kVal = "val.tokens", *kJson = "dataset.json", *kLock = "prepare.lock";

// The texts, mapped; each exists, is not empty, and is there once.
std::vector<MappedFile> open_sources(const std::vector<fs::path>& files) {
  if (files.empty()) throw ConfigError("atoll data prepare: no file is named, but at least one must be");
  std::vector<MappedFile> sources;
  std::set<fs::path> seen;
  for (const fs::path& file : files) {
    sources.emplace_back(file);
    if (sources.back().bytes().empty()) throw ConfigError(file.string() + ": is empty, but it must hold some text");
    if (!seen.insert(fs::canonical(file)).second)
      throw ConfigError(file.string() + ": is named twice, but each file must be named once");
  }
  return sources;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// True for a dataset.json that prepare() wrote.
bool is_ours(const fs::path& json) {
  try {
    return nlohmann::json::parse(read_text(json, std::size_t{256} << 20U)).contains("atoll_dataset");
  } catch (const std::exception&) {
    return false;
  }
}

// The folder is there, and holds nothing but what prepare() wrote.
void claim_folder(const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error || !fs::is_directory(out))
    throw ConfigError(
        text(out.string(), ": cannot make this folder: ", error ? error.message() : "a file is in its place"));
  if (is_ours(out / kJson)) return;
  const std::set<std::string> left_over{kLock, std::string(kTrain) + ".partial", std::string(kVal) + ".partial",
                                        std::string(kJson) + ".partial"};
  for (const auto& entry : fs::directory_iterator(out))
    if (const auto name = entry.path().filename().string(); !left_over.contains(name))
      throw ConfigError(text(out.string(), ": holds ", name, " and no ", kJson,
                             " of atoll, so it is left as it is: name a new folder, or an empty one"));
}

FileDescriptor lock_folder(const fs::path& out) {
  FileDescriptor lock = open_file(out / kLock, O_RDWR | O_CREAT, "create");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    throw ConfigError(out.string() +
                      ": another `atoll data prepare` is writing here: wait for it, or name another folder");
  return lock;
}

// So that the new names outlive a power cut too.
void flush_folder(const fs::path& out) {
  const FileDescriptor folder = open_file(out, O_RDONLY | O_DIRECTORY, "open");
  // Some network file systems cannot flush a folder, and say EINVAL.
  if (::fsync(folder.get()) != 0 && errno != EINVAL) fail_errno(out, "flush folder");
}

// Encodes `piece` in parts that end where the text may be cut.
void encode(std::string_view piece, Tokenizer& tokenizer, TokenWriter& out) {
  std::vector<std::int32_t> ids;
  while (!piece.empty()) {
    const std::size_t end = next_cut(piece, kEncodeBytes);
    ids.clear();
    tokenizer.encode(piece.substr(0, end), ids);
    out.append(ids);
    piece.remove_prefix(end);
  }
}

void check_size(const TokenWriter& split, const char* name, const char* what_to_do) {
  if (split.tokens() < kLeastTokens)
    throw ConfigError(text("atoll data prepare: the ", name, " split would have ", split.tokens(),
                           " tokens, but it must have ", kLeastTokens, " or more: ", what_to_do));
}

// The same for both files of one prepare(): text, share, tokenizer.
Hash128 set_hash(const PrepareReport& report, const Hash128& tokenizer, double val) {
  std::string all = text("split 1, ", std::hexfloat, val, ", ", tokenizer.hex());
  for (const PrepareSource& s : report.sources) all += ", " + s.hash.hex();
  return hash_text(all);
}

std::string json_of(const PrepareReport& r, const PrepareConfig& c, const TokenFileInfo& train,
                    const TokenFileInfo& val) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const PrepareSource& s : r.sources)
    sources.push_back({{"file", s.file}, {"bytes", s.bytes}, {"val_bytes", s.val_bytes}, {"xxh3_128", s.hash.hex()}});
  const auto split = [](const char* file, const TokenFileInfo& info) {
    return nlohmann::ordered_json{{"file", file},
                                  {"tokens", info.tokens},
                                  {"token_bytes", info.token_bytes},
                                  {"xxh3_128", info.payload_hash.hex()}};
  };
  const nlohmann::ordered_json all{
      {"atoll_dataset", kJsonVersion},
      {"hash", r.hash.hex()},
      {"tokenizer", {{"name", r.tokenizer}, {"vocabulary", r.vocabulary}, {"xxh3_128", train.tokenizer_hash.hex()}}},
      {"val", c.val},
      {"splits", {{"train", split(kTrain, train)}, {"val", split(kVal, val)}}},
      {"sources", sources}};
  // A file's name may hold bytes that are no UTF-8.
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

PrepareReport prepare(const PrepareConfig& config) {
  if (!(config.val > 0 && config.val < 1))
    throw ConfigError(text("--val ", config.val, ", but it must be a number between 0 and 1"));
  const std::vector<MappedFile> sources = open_sources(config.files);
  const auto tokenizer = make_tokenizer(config.tokenizer, config.tokenize_program);
  claim_folder(config.out);
  const FileDescriptor lock = lock_folder(config.out);

  PrepareReport report{.out = config.out,
                       .tokenizer = tokenizer->name(),
                       .vocabulary = tokenizer->vocabulary(),
                       .sources = {},
                       .hash = {}};
  for (const MappedFile& source : sources)
    report.sources.push_back(
        {.file = source.path().string(), .bytes = source.bytes().size(), .hash = hash_bytes(source.bytes())});

  TokenFileInfo info{.vocabulary = tokenizer->vocabulary(),
                     .payload_hash = {},
                     .tokenizer_hash = tokenizer->hash(),
                     .set_hash = set_hash(report, tokenizer->hash(), config.val),
                     .tokenizer = tokenizer->name().substr(0, kTokenizerNameLimit),
                     .split = "train"};
  TokenWriter train(config.out / kTrain, info);
  info.split = "val";
  TokenWriter val(config.out / kVal, info);
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (const TextPiece& piece : split_text(text_of(sources[i]), config.val)) {
      encode(piece.text, *tokenizer, piece.validation ? val : train);
      if (piece.validation) report.sources[i].val_bytes += piece.text.size();
    }
  check_size(train, "training", "a smaller --val, or more text");
  check_size(val, "validation", "a larger --val, or more text (pieces are held out by whole lines)");

  const TokenFileInfo train_info = train.finish(), val_info = val.finish();
  report.train_tokens = train_info.tokens;
  report.val_tokens = val_info.tokens;
  report.hash = dataset_hash(train_info, val_info);
  const fs::path json = config.out / (std::string(kJson) + ".partial");
  write_atomically(json, json_of(report, config, train_info, val_info));
  // Everything is on the disk; from here on there are only names to change.
  train.commit();
  val.commit();
  fs::rename(json, config.out / kJson);
  flush_folder(config.out);
  return report;
}

std::string describe(const PrepareReport& r) {
  std::uint64_t bytes = 0;
  for (const PrepareSource& s : r.sources) bytes += s.bytes;
  std::ostringstream out;
  out << r.out.string() << ": " << r.train_tokens << " training and " << r.val_tokens << " validation tokens\n"
      << "  from " << r.sources.size() << (r.sources.size() == 1 ? " file" : " files") << " of " << bytes
      << " bytes, tokenizer " << r.tokenizer << ", vocabulary " << r.vocabulary << "\n"
      << "  hash " << r.hash.hex() << " (must be the same at every site)\n";
  return out.str();
}

}  // namespace atl
