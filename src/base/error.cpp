#include "base/error.h"

namespace atl {

void fail(Blame blame, const std::string& message) {
  switch (blame) {
    case Blame::user:
      throw ConfigError(message);
    case Blame::link:
      throw LinkError(message);
  }
  throw Bug(message);
}

}  // namespace atl
