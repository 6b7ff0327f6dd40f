// Test values with fixed seeds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace atl {

inline std::vector<float> normal_values(std::size_t n, std::uint32_t seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

// Nothing, one, and around the widths of vectors, warps, CUDA blocks and the kernels' own blocks.
constexpr std::initializer_list<std::size_t> kSizes{0,   1,    15,   16,   17,   31,   32,   33,   255,    256,
                                                    257, 1023, 1024, 1025, 4095, 4096, 4097, 8193, 100'003};

}  // namespace atl
