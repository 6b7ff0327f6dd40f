#include "base/bytes.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace atl {
namespace {

std::vector<std::byte> raw(std::initializer_list<unsigned> values) {
  std::vector<std::byte> out;
  for (const unsigned v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}

TEST_CASE("bytes: numbers lie little-endian, without padding") {
  ByteWriter out;
  out.u8(0x01).u16(0x0302).u32(0x07060504).u64(0x0F0E0D0C0B0A0908).boolean(true).string("ab").f32(1.0F);
  CHECK(out.take() ==
        raw({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 0, 0, 0, 'a', 'b', 0, 0, 0x80, 0x3F}));
}

TEST_CASE("bytes: what was written is read, to the last bit") {
  ByteWriter out;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Hash128 hash{.high = 0x0123456789ABCDEF, .low = 0xFEDCBA9876543210};
  out.u8(255).u16(65535).u32(4294967295U).u64(~std::uint64_t{0}).i64(-2).f32(-0.0F).f32(nan).f64(0.1);
  out.boolean(false)
      .boolean(true)
      .hash(hash)
      .string("")
      .string("Θ\0x")
      .floats(std::vector<float>{1.5F, -2.5F})
      .bytes(raw({7}));
  const auto bytes = out.take();
  ByteReader in(bytes, ByteSource::file("f"));
  CHECK(in.u8("a") == 255);
  CHECK(in.u16("a") == 65535);
  CHECK(in.u32("a") == 4294967295U);
  CHECK(in.u64("a") == ~std::uint64_t{0});
  CHECK(in.i64("a") == -2);
  CHECK(std::signbit(in.f32("a")));
  CHECK(std::isnan(in.f32("a")));
  CHECK(in.f64("a") == 0.1);
  CHECK(!in.boolean("a"));
  CHECK(in.boolean("a"));
  CHECK(in.hash("a") == hash);
  CHECK(in.string("a", 0).empty());
  CHECK(in.string("a", 3) == "Θ\0x");
  std::vector<float> floats(2);
  in.floats("a", floats);
  CHECK(floats == std::vector<float>{1.5F, -2.5F});
  CHECK(in.remaining() == 1);
  CHECK(in.bytes("a", 1)[0] == std::byte{7});
  CHECK(in.position() == bytes.size());
  in.expect_end();
}

TEST_CASE("bytes: a read past the end names source, field, offset and sizes, and moves nothing") {
  const auto bytes = raw({1, 2, 3, 4, 5});
  ByteReader in(bytes, ByteSource::link("site 3, round 12"));
  in.u32("magic");
  CHECK_THROWS_WITH_AS(in.u32("generation"),
                       "site 3, round 12: generation needs 4 bytes at offset 4, but only 1 of 5 are left", LinkError);
  CHECK_THROWS_AS(in.u64("round"), LinkError);
  CHECK_THROWS_AS(in.bytes("payload", std::numeric_limits<std::size_t>::max()), LinkError);
  CHECK(in.u8("last") == 5);
  std::vector<float> none;
  in.floats("nothing", none);
  CHECK_THROWS_AS(in.u8("past"), LinkError);
}

TEST_CASE("bytes: a file's mistakes are ConfigError") {
  ByteReader in({}, ByteSource::file("tokens.bin"));
  CHECK_THROWS_WITH_AS(in.u8("version"), "tokens.bin: version needs 1 bytes at offset 0, but only 0 of 0 are left",
                       ConfigError);
  CHECK_THROWS_WITH_AS(in.fail("is empty"), "tokens.bin: is empty", ConfigError);
}

TEST_CASE("bytes: a string longer than its limit is refused before anything is read") {
  const auto bytes = raw({4, 0, 0, 0, 'a', 'b', 'c', 'd'});
  CHECK(ByteReader(bytes, ByteSource::file("f")).string("name", 4) == "abcd");
  CHECK_THROWS_WITH_AS(ByteReader(bytes, ByteSource::file("f")).string("name", 3),
                       "f: name says it is 4 bytes long at offset 0, but 3 is the limit", ConfigError);
  const auto huge = raw({255, 255, 255, 255, 'a'});
  CHECK_THROWS_WITH_AS(ByteReader(huge, ByteSource::file("f")).string("name", 100),
                       doctest::Contains("4294967295 bytes long"), ConfigError);
  CHECK_THROWS_WITH_AS(ByteReader(huge, ByteSource::file("f")).string("name", std::size_t{1} << 40U),
                       doctest::Contains("only 1 of 5 are left"), ConfigError);
}

TEST_CASE("bytes: a boolean is 0 or 1, and nothing may be left over") {
  const auto bytes = raw({2, 0});
  ByteReader in(bytes, ByteSource::file("f"));
  CHECK_THROWS_WITH_AS(in.boolean("finite"), "f: finite is 2 at offset 0, but it must be 0 or 1", ConfigError);
  CHECK_THROWS_WITH_AS(in.expect_end(), "f: 1 bytes are left over after offset 1", ConfigError);
}

}  // namespace
}  // namespace atl
