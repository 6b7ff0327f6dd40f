// Buffer: n floats at a place, zero at first, freed with the object.  64-byte aligned.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/place.h"

namespace atl {

class Buffer {
 public:
  Buffer() = default;
  Buffer(std::size_t n, Place place);  // throws Bug for cuda in a build without it, ConfigError when memory is out
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::span<float> values() { return {data_, n_}; }  // at place(): not to be read on the host when that is cuda
  std::span<const float> values() const { return {data_, n_}; }
  Place place() const { return place_; }

 private:
  float* data_ = nullptr;
  std::size_t n_ = 0;
  Place place_;
};

// Copies between places; [n] each, not overlapping.  A cuda end: queued on its stream and waited for.
void copy(std::span<const float> from, Place from_place, std::span<float> to, Place to_place);

// The same for values of any type: [bytes] each.
void copy_bytes(std::span<const std::byte> from, Place from_place, std::span<std::byte> to, Place to_place);

// True when this binary has the CUDA kernels and a device answers.
bool cuda_available();

}  // namespace atl
