// Plan: what a run will send, hold and wait for, before it is started; and beside what it did, afterwards.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "app/assemble.h"

namespace atl {

struct PlanNetwork {
  double step_seconds = 0;  // of one inner step; > 0
  double mbit = 0;          // of each site, each direction; 0: not known
  double rtt_ms = 0;
};

struct PlanTime {
  double seconds = 0, utilisation = 0;
};

struct PlanBytes {  // of one site (rank 0), the whole run
  std::uint64_t exchanges = 0;
  double payload = 0, headers = 0;
};

PlanBytes plan_bytes(const RunParts& parts);

// The schedule of the run on the modelled clock (clock_model.h); of long runs a part that repeats itself, scaled up.
PlanTime plan_time(const RunParts& parts, const PlanNetwork& network);

// Mbit/s at which sites compute for the share `utilisation` of the time; nothing when no bandwidth is enough (round trips).
std::optional<double> plan_mbit(const RunParts& parts, const PlanNetwork& network, double utilisation);

// Seconds of an inner step of one site, measured here with its batch: the median of a few.
double measured_step_seconds(const RunParts& parts);

// All of it as a table; with `run`, a finished run's folder, what was measured beside it.  Throws ConfigError when that run
// had other settings.
std::string plan_text(const RunParts& parts, const PlanNetwork& network, const std::filesystem::path& run);

}  // namespace atl
