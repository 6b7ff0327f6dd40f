// The three kinds of error.  main() turns them into exit codes: ConfigError 2, LinkError 3, Bug 70.
//
// A message says what was found, what was expected, where, and what to do; with numbers.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace atoll {

// The user can fix it: a setting, a file, a folder, a learning rate that made the loss infinite.
class ConfigError : public std::runtime_error { using std::runtime_error::runtime_error; };
// A site or a link failed.  The round may be tried again; nothing of it was applied.
class LinkError : public std::runtime_error { using std::runtime_error::runtime_error; };
// We were wrong.
class Bug : public std::logic_error { using std::logic_error::logic_error; };

// "a", 1, 2.5 -> "a12.5"
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace atoll

// Throws Bug: "outer/nesterov.cpp:14: d.size() == n does not hold: 2 deltas, 3 expected".  Extra arguments are joined.
#define ATOLL_CHECK(condition, ...)                                                                            \
  do {                                                                                                         \
    if (!(condition))                                                                                          \
      throw ::atoll::Bug(::atoll::text(__FILE__, ":", __LINE__, ": " #condition " does not hold: ", __VA_ARGS__)); \
  } while (false)
