#include "base/error.h"
#include "inner/device_name.h"

namespace atl {

std::string device_name(int index) {
  throw Bug(
      text("the name of cuda:", index, " was asked for, but this binary was built without CUDA (ATOLL_CUDA=OFF)"));
}

}  // namespace atl
