// Ctrl-C and SIGTERM: the first asks for a clean stop, a second one quits at once.
#pragma once

namespace atl {

// Installs the handlers (once a process); SIGPIPE is ignored.
void watch_for_stop();
bool stop_requested();
const char* stop_reason();  // "Ctrl-C" or "SIGTERM"; "" when none came

}  // namespace atl
