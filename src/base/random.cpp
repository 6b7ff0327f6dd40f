#include "base/random.h"

#include <bit>
#include <cmath>

#include "base/error.h"

namespace atl {

namespace {

constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

// ln(x) for a normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
// 0.1716. The series stops after s^21/21: the next term is below 2e-19.
double natural_log(double x) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
  constexpr double kLn2 = 0.693147180559945309417;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52U) - 1023;
  auto m = std::bit_cast<double>((bits & kMantissa) | std::uint64_t{1023} << 52U);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return exponent * kLn2 + 2 * s * series;
}

double polynomial(const std::array<double, 8>& c, double x) {
  double value = 0;
  for (std::size_t i = c.size(); i-- > 0;) value = value * x + c[i];
  return value;
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = kMultiplier0 * counter[0], p1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

PhiloxCounter random_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  return philox({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32U),
                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32U)},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
}

float uniform_float(std::uint32_t word) { return static_cast<float>(word >> 8U) * 0x1p-24F; }

double uniform_double(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 32U | low) >> 11U) * 0x1p-53;
}

double uniform_open(std::uint32_t high, std::uint32_t low) {
  return (static_cast<double>((std::uint64_t{high} << 32U | low) >> 12U) + 0.5) * 0x1p-52;
}

double normal_quantile(double p) {
  ATOLL_CHECK(p > 0 && p < 1, "p is ", p);
  static constexpr std::array<double, 8> a{3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                           1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                           3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr std::array<double, 8> b{1.0,
                                           4.2313330701600911252e1,
                                           6.8718700749205790830e2,
                                           5.3941960214247511077e3,
                                           2.1213794301586595867e4,
                                           3.9307895800092710610e4,
                                           2.8729085735721942674e4,
                                           5.2264952788528545610e3};
  static constexpr std::array<double, 8> c{
      1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array<double, 8> d{1.0,
                                           2.05319162663775882187e0,
                                           1.67638483018380384940e0,
                                           6.89767334985100004550e-1,
                                           1.48103976427480074590e-1,
                                           1.51986665636164571966e-2,
                                           5.47593808499534494600e-4,
                                           1.05075007164441684324e-9};
  static constexpr std::array<double, 8> e{
      6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array<double, 8> f{1.0,
                                           5.99832206555887937690e-1,
                                           1.36929880922735805310e-1,
                                           1.48753612908506148525e-2,
                                           7.86869131145613259100e-4,
                                           1.84631831751005468180e-5,
                                           1.42151175831644588870e-7,
                                           2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
  }
  const double r = std::sqrt(-natural_log(q < 0 ? p : 1 - p));
  const double tail =
      r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6) : polynomial(e, r - 5) / polynomial(f, r - 5);
  return q < 0 ? -tail : tail;
}

std::array<double, 2> normal_pair(std::uint64_t seed, std::uint64_t stream, std::uint64_t position) {
  const PhiloxCounter words = random_words(seed, stream, position);
  return {normal_quantile(uniform_open(words[0], words[1])), normal_quantile(uniform_open(words[2], words[3]))};
}

}  // namespace atl
