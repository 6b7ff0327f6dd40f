// Nearness with a tolerance that is said: instead of doctest::Approx, which lets small numbers through (scale 1).
//
//   CHECK(close(got, want, {.absolute = 1e-9}));     prints got, want, their distance and what was allowed when it fails
//   CHECK(close(got, want, {.relative = 1e-6}));     relative to want
//   CHECK(bits(got) == bits(want));                  the same bits; -0 is not 0, and a NaN equals itself
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <span>
#include <vector>

namespace atl {

struct Tolerance {
  double absolute = 0;
  double relative = 0;  // times |want|; the two add up
};

struct Closeness {
  double got, want, allowed;
  explicit operator bool() const { return got == want || std::abs(got - want) <= allowed; }  // false for NaN
  friend std::ostream& operator<<(std::ostream& out, const Closeness& c) {
    const auto digits = out.precision(17);
    out << c.got << " is " << std::abs(c.got - c.want) << " away from " << c.want << ", " << c.allowed << " allowed";
    out.precision(digits);
    return out;
  }
};

inline Closeness close(double got, double want, Tolerance tolerance) {
  return {got, want, tolerance.absolute + tolerance.relative * std::abs(want)};
}

inline std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// Of whole spans; doctest's == on them then tells -0 from 0 and finds NaN equal to itself.
inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> out;
  out.reserve(values.size());
  for (const float x : values) out.push_back(bits(x));
  return out;
}

}  // namespace atl
