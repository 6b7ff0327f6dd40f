// bench_codecs: encode and decode of 64 MB of floats with each codec against memcpy of the same floats, on one core, in
// turn; medians.  Goals, of memcpy's speed: 1/2 for those of fixed steps, 1/8 for codebooks and topk.
// Last line: ratio=NUMBER, the worst codec's speed over its goal.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "comm/codec.h"

using namespace atl;

namespace {

constexpr std::size_t kValues = std::size_t{16} << 20U;
constexpr int kRepetitions = 9;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <class What>
double seconds_of(What what) {
  const double start = steady_seconds();
  what();
  return steady_seconds() - start;
}

}  // namespace

int main() {
  std::vector<float> values(kValues), copy(kValues), back(kValues);
  for (std::size_t i = 0; i < kValues; i += 2) {
    const auto pair = normal_pair(1, 1, i / 2);
    values[i] = static_cast<float>(1e-3 * pair[0]);
    values[i + 1] = static_cast<float>(1e-3 * pair[1]);
  }
  double worst = 1e9;
  std::printf("%-14s %10s %14s %14s %8s\n", "codec", "bits", "encode", "decode", "goal");
  std::printf("%-14s %10s %14s %14s %8s\n", "", "a value", "of memcpy", "of memcpy", "");
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name);
    std::vector<std::byte> bytes(codec->encoded_bytes(kValues));
    std::vector<double> copying, encoding, decoding;
    for (int r = 0; r <= kRepetitions; ++r) {
      const double c = seconds_of([&] { std::memcpy(copy.data(), values.data(), kValues * sizeof(float)); });
      const double e = seconds_of([&] { codec->encode(values, {}, bytes); });
      const double d = seconds_of([&] { codec->decode(bytes, back); });
      if (r == 0) continue;  // the first touches the memory
      copying.push_back(c);
      encoding.push_back(e);
      decoding.push_back(d);
    }
    const bool statistical = name == "int8_codebook" || name == "stat4" || name == "stat2" || name == "topk";
    const double goal = statistical ? 0.125 : 0.5, c = median(copying);
    const double encode = c / median(encoding), decode = c / median(decoding);
    std::printf("%-14s %10.3f %14.3f %14.3f %8.3f\n", name.c_str(),
                8.0 * static_cast<double>(bytes.size()) / static_cast<double>(kValues), encode, decode, goal);
    std::fflush(stdout);
    if (name != "fp32") worst = std::min({worst, encode / goal, decode / goal});
  }
  std::printf("ratio=%.3f\n", worst);
}
