#include "data/token_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"

namespace atl {

namespace {

constexpr std::size_t kWriteBytes = std::size_t{1} << 20U;

std::filesystem::path partial_of(std::filesystem::path path) { return path += ".partial"; }

}  // namespace

TokenWriter::TokenWriter(std::filesystem::path path, TokenFileInfo info)
    : path_(std::move(path)), partial_(partial_of(path_)), info_(std::move(info)) {
  info_.token_bytes = info_.vocabulary <= 0x10000 ? 2 : 4;
  info_.tokens = 0;
  fd_ = open_file(partial_, O_RDWR | O_CREAT | O_TRUNC, "create");
}

TokenWriter::~TokenWriter() {
  if (!committed_ && fd_.get() >= 0) ::unlink(partial_.c_str());
}

void TokenWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    const auto value = static_cast<std::uint32_t>(id);
    ATOLL_CHECK(value < info_.vocabulary, "token ", id, " of the tokenizer ", info_.tokenizer, ", vocabulary ",
                info_.vocabulary);
    const std::size_t at = waiting_.size();
    waiting_.resize(at + info_.token_bytes);
    std::memcpy(waiting_.data() + at, &value, info_.token_bytes);  // little-endian: the low bytes first
  }
  info_.tokens += ids.size();
  if (waiting_.size() >= kWriteBytes) flush();
}

const TokenFileInfo& TokenWriter::finish() {
  ATOLL_CHECK(!finished_, path_.string(), " is finished twice");
  finished_ = true;
  write(std::vector<std::byte>(kTokenHeaderBytes), 0);  // so that a file of no tokens can be mapped too
  flush();
  waiting_ = {};
  {
    const MappedFile written(partial_);  // so that what is hashed is what a reader will see
    info_.payload_hash = hash_bytes(written.bytes().subspan(kTokenHeaderBytes));
  }
  write(encode_token_header(info_), 0);
  if (::fsync(fd_.get()) != 0) fail_errno(path_, "flush");
  return info_;
}

void TokenWriter::commit() {
  ATOLL_CHECK(finished_ && !committed_, path_.string(), " is committed before it is finished, or twice");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail_errno(path_, "rename the new file to this name");
  committed_ = true;
}

void TokenWriter::flush() {
  write(waiting_, end_);
  end_ += waiting_.size();
  waiting_.clear();
}

void TokenWriter::write(std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ::ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path_, text("write token ", info_.tokens));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

}  // namespace atl
