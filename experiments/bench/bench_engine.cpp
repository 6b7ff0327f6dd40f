// bench_engine: what the engine costs.  The same model and samples, once as the bare inner loop and once as a Site of
// one (delta, outer step, merge, exchange with itself), in turn; medians over repetitions. Last line: ratio=NUMBER,
// engine's speed over the bare loop's; the goal is 0.97.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "app/site.h"
#include "base/clock.h"
#include "base/random.h"
#include "comm/in_process.h"
#include "inner/transformer_inner.h"

using namespace atl;

namespace {

constexpr std::uint64_t kSteps = 120;  // a repetition; four rounds
constexpr int kRepetitions = 9;
constexpr std::size_t kSequences = 4;

Batch batch_at(std::uint64_t position, std::size_t count, std::size_t context, std::size_t vocabulary) {
  Batch batch{.sequences = count, .length = context, .tokens = {}, .first_position = position};
  for (std::size_t i = 0; i < count * (context + 1); ++i)
    batch.tokens.push_back(static_cast<std::int32_t>(random_words(1, 1, position * 100'000 + i)[0] % vocabulary));
  return batch;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  const ModelConfig model{.layers = 2, .width = 64, .heads = 4, .context = 64};
  const InnerConfig config{.total_steps = kSteps * (kRepetitions + 1) * 2};
  const ParamLayout layout(model_params(model));
  const auto samples = [&](std::uint64_t position, std::size_t count) {
    return batch_at(position % 256, count, model.context, model.vocabulary);
  };

  const auto bare = make_transformer(model, config, layout), inside = make_transformer(model, config, layout);
  const SiteSettings settings{.steps = config.total_steps,
                              .batch = kSequences,
                              .schedule = {.period = 30, .fragments = 1},
                              .fragments = {{0, layout.size()}},
                              .optimizer = {}};
  InProcessHub hub({.sites = 1, .slots = slots_of(settings, layout)});
  Site site(settings, *inside, hub.site(0), samples);

  std::uint64_t position = 0;
  const auto run_bare = [&] {
    const double start = steady_seconds();
    for (std::uint64_t t = 0; t < kSteps; ++t, position += kSequences) bare->step(samples(position, kSequences));
    return steady_seconds() - start;
  };
  const auto run_site = [&] {
    const double start = steady_seconds();
    for (std::uint64_t t = 0; t < kSteps; ++t) {
      site.step();
      site.collect();
    }
    return steady_seconds() - start;
  };

  run_bare();
  run_site();
  std::vector<double> bare_s, site_s, ratios;
  for (int r = 0; r < kRepetitions; ++r) {
    bare_s.push_back(run_bare());
    site_s.push_back(run_site());
    ratios.push_back(bare_s.back() / site_s.back());
  }
  const double tokens = static_cast<double>(kSteps * kSequences * model.context);
  std::printf("%zu parameters, %llu steps of %zu x %zu tokens, %d repetitions in turn, medians\n", layout.size(),
              static_cast<unsigned long long>(kSteps), kSequences, model.context, kRepetitions);
  std::printf("bare inner loop %.0f tokens/s\nengine, M = 1   %.0f tokens/s\n", tokens / median(bare_s),
              tokens / median(site_s));
  std::printf("ratio=%.3f\n", median(ratios));
}
