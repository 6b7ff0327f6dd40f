// Presets: what run.method means.  A method is a name for settings of the same few parts (docs/algorithms.md, 3).
#pragma once
#include <string>
#include <vector>

#include "app/config.h"
#include "app/config_reader.h"

namespace atl {

// The methods that exist, in the order of the documentation.
std::vector<std::string> methods();

// Sets the defaults of the method that run.method names.  Complains of a method that does not exist, or not yet.
void apply_preset(ConfigReader& in, RunConfig& config);

// After all settings were read: defaults that depend on other settings, and complaints of each that contradicts the method.
void check_preset(ConfigReader& in, RunConfig& config);

}  // namespace atl
