// The command line: atoll simulate | launch | train | data prepare | eval | report | config.
#pragma once

namespace atl {

// Runs one command and returns the exit code.  Errors are printed as "atoll: <text>" on stderr: 2 a setting, a file or
// a wrong use of the command line (ConfigError), 3 a site or link (LinkError), 70 a bug (anything else).
int run_command(int argc, const char* const* argv);

}  // namespace atl
