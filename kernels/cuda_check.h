// For the .cu files only: errors of CUDA as exceptions, the current device, launch sizes.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>

#include "base/error.h"
#include "kernels/place.h"

// Throws Bug: "kernels/delta_cuda.cu:20: cudaGetLastError(): invalid argument".
#define ATOLL_CUDA_CHECK(call)                                                                                       \
  do {                                                                                                               \
    const cudaError_t atoll_cuda_error = (call);                                                                     \
    if (atoll_cuda_error != cudaSuccess)                                                                             \
      throw ::atl::Bug(::atl::text(__FILE__, ":", __LINE__, ": " #call ": ", cudaGetErrorString(atoll_cuda_error))); \
  } while (false)

namespace atl::kernels::detail {

constexpr unsigned kThreads = 256;  // a block, for all elementwise kernels

inline unsigned blocks_for(std::size_t n) { return static_cast<unsigned>((n + kThreads - 1) / kThreads); }
inline cudaStream_t stream_of(const Place& place) { return static_cast<cudaStream_t>(place.stream); }

// Makes the place's device current while it lives: a stream, the null stream above all, belongs to one device.
class OnDevice {
 public:
  explicit OnDevice(const Place& place) {
    ATOLL_CUDA_CHECK(cudaGetDevice(&before_));
    if (before_ != place.device) ATOLL_CUDA_CHECK(cudaSetDevice(place.device));
    changed_ = before_ != place.device;
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace atl::kernels::detail

// The element of this thread in an elementwise kernel; threads at or past n return at once.
#define ATOLL_CUDA_INDEX(i, n)                                              \
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; \
  if (i >= (n)) return
