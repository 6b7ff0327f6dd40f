// bench_codecs: every codec's encode and decode of 64 MB of floats on one core, against memcpy of the same 64 MB, in
// turn, medians.  Speeds are of float bytes.
//
// Last line: ratio=NUMBER, the smallest of (speed / memcpy's) / goal; 1 or more is the goal.  Goals: 1/2 for the dense
// codecs, 1/8 for those with a codebook.
//   bench_codecs [REPETITIONS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/clock.h"
#include "comm/codec.h"

using namespace atl;

namespace {

constexpr std::size_t kValues = std::size_t{16} << 20U;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

template <class F>
double seconds(F f) {
  const double start = steady_seconds();
  f();
  return steady_seconds() - start;
}

struct Measured {
  std::unique_ptr<Codec> codec;
  double goal;
  std::vector<std::byte> bytes;
  std::vector<double> encode, decode;
};

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 7;
  std::vector<float> values(kValues), out(kValues, 1.0F);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 1e-3F);
  for (float& x : values) x = normal(random);
  std::vector<Measured> all;
  for (const std::string& name : codec_names()) {
    const bool table = name == "int8_codebook" || name == "stat4" || name == "stat2" || name == "topk";
    auto codec = make_codec(name);
    std::vector<std::byte> bytes(codec->encoded_bytes(kValues));
    all.push_back({std::move(codec), table ? 0.125 : 0.5, std::move(bytes), {}, {}});
  }
  std::vector<double> copies;
  for (int r = 0; r <= repetitions; ++r)
    for (Measured& m : all) {
      const double copied = seconds([&] { std::memcpy(out.data(), values.data(), kValues * sizeof(float)); });
      const double encoded = seconds([&] { m.codec->encode(values, {}, m.bytes); });
      const double decoded = seconds([&] { m.codec->decode(m.bytes, out); });
      if (r == 0) continue;  // first touch
      copies.push_back(copied);
      m.encode.push_back(encoded);
      m.decode.push_back(decoded);
    }
  const double copy = median(copies), gigabytes = kValues * sizeof(float) * 1e-9;
  std::printf("memcpy %.2f GB/s, medians of %d\n", gigabytes / copy, repetitions);
  std::printf("%-14s %10s %12s %12s %8s %8s\n", "codec", "bits", "encode GB/s", "decode GB/s", "goal", "ratio");
  double worst = 1e9;
  for (const Measured& m : all) {
    const double encode = median(m.encode), decode = median(m.decode);
    const double ratio = copy / std::max(encode, decode) / m.goal;
    worst = std::min(worst, ratio);
    std::printf("%-14s %10.3f %12.2f %12.2f %8.3f %8.2f\n", std::string(m.codec->name()).c_str(),
                8.0 * static_cast<double>(m.bytes.size()) / kValues, gigabytes / encode, gigabytes / decode, m.goal,
                ratio);
  }
  std::printf("ratio=%.3f\n", worst);
}
