// The three ways to run one engine.  They give the same Θ, bit for bit, for the same settings.
#pragma once
#include <string>

#include "app/config.h"
#include "app/run_options.h"

namespace atl {

// All sites in this process, in lockstep, over an in-process exchange; with [clock], a modelled network.
int run_simulate(const RunConfig& config, const RunOptions& options);
// One `atoll train` a site, on this machine, over loopback; a store in the run folder.  Returns the exit code of the
// first site that failed, 0 when none did.
int run_launch(const RunConfig& config, const RunOptions& options);
// The site of this name, over its link process.
int run_train(const RunConfig& config, const RunOptions& options, const std::string& site);

// All three: 0 also for a run that was stopped by the user (its summary says "interrupted").  Throw ConfigError and
// LinkError after what was reached has been written.

}  // namespace atl
