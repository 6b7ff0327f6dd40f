#include "kernels/buffer.h"

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "kernels/buffer_cuda.h"

namespace atl {

namespace {

constexpr std::align_val_t kAlignment{64};

float* allocate_host(std::size_t n) {
  try {
    void* memory = ::operator new(n * sizeof(float), kAlignment);
    std::memset(memory, 0, n * sizeof(float));
    return static_cast<float*>(memory);
  } catch (const std::bad_alloc&) {
    throw ConfigError(text("out of memory: ", n * sizeof(float), " bytes for a buffer of ", n, " values"));
  }
}

}  // namespace

Buffer::Buffer(std::size_t n, Place place) : n_(n), place_(place) {
  ATOLL_CHECK(n <= std::numeric_limits<std::size_t>::max() / sizeof(float), n, " values");
  if (n == 0) return;
  switch (place.kind) {
    case Place::Kind::host:
      data_ = allocate_host(n);
      break;
    case Place::Kind::cuda:
      data_ = kernels::detail::allocate_cuda(n, place);
      break;
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_(std::exchange(other.n_, 0)), place_(other.place_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));  // so that `other` is empty after it, and moving to itself changes nothing
  std::swap(data_, taken.data_);
  std::swap(n_, taken.n_);
  std::swap(place_, taken.place_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  switch (place_.kind) {
    case Place::Kind::host:
      ::operator delete(data_, kAlignment);
      break;
    case Place::Kind::cuda:
      kernels::detail::free_cuda(data_, place_);
      break;
  }
}

void copy(std::span<const float> from, Place from_place, std::span<float> to, Place to_place) {
  copy_bytes(std::as_bytes(from), from_place, std::as_writable_bytes(to), to_place);
}

void copy_bytes(std::span<const std::byte> from, Place from_place, std::span<std::byte> to, Place to_place) {
  ATOLL_CHECK(from.size() == to.size(), "from ", from.size(), " bytes, to ", to.size(), " bytes");
  if (from.empty()) return;
  if (from_place.on_host() && to_place.on_host()) {
    std::memcpy(to.data(), from.data(), from.size());
  } else {
    kernels::detail::copy_cuda(from.data(), from_place, to.data(), to_place, from.size());
  }
}

bool cuda_available() { return kernels::detail::cuda_devices() > 0; }

}  // namespace atl
