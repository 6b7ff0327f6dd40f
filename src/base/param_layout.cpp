#include "base/param_layout.h"

#include <algorithm>
#include <unordered_set>

#include "base/bytes.h"
#include "base/error.h"

namespace atl {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "]";
}

}  // namespace

std::size_t ParamSpec::count() const {
  std::size_t product = 1;
  bool overflow = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      throw ConfigError(text("parameter ", name, " has shape ", shape_text(shape), ", but no extent may be negative"));
    overflow = __builtin_mul_overflow(product, static_cast<std::size_t>(extent), &product) || overflow;
  }
  // An extent of 0 anywhere makes the tensor empty, whatever the others are.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  if (overflow)
    throw ConfigError(text("parameter ", name, " has shape ", shape_text(shape), ": more values than 2^64"));
  return product;
}

ParamLayout::ParamLayout(std::vector<ParamSpec> specs) {
  std::unordered_set<std::string> names;
  entries_.reserve(specs.size());
  for (ParamSpec& spec : specs) {
    if (!names.insert(spec.name).second)
      throw ConfigError(text("two parameters are called ", spec.name, "; a name must be unique in a layout"));
    const Span span{.offset = size_, .count = spec.count()};
    size_ += span.count;
    entries_.push_back({.spec = std::move(spec), .span = span});
  }
}

const ParamLayout::Entry& ParamLayout::at(const std::string& name) const {
  const auto found =
      std::ranges::find(entries_, name, [](const Entry& e) -> const std::string& { return e.spec.name; });
  if (found == entries_.end())
    throw ConfigError(text("no parameter is called ", name, " in this layout of ", entries_.size(), " parameters"));
  return *found;
}

Hash128 ParamLayout::hash() const {
  ByteWriter out;
  out.u64(entries_.size());
  for (const Entry& entry : entries_) {
    out.string(entry.spec.name).u64(entry.spec.shape.size());
    for (const std::int64_t extent : entry.spec.shape) out.i64(extent);
  }
  return hash_bytes(out.view());
}

}  // namespace atl
