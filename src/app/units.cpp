#include "app/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace atl {

namespace {

// Three figures with the prefix that leaves 1 to 3 digits before the point.
std::string scaled(double x, const char* space) {
  constexpr std::array kPrefixes{"", "k", "M", "G", "T", "P"};
  if (!std::isfinite(x)) return fmt::format("{}{}", x, space);
  std::size_t prefix = 0;
  while (std::abs(x) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    x /= 1000;
    ++prefix;
  }
  const int digits = prefix == 0 || std::abs(x) >= 99.95 ? 0 : std::abs(x) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}{}", x, digits, space, kPrefixes[prefix]);
}

}  // namespace

std::string short_count(double x) { return scaled(x, ""); }
std::string short_bytes(double bytes) { return scaled(bytes, " ") + "B"; }

std::string short_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string short_duration(double s) {
  if (!std::isfinite(s) || s > 1e9) return "?";
  if (s < 9.995) return fmt::format("{:.2f}s", s);
  const auto whole = static_cast<std::int64_t>(std::llround(s));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace atl
