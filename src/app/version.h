// The program's version, as CMake's project() says it.
#pragma once

namespace atl {

inline constexpr const char* kVersion = ATOLL_VERSION;

}  // namespace atl
