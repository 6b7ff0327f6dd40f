#include "app/signals.h"

#include <unistd.h>

#include <csignal>

namespace atl {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

void on_stop(int signal) {
  if (stop_signal != 0) _exit(128 + signal);  // a second one: the user does not want to wait
  stop_signal = signal;
}

}  // namespace

void watch_for_stop() {
  struct sigaction action {};
  action.sa_handler = on_stop;  // no SA_RESTART: waits end early
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() { return stop_signal != 0; }

const char* stop_reason() { return stop_signal == SIGINT ? "Ctrl-C" : stop_signal == SIGTERM ? "SIGTERM" : ""; }

}  // namespace atl
