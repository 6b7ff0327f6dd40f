// A model of one's own in atoll's engine: one number w with loss (w - goal)^2, another goal at each of two sites.
// DiLoCo takes both to the mean of the goals.
#include <cmath>
#include <cstdio>
#include <vector>

#include "app/site.h"
#include "comm/in_process.h"
#include "inner/inner.h"

namespace {

class OneNumber : public atl::Inner {
 public:
  explicit OneNumber(float goal) : goal_(goal) {}
  const atl::ParamLayout& layout() const override { return layout_; }
  atl::Place place() const override { return {}; }
  std::span<float> local() override { return w_; }
  std::span<float> gradients() override { return gradient_; }
  double compute_gradients(const atl::Batch&, const GradientReady& ready) override {
    gradient_[0] = 2 * (w_[0] - goal_);
    if (ready) ready({0, 1});
    return std::pow(w_[0] - goal_, 2);
  }
  atl::StepReport update() override {
    ++steps_;
    w_[0] -= 0.1F * gradient_[0];
    return {.loss = 0, .gradient_norm = 0, .lr = 0.1};
  }
  double evaluate(std::span<const float> w, const std::vector<atl::Batch>&) override {
    return std::pow(w[0] - goal_, 2);
  }
  std::vector<atl::StateSpan> state() override { return {}; }
  std::uint64_t steps_done() const override { return steps_; }
  void set_steps_done(std::uint64_t steps) override { steps_ = steps; }

 private:
  float goal_;
  atl::ParamLayout layout_{{{"w", {1}, 0}}};
  std::vector<float> w_{0}, gradient_{0};
  std::uint64_t steps_ = 0;
};

}  // namespace

int main() {
  atl::SiteSettings settings{.sites = 2, .steps = 200, .fragments = {{0, 1}}};
  settings.schedule.period = 4;
  settings.optimizer = {.lr = 0.7F, .momentum = 0.5F};
  OneNumber models[] = {OneNumber(1), OneNumber(3)};
  atl::InProcessHub hub({.sites = 2, .slots = atl::slots_of(settings, models[0].layout())});

  std::vector<atl::Site> sites;
  for (int rank : {0, 1}) {
    settings.rank = rank;
    sites.emplace_back(settings, models[rank], hub.site(rank),
                       [](std::uint64_t, std::size_t n) { return atl::Batch{.sequences = n, .length = 1}; });
  }
  while (!sites[0].done()) {
    for (atl::Site& site : sites) site.step();
    for (atl::Site& site : sites) site.collect();
  }
  std::printf("w = %.6f\n", sites[0].global()[0]);
  return std::abs(sites[0].global()[0] - 2) < 1e-4 && sites[0].global_hash() == sites[1].global_hash() ? 0 : 1;
}
