// Fleet: M sites in lockstep over in-process exchanges, as simulate runs them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/site.h"
#include "comm/in_process.h"

namespace atl {

struct Fleet {
  std::vector<std::unique_ptr<Inner>> inners;
  std::unique_ptr<InProcessHub> hub;
  std::vector<std::unique_ptr<Site>> sites;

  Fleet(std::vector<std::unique_ptr<Inner>> models, SiteSettings settings, const std::string& codec = "")
      : inners(std::move(models)) {
    settings.sites = static_cast<int>(inners.size());
    if (!codec.empty()) settings.codec = {.name = codec};
    const ParamLayout& layout = inners.front()->layout();
    if (settings.fragments.empty()) settings.fragments = {{0, layout.size()}};
    hub = std::make_unique<InProcessHub>(
        InProcessHub::Config{.sites = settings.sites,
                             .slots = slots_of(settings, layout),
                             .codec = settings.codec,
                             .mean_codec = make_codec(settings.codec)->sparse() ? CodecConfig{} : settings.codec,
                             .clusters = settings.clusters});
    for (int m = 0; m < settings.sites; ++m) {
      settings.rank = m;
      settings.name = "site-" + std::to_string(m);
      sites.push_back(std::make_unique<Site>(
          settings, *inners[static_cast<std::size_t>(m)], hub->site(m), [](std::uint64_t p, std::size_t n) {
            return Batch{.sequences = n, .length = 1, .tokens = {}, .first_position = p};
          }));
    }
  }
  void step() {
    for (auto& s : sites) s->step();
    for (auto& s : sites) s->collect();
  }
  void drain() {
    for (auto& s : sites) s->drain();
    for (auto& s : sites) s->collect();
  }
  float local(int m, std::size_t i) { return inners[static_cast<std::size_t>(m)]->local()[i]; }
};

template <class Make>
std::vector<std::unique_ptr<Inner>> models(int sites, Make make) {
  std::vector<std::unique_ptr<Inner>> all;
  for (int m = 0; m < sites; ++m) all.push_back(make(m));
  return all;
}

}  // namespace atl
