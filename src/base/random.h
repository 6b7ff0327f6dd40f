// Random numbers as a pure function of (key, counter): the same on every machine, in any order, with no state to save.
//
// Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.  The helpers use only integer
// operations and + - * / sqrt, so that no site's libm can make its numbers differ.
#pragma once
#include <array>
#include <cstdint>

namespace atl {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Four independent uniform 32-bit words.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

// The same with a seed as key, a position, and a stream: a number for each use ("initial weights", "permutation" ...),
// so that two uses of one seed share no numbers.
PhiloxCounter random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t position);

// [0, 1) in steps of 2^-24, from the top bits of a word.
float uniform_float(std::uint32_t word);
// [0, 1) in steps of 2^-53, from the top bits of two words.
double uniform_double(std::uint32_t high, std::uint32_t low);
// (0, 1): the middles of 2^52 equal steps, so never 0 nor 1, symmetric about 1/2.
double uniform_open(std::uint32_t high, std::uint32_t low);

// The quantile of the standard normal distribution, 0 < p < 1, to about 1e-15 (Wichura, Algorithm AS 241, PPND16).
// normal_quantile(uniform_open(...)) is a normal number: one position gives two.  Throws Bug for p outside (0, 1).
double normal_quantile(double p);

// Two independent standard normal numbers.
std::array<double, 2> normal_pair(std::uint64_t seed, std::uint64_t stream, std::uint64_t position);

}  // namespace atl
