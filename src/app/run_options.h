// RunOptions: what the command line says beside the settings.  These change where a run is kept and shown, never what
// it computes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace atl {

struct RunOptions {
  std::filesystem::path out = {};  // the run folder; resolved by commands.cpp: runs/NAME, for train runs/NAME-SITE
  bool overwrite = false;          // replace a run that is there already (never one that is still being written)
  bool join = false;  // the folder was made by another process: a site of launch writes into it (hidden --join)
  std::string log_level = "info";           // trace, debug, info, warn, error, off
  bool quiet = false;                       // no progress lines
  std::filesystem::path config_file = {};   // as given; "" when there was none
  std::vector<std::string> overrides = {};  // of --set, as given
};

}  // namespace atl
