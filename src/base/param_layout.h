// ParamLayout: where each parameter tensor lives in the one flat fp32 vector that a model is outside the inner loop.
//
// Tied parameters appear once, frozen ones not at all, empty tensors are legal.  Tensors lie back to back in the
// order given, without padding.  Every site must have the same layout: hash() goes into the first message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"

namespace atl {

// A contiguous part of the flat vector, in values (not bytes).
struct Span {
  std::size_t offset = 0;
  std::size_t count = 0;
  std::size_t end() const { return offset + count; }
  bool operator==(const Span&) const = default;
};

// A tensor before it has a place.  `layer` is what fragments are made from: a block's number, or one of the two below.
struct ParamSpec {
  static constexpr int kEmbedding = -1;
  static constexpr int kHead = -2;  // output projection and everything after the last block
  std::string name;
  std::vector<std::int64_t> shape;
  int layer = 0;
  std::size_t count() const;  // product of the shape; 1 for a scalar; throws ConfigError for a negative extent
};

class ParamLayout {
 public:
  struct Entry {
    ParamSpec spec;
    Span span;
  };

  ParamLayout() = default;
  // Places `specs` in this order.  Throws ConfigError if two have one name.
  explicit ParamLayout(std::vector<ParamSpec> specs);

  std::size_t size() const { return size_; }  // values in the flat vector
  const std::vector<Entry>& entries() const { return entries_; }
  const Entry& at(const std::string& name) const;  // throws ConfigError for an unknown name, naming it
  Hash128 hash() const;                            // names, shapes, order; not values

 private:
  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

template <class T>
std::span<T> slice(std::span<T> flat, Span s) {
  return flat.subspan(s.offset, s.count);
}

}  // namespace atl
