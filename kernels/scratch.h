// For the .cu files only: n values on the device for the partial results of one call, taken from and given back to the
// stream's pool.
#pragma once
#include <vector>

#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

template <class T>
class Scratch {
 public:
  // Zero at first.  The place's device must be current.
  Scratch(std::size_t n, const Place& place) : n_(n), stream_(stream_of(place)) {
    ATOLL_CUDA_CHECK(cudaMallocAsync(&data_, n * sizeof(T), stream_));
    ATOLL_CUDA_CHECK(cudaMemsetAsync(data_, 0, n * sizeof(T), stream_));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { cudaFreeAsync(data_, stream_); }

  T* data() { return data_; }
  // Waits for the stream.
  std::vector<T> to_host() const {
    std::vector<T> host(n_);
    ATOLL_CUDA_CHECK(cudaMemcpyAsync(host.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost, stream_));
    ATOLL_CUDA_CHECK(cudaStreamSynchronize(stream_));
    return host;
  }

 private:
  std::size_t n_;
  cudaStream_t stream_;
  T* data_ = nullptr;
};

}  // namespace atl::kernels::detail
