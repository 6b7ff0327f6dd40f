#include "base/hash.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"

namespace atl {
namespace {

// The first is the published value; the others are what a C program got from libxxhash 0.8.1, to pin seed and word
// order.
TEST_CASE("hash: XXH3 with 128 bits and no seed, high word first") {
  CHECK(hash_text("").hex() == "99aa06d3014798d86001c324468d497f");
  CHECK(hash_text("atoll").hex() == "d26ca0b45f209395cc4ef0dc5a3e642d");
  CHECK(hash_text(std::string(1000, 'x')).hex() == "50a1af5a5f2dcf01c0a4877b962cba82");
}

TEST_CASE("hash: text and its bytes hash alike; one byte changes it") {
  const std::string text = "generation";
  CHECK(hash_text(text) == hash_bytes(std::as_bytes(std::span(text))));
  CHECK(hash_text("generation") != hash_text("Generation"));
}

TEST_CASE("hash: hexadecimal there and back, high first, with leading zeros") {
  const Hash128 hash{.high = 0x00000000DEADBEEF, .low = 0x0123456789ABCDEF};
  CHECK(hash.hex() == "00000000deadbeef0123456789abcdef");
  CHECK(Hash128::from_hex(hash.hex()) == hash);
  CHECK(Hash128::from_hex("00000000DEADBEEF0123456789ABCDEF") == hash);
  CHECK(Hash128{}.hex() == std::string(32, '0'));
}

TEST_CASE("hash: what is no hash is refused") {
  for (const char* wrong : {"", "00", "00000000deadbeef0123456789abcde", "00000000deadbeef0123456789abcdef0",
                            "00000000deadbeef0123456789abcdeg", "0x000000deadbeef0123456789abcdef"}) {
    CAPTURE(std::string(wrong));
    CHECK_THROWS_WITH_AS(Hash128::from_hex(wrong), doctest::Contains("32 hexadecimal digits expected"), ConfigError);
  }
}

}  // namespace
}  // namespace atl
