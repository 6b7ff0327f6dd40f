#include "base/bytes.h"

#include <bit>
#include <cstring>
#include <limits>

namespace atl {

// Numbers are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little, "the byte formats are little-endian; this machine is not");

std::span<const std::byte> ByteReader::bytes(std::string_view field, std::size_t n) {
  if (n > remaining())
    fail(text(field, " needs ", n, " bytes at offset ", position_, ", but only ", remaining(), " of ", bytes_.size(),
              " are left"));
  const auto part = bytes_.subspan(position_, n);
  position_ += n;
  return part;
}

template <class T>
T ByteReader::number(std::string_view field) {
  T value;
  std::memcpy(&value, bytes(field, sizeof value).data(), sizeof value);
  return value;
}

std::uint8_t ByteReader::u8(std::string_view field) { return number<std::uint8_t>(field); }
std::uint16_t ByteReader::u16(std::string_view field) { return number<std::uint16_t>(field); }
std::uint32_t ByteReader::u32(std::string_view field) { return number<std::uint32_t>(field); }
std::uint64_t ByteReader::u64(std::string_view field) { return number<std::uint64_t>(field); }
std::int64_t ByteReader::i64(std::string_view field) { return number<std::int64_t>(field); }
float ByteReader::f32(std::string_view field) { return number<float>(field); }
double ByteReader::f64(std::string_view field) { return number<double>(field); }

bool ByteReader::boolean(std::string_view field) {
  const unsigned value = u8(field);
  if (value > 1) fail(text(field, " is ", value, " at offset ", position_ - 1, ", but it must be 0 or 1"));
  return value == 1;
}

Hash128 ByteReader::hash(std::string_view field) {
  Hash128 value;
  value.low = u64(field);
  value.high = u64(field);
  return value;
}

std::string ByteReader::string(std::string_view field, std::size_t limit) {
  const std::size_t length = u32(field);
  if (length > limit)
    fail(
        text(field, " says it is ", length, " bytes long at offset ", position_ - 4, ", but ", limit, " is the limit"));
  const auto part = bytes(field, length);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

void ByteReader::floats(std::string_view field, std::span<float> out) {
  const auto part = bytes(field, out.size_bytes());
  if (!part.empty()) std::memcpy(out.data(), part.data(), part.size());
}

void ByteReader::expect_end() const {
  if (remaining() != 0) fail(text(remaining(), " bytes are left over after offset ", position_));
}

void ByteReader::fail(const std::string& message) const { atl::fail(source_.blame, source_.name + ": " + message); }

ByteWriter& ByteWriter::bytes(std::span<const std::byte> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

template <class T>
ByteWriter& ByteWriter::number(T value) {
  return bytes(std::as_bytes(std::span<const T, 1>(&value, 1)));
}

ByteWriter& ByteWriter::u8(std::uint8_t value) { return number(value); }
ByteWriter& ByteWriter::u16(std::uint16_t value) { return number(value); }
ByteWriter& ByteWriter::u32(std::uint32_t value) { return number(value); }
ByteWriter& ByteWriter::u64(std::uint64_t value) { return number(value); }
ByteWriter& ByteWriter::i64(std::int64_t value) { return number(value); }
ByteWriter& ByteWriter::f32(float value) { return number(value); }
ByteWriter& ByteWriter::f64(double value) { return number(value); }
ByteWriter& ByteWriter::boolean(bool value) { return u8(value ? 1 : 0); }
ByteWriter& ByteWriter::hash(const Hash128& value) { return u64(value.low).u64(value.high); }

ByteWriter& ByteWriter::string(std::string_view value) {
  constexpr std::size_t limit = std::numeric_limits<std::uint32_t>::max();
  ATOLL_CHECK(value.size() <= limit, value.size(), " bytes, ", limit, " at most");
  u32(static_cast<std::uint32_t>(value.size()));
  return bytes(std::as_bytes(std::span(value)));
}

ByteWriter& ByteWriter::floats(std::span<const float> values) { return bytes(std::as_bytes(values)); }

}  // namespace atl
