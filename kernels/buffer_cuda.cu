#include "kernels/buffer_cuda.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

int cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // no driver, no card: not an error of the next call
  return 0;
}

float* allocate_cuda(std::size_t n, const Place& place) {
  const OnDevice on(place);
  float* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, n * sizeof(float));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw ConfigError(
        text("out of memory on cuda:", place.device, ": ", n * sizeof(float), " bytes for a buffer of ", n, " values"));
  }
  ATOLL_CUDA_CHECK(error);
  ATOLL_CUDA_CHECK(cudaMemsetAsync(data, 0, n * sizeof(float), stream_of(place)));
  ATOLL_CUDA_CHECK(cudaStreamSynchronize(stream_of(place)));
  return data;
}

void free_cuda(float* data, const Place&) noexcept { cudaFree(data); }

void copy_cuda(const void* from, const Place& from_place, void* to, const Place& to_place, std::size_t n) {
  if (!from_place.on_host() && !to_place.on_host()) {  // what was queued for `from` on its own stream comes first
    const OnDevice on(from_place);
    ATOLL_CUDA_CHECK(cudaStreamSynchronize(stream_of(from_place)));
  }
  const Place& place = to_place.on_host() ? from_place : to_place;
  const OnDevice on(place);
  ATOLL_CUDA_CHECK(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream_of(place)));
  ATOLL_CUDA_CHECK(cudaStreamSynchronize(stream_of(place)));
}

}  // namespace atl::kernels::detail
