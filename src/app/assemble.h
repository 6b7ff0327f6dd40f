// Assemble: from a checked RunConfig to the parts of one site.  The only place that knows all folders.
#pragma once
#include <memory>
#include <string>

#include "app/config.h"
#include "app/site.h"
#include "data/dataset.h"
#include "inner/inner.h"
#include "outer/fragments.h"

namespace atl {

// What all sites of a run share.  config.model.vocabulary and config.inner.total_steps and seed are filled in here.
struct RunParts {
  RunConfig config;
  std::unique_ptr<Dataset> data;
  FragmentPlan plan;
  std::vector<SlotSpec> slots;
};

// Opens the data, plans fragments and buckets.  Throws ConfigError (data, plan).
RunParts assemble(RunConfig config);

SiteSettings site_settings(const RunParts& parts, int rank);
std::unique_ptr<Inner> make_inner(const RunParts& parts);
Samples samples_of(const RunParts& parts);

}  // namespace atl
