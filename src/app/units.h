// Units: numbers as a person reads them, for progress, tables and the report.
#pragma once
#include <cstdint>
#include <string>

namespace atl {

std::string short_count(double x);        // 950, 14.0k, 1.25M, 3.10G
std::string short_bytes(double bytes);    // 950 B, 14.0 kB, 1.25 MB, 3.10 GB: powers of 1000, as links are sold
std::string short_percent(double share);  // 95.5 %
std::string short_duration(double s);     // 0.42s, 42s, 1m40s, 2h05m, 3d04h

}  // namespace atl
