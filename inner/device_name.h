// The name of a GPU, for logs.  libtorch gives it only to those who include CUDA.
#pragma once
#include <string>

namespace atl {

// "NVIDIA H200"; "" when the driver does not say.  Throws Bug in a build without CUDA.
std::string device_name(int index);

}  // namespace atl
