#include "client/stop_signals.h"

#include <csignal>
#include <initializer_list>

namespace simbridge::client {
namespace {

// Written by the handler, read by the command's loop; the only state that a handler may touch.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a handler has no other place
volatile std::sig_atomic_t g_asked = 0;

void on_signal(int number) {
  g_asked = 1;
  // NOLINTNEXTLINE(cert-err33-c): a handler can do nothing about a failure
  std::signal(number, SIG_DFL);
}

void set_handlers(void (*handler)(int)) {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action{};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
}

}  // namespace

StopSignals::StopSignals() {
  g_asked = 0;
  set_handlers(on_signal);
}

StopSignals::~StopSignals() {
  set_handlers(SIG_DFL);
}

bool StopSignals::asked() {
  return g_asked != 0;
}

}  // namespace simbridge::client
