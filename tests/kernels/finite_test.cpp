#include "kernels/finite.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "support/gpu.h"
#include "support/values.h"

namespace atl {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

TEST_CASE("finite: the largest and the smallest numbers are, nothing is too") {
  CHECK(kernels::all_finite({}, {}));
  CHECK(kernels::all_finite(std::vector<float>{kMax, -kMax, 0.0F, -0.0F, 1e-45F, -1e-45F}, {}));
}

TEST_CASE("finite: one infinity or NaN is found at every place of every size") {
  for (const float wrong : {kInf, -kInf, kNan, -kNan}) {
    for (const std::size_t n : kSizes) {
      std::vector<float> x(n, kMax);
      CHECK(kernels::all_finite(x, {}));
      for (std::size_t at = 0; at < n; at += n < 300 ? 1 : n / 50) {
        CAPTURE(n);
        CAPTURE(at);
        x[at] = wrong;
        REQUIRE(!kernels::all_finite(x, {}));
        x[at] = kMax;
      }
      if (n == 0) continue;
      x[n - 1] = wrong;
      CHECK(!kernels::all_finite(x, {}));
    }
  }
}

TEST_CASE("finite: cuda gives the same answers" * doctest::skip(no_gpu())) {
  for (const float wrong : {kInf, -kInf, kNan}) {
    for (const std::size_t n : kSizes) {
      CAPTURE(n);
      std::vector<float> x(n, kMax);
      CHECK(kernels::all_finite(GpuFloats(x).values(), gpu()));
      if (n == 0) continue;
      x[n / 2] = wrong;
      CHECK(!kernels::all_finite(GpuFloats(x).values(), gpu()));
      x[n / 2] = 0;
      x[n - 1] = wrong;
      CHECK(!kernels::all_finite(GpuFloats(x).values(), gpu()));
    }
  }
}

}  // namespace
}  // namespace atl
