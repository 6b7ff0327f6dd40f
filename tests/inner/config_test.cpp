#include "inner/config.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "fixtures.h"

using namespace atl;

TEST_CASE("learning rate: warm-up is linear and ends at the peak; cosine ends at its fraction") {
  const InnerConfig c{
      .lr = 1.0, .schedule = LrSchedule::cosine, .warmup_steps = 10, .final_lr_fraction = 0.1, .total_steps = 110};
  CHECK(learning_rate(c, 1) == 0.1);
  CHECK(learning_rate(c, 10) == 1.0);
  CHECK(std::abs(learning_rate(c, 60) - 0.55) < 1e-12);  // half way: the middle of 1 and 0.1
  CHECK(std::abs(learning_rate(c, 35) - (0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)))) < 1e-12);  // a quarter: cos(pi / 4)
  CHECK(std::abs(learning_rate(c, 110) - 0.1) < 1e-12);
  CHECK(learning_rate(c, 500) == learning_rate(c, 110));
}

TEST_CASE("learning rate: constant, and warm-up, stable, decay") {
  InnerConfig c{.lr = 2.0, .schedule = LrSchedule::constant, .total_steps = 100};
  for (const std::uint64_t t : {1U, 50U, 100U}) CHECK(learning_rate(c, t) == 2.0);
  c.schedule = LrSchedule::wsd;
  c.warmup_steps = 4;
  c.wsd_decay_fraction = 0.2;
  c.final_lr_fraction = 0.5;
  CHECK(learning_rate(c, 2) == 1.0);
  CHECK(learning_rate(c, 80) == 2.0);
  CHECK(std::abs(learning_rate(c, 90) - 1.5) < 1e-12);  // half of the way from 2 to 1
  CHECK(std::abs(learning_rate(c, 100) - 1.0) < 1e-12);
}

TEST_CASE("learning rate: every step has torch.optim.lr_scheduler's, and a second peak the same in proportion") {
  const Fixtures want = read_fixtures("learning_rate.txt");
  for (const auto& [name, schedule] :
       {std::pair{"cosine", LrSchedule::cosine}, {"constant", LrSchedule::constant}, {"wsd", LrSchedule::wsd}}) {
    const InnerConfig c{.lr = 0.004,
                        .schedule = schedule,
                        .warmup_steps = 5,
                        .final_lr_fraction = 0.05,
                        .wsd_decay_fraction = 0.25,
                        .total_steps = 40};
    for (std::uint64_t t = 1; t <= 43; ++t) {
      CAPTURE(name);
      CAPTURE(t);
      // PyTorch computes each from the one before: 40 roundings of 2^-53, a few operations each, of 0.004
      CHECK(std::abs(learning_rate(c, t) - want.at(name).at(t - 1)) < 40 * 4 * std::ldexp(0.004, -53));
      CHECK(std::abs(learning_rate(c, 0.02, t) - 5 * learning_rate(c, t)) < std::ldexp(0.02, -50));
    }
  }
}

TEST_CASE("model: the tensors, their layers, and the number of parameters") {
  const auto specs = model_params({.layers = 2, .width = 64, .heads = 4, .context = 64, .vocabulary = 256});
  std::size_t n = 0;
  for (const ParamSpec& spec : specs) n += spec.count();
  // embedding and head 2 * 256 * 64; a layer: 3 * 64 * 64 + 64 * 64, 3 * 64 * 176, norms 2 * 64 + 2 * 16; final norm 64
  CHECK(n == 2 * 256 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 176 + 160) + 64);
  CHECK(specs.front().layer == ParamSpec::kEmbedding);
  CHECK(specs.back().layer == ParamSpec::kHead);
  for (const ParamSpec& spec : model_params({.layers = 1, .width = 8, .heads = 2, .tied = true}))
    CHECK(spec.layer != ParamSpec::kHead);
}

TEST_CASE("model: shapes that cannot be are named with the settings") {
  CHECK_THROWS_WITH_AS(resolved({.width = 10, .heads = 4}),
                       doctest::Contains("model.width = 10, but it must be a multiple of model.heads (4)"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(resolved({.width = 12, .heads = 4}), doctest::Contains("it must be even"), ConfigError);
  CHECK_THROWS_WITH_AS(resolved({.width = 64, .heads = 4, .kv_heads = 3}),
                       doctest::Contains("model.heads = 4, but it must be a multiple of model.kv_heads (3)"),
                       ConfigError);
}
