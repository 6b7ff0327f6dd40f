// What buffer.cpp needs of CUDA; its twins are buffer_cuda.cu and no_cuda.cpp.
#pragma once
#include <cstddef>

#include "kernels/place.h"

namespace atl::kernels::detail {

int cuda_devices();                                       // 0 without CUDA, without a driver, without a card
float* allocate_cuda(std::size_t n, const Place& place);  // zeroed on the stream and waited for; n > 0
void free_cuda(float* data, const Place& place) noexcept;
// At least one end is cuda; n > 0.
void copy_cuda(const void* from, const Place& from_place, void* to, const Place& to_place, std::size_t n);

}  // namespace atl::kernels::detail
