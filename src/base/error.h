// The three kinds of error.  main() turns them into exit codes: ConfigError 2, LinkError 3, Bug 70.
//
// A message says what was found, what was expected, where, and what to do; with numbers.
// All code of atoll is in namespace atl: `atoll` is a function of the C library (<stdlib.h>), so no namespace can be
// called so.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace atl {

// The user can fix it: a setting, a file, a folder, a learning rate that made the loss infinite.
class ConfigError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A site or a link failed.  The round may be tried again; nothing of it was applied.
class LinkError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
// We were wrong.
class Bug : public std::logic_error {
  using std::logic_error::logic_error;
};

// "a", 1, 2.5 -> "a12.5"
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Whom a failure belongs to, for code that serves both files of the user and links: user -> ConfigError, link ->
// LinkError.
enum class Blame { user, link };
[[noreturn]] void fail(Blame blame, const std::string& message);

}  // namespace atl

// Throws Bug: "outer/nesterov.cpp:14: d.size() == n does not hold: 2 deltas, 3 expected".  Extra arguments are joined.
#define ATOLL_CHECK(condition, ...)                                                                            \
  do {                                                                                                         \
    if (!(condition))                                                                                          \
      throw ::atl::Bug(::atl::text(__FILE__, ":", __LINE__, ": " #condition " does not hold: ", __VA_ARGS__)); \
  } while (false)
