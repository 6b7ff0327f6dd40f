#include "kernels/accumulate.h"
#include "kernels/bf16.h"
#include "kernels/cuda_check.h"

namespace atl::kernels::detail {

namespace {

template <class T>
struct Inputs {
  const T* x[kMaxCudaInputs];
  double w[kMaxCudaInputs];
  unsigned count;
};

__device__ double value_of(float x) { return x; }
__device__ double value_of(std::uint16_t x) { return __uint_as_float(fp32_bits(x)); }

template <class T>
__global__ void mean_kernel(const __grid_constant__ Inputs<T> in, double total, float* out, std::size_t n) {
  ATOLL_CUDA_INDEX(i, n);
  double sum = in.w[0] * value_of(in.x[0][i]);
  for (unsigned r = 1; r < in.count; ++r) sum += in.w[r] * value_of(in.x[r][i]);
  out[i] = static_cast<float>(sum / total);
}

template <class T>
void launch(const T* const* inputs, const double* weights, std::size_t m, double total, float* out, std::size_t n,
            const Place& place) {
  ATOLL_CHECK(m <= kMaxCudaInputs, m, " inputs");
  if (n == 0) return;  // a launch of zero blocks is an error
  Inputs<T> in{};
  in.count = static_cast<unsigned>(m);
  for (std::size_t r = 0; r < m; ++r) {
    in.x[r] = inputs[r];
    in.w[r] = weights[r];
  }
  const OnDevice on(place);
  mean_kernel<<<blocks_for(n), kThreads, 0, stream_of(place)>>>(in, total, out, n);
  ATOLL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void weighted_mean_cuda(const float* const* inputs, const double* weights, std::size_t m, double total, float* out,
                        std::size_t n, const Place& place) {
  launch(inputs, weights, m, total, out, n, place);
}

void weighted_mean_cuda(const std::uint16_t* const* inputs, const double* weights, std::size_t m, double total,
                        float* out, std::size_t n, const Place& place) {
  launch(inputs, weights, m, total, out, n, place);
}

}  // namespace atl::kernels::detail
