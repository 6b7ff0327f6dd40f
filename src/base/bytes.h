// Bytes in and out: little-endian, without padding, every read checked.
//
// For headers, packets, checkpoints and token files.  Nothing from the wire or a file is trusted: a read past the end,
// a string that is too long or a boolean that is neither 0 nor 1 is an error that names the source, the field, the
// offset and the sizes.  The formats themselves are written in docs/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace atl {

// Where bytes come from, for messages and for the kind of error: a link's are LinkError, a file's ConfigError.
struct ByteSource {
  Blame blame = Blame::user;
  std::string name;  // "site 3, round 12", "runs/a/checkpoint"
  static ByteSource link(std::string name) { return {Blame::link, std::move(name)}; }
  static ByteSource file(std::string name) { return {Blame::user, std::move(name)}; }
};

// Reads from bytes that it does not own; they must outlive it.  `field` appears in the message when a read fails.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, ByteSource source) : bytes_(bytes), source_(std::move(source)) {}

  std::uint8_t u8(std::string_view field);
  std::uint16_t u16(std::string_view field);
  std::uint32_t u32(std::string_view field);
  std::uint64_t u64(std::string_view field);
  std::int64_t i64(std::string_view field);
  float f32(std::string_view field);  // any bits, also NaN
  double f64(std::string_view field);
  bool boolean(std::string_view field);  // one byte, 0 or 1
  Hash128 hash(std::string_view field);  // low, then high
  // u32 length, then the bytes; refused when longer than `limit`.  Not checked for UTF-8.
  std::string string(std::string_view field, std::size_t limit);
  // The next n bytes, as a view into the source.
  std::span<const std::byte> bytes(std::string_view field, std::size_t n);
  void floats(std::string_view field, std::span<float> out);  // [out.size()], written

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  void expect_end() const;  // fails when bytes are left over

  // Throws the source's kind of error: "<source>: <message>".  For checks of a field's value.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  template <class T>
  T number(std::string_view field);

  std::span<const std::byte> bytes_;
  ByteSource source_;
  std::size_t position_ = 0;
};

// The other direction; the same names.  Never fails, but for Bug on a string of 4 GiB or more.
class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t value);
  ByteWriter& u16(std::uint16_t value);
  ByteWriter& u32(std::uint32_t value);
  ByteWriter& u64(std::uint64_t value);
  ByteWriter& i64(std::int64_t value);
  ByteWriter& f32(float value);
  ByteWriter& f64(double value);
  ByteWriter& boolean(bool value);
  ByteWriter& hash(const Hash128& value);
  ByteWriter& string(std::string_view value);
  ByteWriter& bytes(std::span<const std::byte> value);
  ByteWriter& floats(std::span<const float> values);

  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <class T>
  ByteWriter& number(T value);

  std::vector<std::byte> bytes_;
};

}  // namespace atl
