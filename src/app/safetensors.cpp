#include "app/safetensors.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"

namespace atl {

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

using Json = nlohmann::ordered_json;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadata = "__metadata__";

std::string header_of(const ParamLayout& layout, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const ParamLayout::Entry& e : layout.entries())
    header[e.spec.name] = {{"dtype", "F32"},
                           {"shape", e.spec.shape},
                           {"data_offsets", {e.span.offset * sizeof(float), e.span.end() * sizeof(float)}}};
  std::string out = header.dump();
  out.append((8 - out.size() % 8) % 8, ' ');
  return out;
}

// A tensor as a file claims it; every claim was checked against the file's size.
struct Claim {
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;  // bytes, in the data
};

// The file in memory and what its header says.
class File {
 public:
  explicit File(const std::filesystem::path& path)
      : name_(path.string()), bytes_(read_file(path, std::size_t{1} << 46U)) {
    ByteReader in(bytes_, ByteSource::file(name_));
    const std::uint64_t length = in.u64("length of the header");
    if (length > kLongestHeader || length > in.remaining())
      fail(text("its header claims ", length, " bytes, but ", in.remaining(), " are there: is it a safetensors file?"));
    const auto raw = in.bytes("header", length);
    const Json header =
        Json::parse(std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()), nullptr, false);
    if (!header.is_object()) fail("its header is no JSON object");
    data_ = in.bytes("data", in.remaining());
    for (const auto& [key, value] : header.items()) {
      if (key == kMetadata)
        read_metadata(value);
      else
        claims_.emplace(key, claim(key, value));
    }
  }

  const Metadata& metadata() const { return metadata_; }
  const std::map<std::string, Claim>& claims() const { return claims_; }
  void copy(const Claim& claim, std::span<float> out) const {
    if (!out.empty()) std::memcpy(out.data(), data_.data() + claim.begin, out.size_bytes());
  }
  [[noreturn]] void fail(const std::string& what) const { throw ConfigError(name_ + ": " + what); }

 private:
  void read_metadata(const Json& json) {
    if (!json.is_object()) fail("__metadata__ is no JSON object");
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) fail(text("__metadata__ ", key, " is no text"));
      metadata_[key] = value.get<std::string>();
    }
  }

  std::uint64_t unsigned_at(const std::string& tensor, const Json& json) const {
    if (!json.is_number_unsigned()) fail(text("tensor ", tensor, ": ", json.dump(), " is no whole number, 0 or above"));
    return json.get<std::uint64_t>();
  }

  Claim claim(const std::string& tensor, const Json& json) const {
    const auto part = [&](const char* key, bool array) {
      if (!json.is_object() || !json.contains(key) || json[key].is_array() != array)
        fail(text("tensor ", tensor, " has no ", key));
      return json[key];
    };
    if (const Json dtype = part("dtype", false); dtype != "F32")
      fail(text("tensor ", tensor, " is ", dtype.dump(), ", but only F32 can be read"));
    Claim out;
    std::uint64_t values = 1;
    for (const Json& extent : part("shape", true)) {
      const std::uint64_t n = unsigned_at(tensor, extent);
      if (n > 0 && values > data_.size() / n) fail(text("tensor ", tensor, " is larger than the file"));
      values *= n;
      out.shape.push_back(static_cast<std::int64_t>(n));
    }
    const Json offsets = part("data_offsets", true);
    if (offsets.size() != 2) fail(text("tensor ", tensor, " has ", offsets.size(), " data_offsets, but it must be 2"));
    const std::uint64_t begin = unsigned_at(tensor, offsets[0]), end = unsigned_at(tensor, offsets[1]);
    if (begin > end || end > data_.size())
      fail(text("tensor ", tensor, " claims bytes ", begin, " to ", end, " of ", data_.size(),
                ": was the file cut short?"));
    if (end - begin != values * sizeof(float))
      fail(text("tensor ", tensor, " has ", end - begin, " bytes, but its shape needs ", values * sizeof(float)));
    out.begin = begin;
    return out;
  }

  std::string name_;
  std::vector<std::byte> bytes_;
  std::span<const std::byte> data_;
  Metadata metadata_;
  std::map<std::string, Claim> claims_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t n : shape) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

// Every tensor in which the file and the layout differ, one a line; "" when there is none.
std::string differences(const File& file, const ParamLayout& layout) {
  std::string out;
  std::map<std::string, Claim> additional = file.claims();
  for (const ParamLayout::Entry& e : layout.entries()) {
    const auto found = additional.find(e.spec.name);
    if (found == additional.end()) {
      out += text("\n  ", e.spec.name, " ", shape_text(e.spec.shape), " is not in the file");
      continue;
    }
    if (found->second.shape != e.spec.shape)
      out += text("\n  ", e.spec.name, " is ", shape_text(found->second.shape), " in the file, but ",
                  shape_text(e.spec.shape), " in the model");
    additional.erase(found);
  }
  for (const auto& [name, claim] : additional)
    out += text("\n  ", name, " ", shape_text(claim.shape), " is in the file only");
  return out;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const ParamLayout& layout, std::span<const float> values,
                       const Metadata& metadata) {
  ATOLL_CHECK(values.size() == layout.size(), values.size(), " values, ", layout.size(), " expected");
  const std::string header = header_of(layout, metadata);
  ByteWriter out;
  out.u64(header.size()).bytes(std::as_bytes(std::span(header))).bytes(std::as_bytes(values));
  write_atomically(path, out.view());
}

Metadata read_safetensors(const std::filesystem::path& path, const ParamLayout& layout, std::span<float> out) {
  ATOLL_CHECK(out.size() == layout.size(), out.size(), " values, ", layout.size(), " expected");
  const File file(path);
  if (const std::string wrong = differences(file, layout); !wrong.empty()) file.fail("holds another model:" + wrong);
  for (const ParamLayout::Entry& e : layout.entries()) file.copy(file.claims().at(e.spec.name), slice(out, e.span));
  return file.metadata();
}

}  // namespace atl
