#include "base/error.h"

#include <doctest/doctest.h>

#include "base/clock.h"

namespace atl {
namespace {

TEST_CASE("error: a check says where, what does not hold, and with which numbers") {
  const int deltas = 2, expected = 3;
  const auto check = [&] { ATOLL_CHECK(deltas == expected, deltas, " deltas, ", expected, " expected"); };
  CHECK_THROWS_WITH_AS(check(), doctest::Contains("deltas == expected does not hold: 2 deltas, 3 expected"), Bug);
  CHECK_THROWS_WITH_AS(check(), doctest::Contains("error_test.cpp:12: "), Bug);
}

TEST_CASE("error: blame chooses the kind") {
  CHECK_THROWS_WITH_AS(fail(Blame::user, "a"), "a", ConfigError);
  CHECK_THROWS_WITH_AS(fail(Blame::link, "b"), "b", LinkError);
}

TEST_CASE("error: text joins its parts") { CHECK(text("a", 1, 2.5) == "a12.5"); }

TEST_CASE("clock: does not run back") {
  const double before = steady_seconds();
  CHECK(steady_seconds() >= before);
}

}  // namespace
}  // namespace atl
