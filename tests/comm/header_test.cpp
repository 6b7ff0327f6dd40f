#include "comm/header.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <random>

#include "base/error.h"
#include "fuzz/header_property.h"

using namespace atl;

namespace {

Header example() {
  return {.kind = Header::Kind::data,
          .finite = true,
          .first_of_group = true,
          .generation = 3,
          .number = 12,
          .slot = 1,
          .round = 12,
          .step = 360,
          .tokens = 7680,
          .payload_bytes = 1068032,
          .layout_hash = {0x1111111111111111, 0x2222222222222222},
          .settings_hash = {0x3333333333333333, 0x4444444444444444},
          .global_hash = {0x5555555555555555, 0x6666666666666666}};
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  char two[3];
  for (const std::byte b : bytes) {
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(b));
    out += two;
  }
  return out;
}

}  // namespace

TEST_CASE("header: the example of docs/wire_format.md, byte for byte") {
  const auto bytes = encode(example());
  CHECK(hex(bytes) ==
        "41544c48010001030300000001000000"
        "0c000000000000006801000000000000"
        "001e000000000000004c100000000000"
        "0c000000000000002222222222222222"
        "11111111111111114444444444444444"
        "33333333333333336666666666666666"
        "55555555555555550000000000000000"
        "0000000000000000"
        "4f1fcce69d8034e8");  // the checksum: Python's xxhash 3.x over the 120 bytes before it
  CHECK(decode_header(bytes, "site-1") == example());
}

TEST_CASE("header: every flipped bit is refused") {
  const auto good = encode(example());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    CAPTURE(bit);
    CHECK_THROWS_AS(decode_header(bad, "site-1"), LinkError);
  }
}

TEST_CASE("header: a wrong length, magic or version says so, and who sent it") {
  const auto good = encode(example());
  CHECK_THROWS_WITH_AS(decode_header(std::span(good).first(127), "site-1"),
                       doctest::Contains("header from site-1: it has 127 bytes, expected 128"), LinkError);
  auto magic = good;
  magic[0] = std::byte{'X'};
  CHECK_THROWS_WITH_AS(decode_header(magic, "site-1"), doctest::Contains("this is no atoll link"), LinkError);
  auto version = good;
  version[4] = std::byte{2};
  CHECK_THROWS_WITH_AS(decode_header(version, "site-1"), doctest::Contains("version 2, expected 1"), LinkError);
}

TEST_CASE("header: a million random messages are refused and nothing else happens") {
  std::mt19937_64 random(7);
  std::array<std::byte, Header::kBytes> bytes;
  const auto good = encode(example());
  int accepted = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    bytes = good;
    const int changes = 1 + static_cast<int>(random() % 8);  // near misses find more than noise
    bool same = true;
    for (int c = 0; c < changes; ++c) {
      const std::uint64_t r = random();
      bytes[r % bytes.size()] = static_cast<std::byte>(r >> 32U);
    }
    same = bytes == good;
    try {
      decode_header(std::span(bytes).first(i % 16 == 0 ? random() % 129 : 128), "site-1");
      accepted += same ? 0 : 1;
    } catch (const LinkError&) {
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("header: behind a right checksum kind, flags and reserved bytes are still looked at") {
  const auto refused = [](std::size_t at, unsigned value, const std::string& words) {
    auto bytes = encode(example());
    bytes[at] = std::byte(value);
    CAPTURE(at);
    CHECK_THROWS_WITH_AS(decode_header(sealed(bytes), "site-1"), doctest::Contains(words.c_str()), LinkError);
  };
  refused(6, 0, "header from site-1: kind 0, expected 1 to 3");
  refused(6, 4, "kind 4, expected 1 to 3");
  refused(7, 4, "flags 4, expected at most 3");
  refused(7, 128, "flags 128, expected at most 3");
  for (const std::size_t at : {52U, 55U, 104U, 111U, 112U, 119U}) refused(at, 1, "reserved bytes are not 0");
}

TEST_CASE("header: 300,000 random headers with a right checksum are refused, or are what encode writes") {
  std::mt19937_64 random(11);
  int taken = 0;
  for (int i = 0; i < 300'000; ++i) {
    auto bytes = encode(example());
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t c = 0; c < changes; ++c) {
      const std::uint64_t r = random();
      bytes[r % bytes.size()] = static_cast<std::byte>(r >> 32U);
    }
    taken += header_holds(sealed(bytes)) ? 1 : 0;
  }
  CHECK(taken > 100'000);  // most fields may hold anything: the loop does reach what is behind the checksum
}

TEST_CASE("header: every field survives, at its limits too") {
  for (const auto kind : {Header::Kind::data, Header::Kind::sync, Header::Kind::finish})
    for (const bool finite : {false, true})
      for (const bool first : {false, true})
        for (const std::uint64_t all : {std::uint64_t{0}, ~std::uint64_t{0}}) {
          const auto half = static_cast<std::uint32_t>(all);
          const Header header{.kind = kind,
                              .finite = finite,
                              .first_of_group = first,
                              .generation = half,
                              .number = all,
                              .slot = half,
                              .round = half,
                              .step = all,
                              .tokens = all,
                              .payload_bytes = all,
                              .layout_hash = {all, ~all},
                              .settings_hash = {~all, all},
                              .global_hash = {all, all}};
          CHECK(decode_header(encode(header), "site-1") == header);
        }
}

TEST_CASE("header: a disagreement names the field, both sites and both values; what may differ may") {
  const Header a = example();
  Header b = a;
  b.step = 1;
  b.tokens = 2;
  b.finite = false;
  CHECK(!disagreement(a, "oslo", b, "rome"));
  const auto says = [&](auto change, const std::string& words) {
    Header c = a;
    change(c);
    const auto found = disagreement(a, "oslo", c, "rome");
    REQUIRE(found);
    CHECK(found->find(words) != std::string::npos);
  };
  says([](Header& h) { h.round = 13; }, "round is 12 at oslo, but 13 at rome");
  says([](Header& h) { h.slot = 0; }, "slot is 1 at oslo, but 0 at rome");
  says([](Header& h) { h.number = 11; }, "exchange number is 12 at oslo, but 11 at rome");
  says([](Header& h) { h.generation = 4; }, "generation is 3 at oslo, but 4 at rome");
  says([](Header& h) { h.payload_bytes = 4; }, "payload size (bytes) is 1068032 at oslo, but 4 at rome");
  says([](Header& h) { h.kind = Header::Kind::finish; }, "kind of message");
  says([](Header& h) { h.first_of_group = false; }, "first of its group");
  says([](Header& h) { h.layout_hash.low = 0; }, "layout hash is 11111111111111112222222222222222 at oslo");
  says([](Header& h) { h.settings_hash.low = 0; }, "settings hash");
  says([](Header& h) { h.global_hash.high = 0; }, "hash of the shared parameters and outer state");
}
