#include "app/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "support/temp_dir.h"

using namespace atl;

namespace {

const ParamLayout kLayout({{.name = "embedding.weight", .shape = {2, 3}},
                           {.name = "b", .shape = {2}},
                           {.name = "e", .shape = {0, 3}},
                           {.name = "s", .shape = {}}});
const std::vector<float> kValues{1, 2, 3, 4, 5, 6, 0.5F, -0.25F, 7};

// safetensors 0.8.0 for Python, numpy 2.4.6:
//   save_file({"embedding.weight": [[1,2,3],[4,5,6]], "b": [0.5,-0.25], "e": zeros((0,3)), "s": 7}, metadata={"format":
//   "pt"})
const std::string kPythonHeader =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]},)"
    R"("embedding.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},)"
    R"("s":{"dtype":"F32","shape":[],"data_offsets":[32,36]}}       )";
const std::vector<float> kPythonData{0.5F, -0.25F, 1, 2, 3, 4, 5, 6, 7};

std::string length_of(std::uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i) & 0xffU);
  return out;
}
std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string file_of(const std::string& header, const std::vector<float>& data) {
  return length_of(header.size()) + header + bytes_of(data);
}

std::string complaint(const std::filesystem::path& file, const ParamLayout& layout = kLayout) {
  std::vector<float> out(layout.size(), -1);
  try {
    read_safetensors(file, layout, out);
  } catch (const ConfigError& e) {
    CHECK(out == std::vector<float>(layout.size(), -1));  // untouched
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("safetensors: the bytes are those of the format") {
  const TempDir dir;
  write_safetensors(dir / "m", kLayout, kValues, {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"embedding.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[24,32]},"e":{"dtype":"F32","shape":[0,3],"data_offsets":[32,32]},)"
      R"("s":{"dtype":"F32","shape":[],"data_offsets":[32,36]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(slurp(dir / "m") == file_of(padded, kValues));
}

TEST_CASE("safetensors: a file of the Python package is read, by name, whatever the order") {
  const TempDir dir;
  spill(dir / "m", file_of(kPythonHeader, kPythonData));
  CHECK(slurp(dir / "m").size() == 316);  // as the package wrote it
  std::vector<float> out(kLayout.size());
  CHECK(read_safetensors(dir / "m", kLayout, out) == Metadata{{"format", "pt"}});
  CHECK(out == kValues);
}

TEST_CASE("safetensors: what was written reads back bit for bit") {
  const TempDir dir;
  std::vector<float> odd = kValues;
  odd[0] = -0.0F;
  odd[1] = std::numeric_limits<float>::denorm_min();
  odd[2] = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(dir / "m", kLayout, odd);
  std::vector<float> out(kLayout.size());
  CHECK(read_safetensors(dir / "m", kLayout, out).empty());
  CHECK(std::memcmp(out.data(), odd.data(), odd.size() * sizeof(float)) == 0);

  const ParamLayout nothing;
  write_safetensors(dir / "n", nothing, {});
  CHECK(complaint(dir / "n", nothing) == "");
}

TEST_CASE("safetensors: another model is refused with every tensor that differs") {
  const TempDir dir;
  write_safetensors(dir / "m", kLayout, kValues);
  const ParamLayout other(
      {{.name = "embedding.weight", .shape = {3, 2}}, {.name = "c", .shape = {2}}, {.name = "e", .shape = {0, 3}}});
  CHECK(complaint(dir / "m", other) == (dir / "m").string() +
                                           ": holds another model:\n"
                                           "  embedding.weight is [2, 3] in the file, but [3, 2] in the model\n"
                                           "  c [2] is not in the file\n"
                                           "  b [2] is in the file only\n"
                                           "  s [] is in the file only");
}

TEST_CASE("safetensors: a file cut short anywhere, or with a claim that cannot be, is refused") {
  const TempDir dir;
  const std::string whole = file_of(kPythonHeader, kPythonData);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    spill(dir / "m", whole.substr(0, n));
    CHECK(complaint(dir / "m") != "");
  }
  const auto refused = [&](const std::string& tensor, const std::string& why) {
    spill(dir / "m", file_of("{\"w\":" + tensor + "}", kPythonData));
    CAPTURE(tensor);
    CHECK(complaint(dir / "m").find(why) != std::string::npos);
  };
  refused(R"({"dtype":"BF16","shape":[2],"data_offsets":[0,4]})", R"(tensor w is "BF16", but only F32)");
  refused(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", "tensor w has 4 bytes, but its shape needs 8");
  refused(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "claims bytes 8 to 0 of 36");
  refused(R"({"dtype":"F32","shape":[2],"data_offsets":[32,40]})", "claims bytes 32 to 40 of 36");
  refused(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "-2 is no whole number");
  refused(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", "is larger than the file");
  refused(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", "tensor w has no shape");
  refused(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "has 1 data_offsets");
  refused("3", "tensor w has no dtype");
  spill(dir / "m", length_of(1ULL << 60U) + "{}");
  CHECK(complaint(dir / "m").find("its header claims 1152921504606846976 bytes, but 2 are there") != std::string::npos);
  spill(dir / "m", file_of("[]", {}));
  CHECK(complaint(dir / "m").find("its header is no JSON object") != std::string::npos);
}
