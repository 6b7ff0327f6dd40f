#include "kernels/buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "support/gpu.h"

namespace atl {
namespace {

TEST_CASE("buffer: zero at first, aligned to 64 bytes, of the size asked for") {
  for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 100'003U}) {
    CAPTURE(n);
    Buffer buffer(n, {});
    CHECK(buffer.values().size() == n);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.values().data()) % 64 == 0);
    CHECK(std::ranges::all_of(buffer.values(), [](float x) { return x == 0; }));
    CHECK(buffer.place().on_host());
  }
  CHECK(Buffer().values().empty());
}

TEST_CASE("buffer: moving hands the values over and leaves nothing") {
  Buffer a(3, {});
  a.values()[1] = 5;
  const float* data = a.values().data();
  Buffer b(std::move(a));
  CHECK(b.values().data() == data);
  CHECK(b.values()[1] == 5);
  CHECK(a.values().empty());
  Buffer c(7, {});
  c = std::move(b);
  CHECK(b.values().empty());
  CHECK(c.values().data() == data);
  CHECK(c.values().size() == 3);
  Buffer& alias = c;
  c = std::move(alias);
  CHECK(c.values().size() == 3);
  CHECK(c.values()[1] == 5);
}

TEST_CASE("buffer: more than there is memory for is the user's to fix, and says how much") {
#ifndef ATOLL_SANITIZED  // the address sanitizer ends the program at such a size
  CHECK_THROWS_WITH_AS(Buffer(std::size_t{1} << 50U, {}), doctest::Contains("4503599627370496 bytes"), ConfigError);
#endif
  CHECK_THROWS_AS(Buffer(std::size_t{1} << 63U, {}), Bug);
}

TEST_CASE("copy: values and bytes, and unequal lengths are refused with the numbers") {
  const std::vector<float> from{1.0F, 2.0F};
  std::vector<float> to(2), longer(3);
  copy(from, {}, to, {});
  CHECK(to == from);
  copy({}, {}, {}, {});
  CHECK_THROWS_WITH_AS(copy(from, {}, longer, {}), doctest::Contains("from 8 bytes, to 12 bytes"), Bug);
}

TEST_CASE("buffer: cuda is refused where there is none" * doctest::skip(cuda_available())) {
  CHECK_THROWS_AS(Buffer(1, gpu()), Bug);
  std::vector<float> x(1), y(1);
  CHECK_THROWS_AS(copy(x, {}, y, gpu()), Bug);
}

TEST_CASE("buffer: a round trip over the card" * doctest::skip(no_gpu())) {
  const std::vector<float> host{1.0F, -0.0F, 3.0F};
  Buffer a(3, gpu()), b(3, gpu());
  std::vector<float> back(3, 9.0F);
  copy(a.values(), gpu(), back, {});
  CHECK(back == std::vector<float>(3));
  copy(host, {}, a.values(), gpu());
  copy(a.values(), gpu(), b.values(), gpu());
  copy(b.values(), gpu(), back, {});
  CHECK(back == host);
  CHECK(!Buffer(1, gpu()).place().on_host());
}

}  // namespace
}  // namespace atl
