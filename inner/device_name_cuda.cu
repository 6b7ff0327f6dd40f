#include <cuda_runtime_api.h>

#include "inner/device_name.h"

namespace atl {

std::string device_name(int index) {
  cudaDeviceProp found{};
  if (cudaGetDeviceProperties(&found, index) == cudaSuccess) return found.name;
  cudaGetLastError();  // a log line is no reason to stop, nor to leave an error for the next call
  return "";
}

}  // namespace atl
