#include "data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace atl {
namespace {

constexpr std::uint64_t kMagic = 0x314B4F544C4C5441;  // "ATLLTOK1"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kSplitBytes = 16;
const std::string kPrepare = ": write it again with `atoll data prepare`";

std::vector<std::byte> encoded(const TokenFileHeader& h) {
  ByteWriter out;
  out.u64(kMagic).u32(kVersion).u32(h.width).u32(h.vocabulary).u32(0).u64(h.tokens).hash(h.tokenizer).hash(h.content);
  ATOLL_CHECK(h.split.size() <= kSplitBytes, "split ", h.split);
  for (std::size_t i = 0; i < kSplitBytes; ++i) out.u8(i < h.split.size() ? static_cast<std::uint8_t>(h.split[i]) : 0);
  const std::uint64_t check = hash_bytes(out.view()).low;
  out.u64(check);
  while (out.size() < TokenFileHeader::kBytes) out.u8(0);
  return out.take();
}

TokenFileHeader decoded(std::span<const std::byte> bytes, const std::string& path) {
  ByteReader in(bytes, ByteSource::file(path));
  if (in.u64("magic") != kMagic) in.fail("this is no token file of atoll" + kPrepare);
  if (const auto version = in.u32("version"); version != kVersion)
    in.fail(text("token file version ", version, ", this program reads ", kVersion, kPrepare));
  TokenFileHeader h;
  h.width = in.u32("width");
  h.vocabulary = in.u32("vocabulary");
  in.u32("reserved");
  h.tokens = in.u64("tokens");
  h.tokenizer = in.hash("tokenizer");
  h.content = in.hash("content");
  const auto split = in.bytes("split", kSplitBytes);
  for (const std::byte b : split)
    if (b != std::byte{0}) h.split += static_cast<char>(b);
  const std::size_t checked = in.position();
  if (in.u64("checksum") != hash_bytes(bytes.first(checked)).low) in.fail("the header's checksum is wrong: the file is damaged" + kPrepare);
  if (h.width != 2 && h.width != 4) in.fail(text("tokens of ", h.width, " bytes, expected 2 or 4"));
  if (h.vocabulary == 0 || (h.width == 2 && h.vocabulary > 65'536)) in.fail(text("a vocabulary of ", h.vocabulary, " in ", h.width, " bytes a token"));
  return h;
}

// The mapping of a whole file.
std::span<const std::byte> map_file(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw ConfigError(text(path.string(), ": ", std::strerror(errno),
                           errno == ENOENT ? ": data.path must name a folder that `atoll data prepare FILES --out DIR` wrote" : ""));
  struct stat info {};
  const bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = is_file ? static_cast<std::size_t>(info.st_size) : 0;
  void* map = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  const int error = errno;
  close(fd);
  if (!is_file) throw ConfigError(text(path.string(), ": not a regular file"));
  if (size < TokenFileHeader::kBytes) {
    if (map != MAP_FAILED) munmap(map, size);
    throw ConfigError(text(path.string(), ": ", size, " bytes, a token file has at least ", TokenFileHeader::kBytes, kPrepare));
  }
  if (map == MAP_FAILED) throw ConfigError(text(path.string(), ": cannot map it: ", std::strerror(error)));
  return {static_cast<const std::byte*>(map), size};
}

}  // namespace

void write_token_file(const std::filesystem::path& path, TokenFileHeader header, std::span<const std::uint32_t> tokens) {
  header.width = header.vocabulary <= 65'536 ? 2 : 4;
  header.tokens = tokens.size();
  std::vector<std::byte> file(TokenFileHeader::kBytes + tokens.size() * header.width);
  std::byte* at = file.data() + TokenFileHeader::kBytes;
  for (std::size_t i = 0; i < tokens.size(); ++i, at += header.width) {
    if (tokens[i] >= header.vocabulary)
      throw ConfigError(text("token ", tokens[i], " at position ", i, ", but the vocabulary has ", header.vocabulary));
    std::memcpy(at, &tokens[i], header.width);  // little-endian
  }
  header.content = hash_bytes(std::span(file).subspan(TokenFileHeader::kBytes));
  const std::vector<std::byte> head = encoded(header);
  std::copy(head.begin(), head.end(), file.begin());
  write_atomically(path, file);
}

TokenFile::TokenFile(const std::filesystem::path& path, const std::string& split) : path_(path) {
  const std::span<const std::byte> all = map_file(path);
  map_ = all.data();
  mapped_ = all.size();
  try {
    header_ = decoded(all.first(TokenFileHeader::kBytes), path.string());
    const auto body = all.subspan(TokenFileHeader::kBytes);
    if (header_.tokens > body.size() / header_.width || body.size() != header_.tokens * header_.width)
      throw ConfigError(text(path.string(), ": ", body.size(), " bytes of tokens, the header says ", header_.tokens, " tokens of ", header_.width,
                             " bytes: the file was cut short or grew", kPrepare));
    if (header_.split != split)
      throw ConfigError(text(path.string(), ": it holds the split \"", header_.split, "\", expected \"", split, "\""));
    if (hash_bytes(body) != header_.content) throw ConfigError(text(path.string(), ": the checksum of its tokens is wrong: the file is damaged", kPrepare));
  } catch (...) {
    munmap(const_cast<std::byte*>(map_), mapped_);
    throw;
  }
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)), header_(std::move(other.header_)), map_(std::exchange(other.map_, nullptr)), mapped_(other.mapped_) {}

TokenFile::~TokenFile() {
  if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), mapped_);
}

void TokenFile::read(std::uint64_t first, std::span<std::int32_t> out) const {
  ATOLL_CHECK(first <= size() && out.size() <= size() - first, "tokens ", first, " + ", out.size(), " of ", size());
  const std::byte* at = map_ + TokenFileHeader::kBytes + first * header_.width;
  for (std::int32_t& token : out) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, header_.width);
    token = static_cast<std::int32_t>(value);
    at += header_.width;
  }
}

}  // namespace atl
