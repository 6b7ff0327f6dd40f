#include "data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"
#include "base/error.h"

namespace atl {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are, little-endian");

constexpr std::string_view kMagic = "ATOLLTOK";
constexpr std::size_t kSplitLimit = 16;
constexpr std::size_t kHashedBytes = kTokenHeaderBytes - sizeof(Hash128);  // the header's own hash is its end

// How a file's tokens are damaged is not known; what to do is the same.
constexpr const char* kRemedy = "copy it again, or run `atoll data prepare` again";

template <class Id>
void widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<std::int32_t>(id);
  }
}

// The place of the first id that is not below `vocabulary`; the number of tokens when there is none.
template <class Id>
std::size_t first_above(std::span<const std::byte> payload, std::uint32_t vocabulary) {
  const std::size_t tokens = payload.size() / sizeof(Id);
  for (std::size_t i = 0; i < tokens; ++i) {
    Id id;
    std::memcpy(&id, payload.data() + i * sizeof(Id), sizeof(Id));
    if (id >= vocabulary) return i;
  }
  return tokens;
}

// What can be said before the header's checksum: another format, another version, a header that is not whole.
void check_beginning(ByteReader& in) {
  const std::size_t size = in.remaining();
  const auto magic = in.bytes("magic", std::min(size, kMagic.size()));
  if (magic.size() < kMagic.size() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    in.fail(text("is no token file: it does not begin with ", kMagic, "; run `atoll data prepare FILES --out DIR`"));
  if (size < kTokenHeaderBytes)
    in.fail(
        text("has ", size, " bytes, but its header alone has ", kTokenHeaderBytes, ": it was cut short; ", kRemedy));
  if (const auto version = in.u32("version"); version != kTokenFileVersion)
    in.fail(text("is a token file of version ", version, ", but this program reads version ", kTokenFileVersion,
                 ": run `atoll data prepare` again"));
}

}  // namespace

std::vector<std::byte> encode_token_header(const TokenFileInfo& info) {
  ATOLL_CHECK(info.vocabulary > 0 && info.vocabulary <= kMaxVocabulary, "vocabulary ", info.vocabulary);
  ATOLL_CHECK(info.token_bytes == 2 || info.token_bytes == 4, "tokens of ", info.token_bytes, " bytes");
  ATOLL_CHECK(info.tokenizer.size() <= kTokenizerNameLimit && info.split.size() <= kSplitLimit, info.tokenizer, ", ",
              info.split);
  ByteWriter out;
  out.bytes(std::as_bytes(std::span(kMagic))).u32(kTokenFileVersion).u32(kTokenHeaderBytes);
  out.u32(info.vocabulary).u32(info.token_bytes).u64(info.tokens);
  out.hash(info.payload_hash).hash(info.tokenizer_hash).hash(info.set_hash);
  out.string(info.tokenizer).string(info.split);
  out.bytes(std::vector<std::byte>(kHashedBytes - out.size()));
  out.hash(hash_bytes(out.view()));
  return out.take();
}

TokenFileInfo decode_token_header(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in(bytes, ByteSource::file(name));
  check_beginning(in);
  ByteReader at_end(bytes.subspan(kHashedBytes, sizeof(Hash128)), ByteSource::file(name));
  if (at_end.hash("header hash") != hash_bytes(bytes.first(kHashedBytes)))
    in.fail(text("the header's checksum does not fit it: its bytes have changed; ", kRemedy));

  // From here on the header is what somebody wrote; but not everybody is atoll.
  if (const auto size = in.u32("header bytes"); size != kTokenHeaderBytes)
    in.fail(
        text("has a header of ", size, " bytes, but version ", kTokenFileVersion, " has one of ", kTokenHeaderBytes));
  TokenFileInfo info;
  info.vocabulary = in.u32("vocabulary");
  info.token_bytes = in.u32("bytes a token");
  info.tokens = in.u64("tokens");
  info.payload_hash = in.hash("payload hash");
  info.tokenizer_hash = in.hash("tokenizer hash");
  info.set_hash = in.hash("set hash");
  info.tokenizer = in.string("tokenizer", kTokenizerNameLimit);
  info.split = in.string("split", kSplitLimit);
  if (info.vocabulary == 0 || info.vocabulary > kMaxVocabulary)
    in.fail(text("the vocabulary is ", info.vocabulary, ", but it must be from 1 to ", kMaxVocabulary));
  if (info.token_bytes != 2 && info.token_bytes != 4)
    in.fail(text("a token has ", info.token_bytes, " bytes, but it must have 2 or 4"));
  return info;
}

TokenFile::TokenFile(const std::filesystem::path& path, Check check)
    : file_(path), info_(decode_token_header(file_.bytes(), path.string())) {
  payload_ = file_.bytes().subspan(kTokenHeaderBytes);
  if (payload_.size() % info_.token_bytes != 0 || payload_.size() / info_.token_bytes != info_.tokens)
    throw ConfigError(text(path.string(), ": holds ", payload_.size(), " bytes of tokens, but its header says ",
                           info_.tokens, " tokens of ", info_.token_bytes, " bytes: it was ",
                           payload_.size() / info_.token_bytes < info_.tokens ? "cut short" : "added to", "; ",
                           kRemedy));
  if (check == Check::everything) verify();
}

void TokenFile::read(std::uint64_t first, std::span<std::int32_t> out) const {
  ATOLL_CHECK(first <= info_.tokens && out.size() <= info_.tokens - first, "tokens ", first, " and ", out.size(),
              " more of ", info_.tokens);
  const std::byte* const from = payload_.data() + first * info_.token_bytes;
  info_.token_bytes == 2 ? widen<std::uint16_t>(from, out) : widen<std::uint32_t>(from, out);
}

void TokenFile::verify() const {
  const std::string name = path().string();
  if (const Hash128 found = hash_bytes(payload_); found != info_.payload_hash)
    throw ConfigError(text(name, ": the tokens' checksum is ", found.hex(), ", but the header says ",
                           info_.payload_hash.hex(), ": bytes have changed; ", kRemedy));
  const std::size_t wrong = info_.token_bytes == 2 ? first_above<std::uint16_t>(payload_, info_.vocabulary)
                                                   : first_above<std::uint32_t>(payload_, info_.vocabulary);
  if (wrong == info_.tokens) return;
  std::int32_t id = 0;
  read(wrong, {&id, 1});
  throw ConfigError(text(name, ": token ", wrong, " is ", static_cast<std::uint32_t>(id),
                         ", but it must be below the vocabulary (", info_.vocabulary,
                         "): whoever wrote the file made a mistake"));
}

}  // namespace atl
