#include "app/serve.h"

#include "app/bridge.h"
#include "app/logging.h"
#include "app/process.h"
#include "simbridge/base/log.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace simbridge::app {
namespace {

/// The signals that serve() answers. Blocked in every thread, fetched by one: no handler, no race,
/// and one that comes during the start waits until the start is done.
sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

/// The next of our signals, or 0 when none came in time.
int next_signal(milliseconds patience) {
  const sigset_t set = our_signals();
  const timespec time{.tv_sec = patience.count() / 1000,
                      .tv_nsec = patience.count() % 1000 * 1'000'000};
  const int signal = sigtimedwait(&set, nullptr, &time);
  return signal > 0 ? signal : 0;
}

const char* name_of_signal(int signal) {
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

[[noreturn]] void leave_at_once(const char* signal, std::size_t sessions) {
  log(LogLevel::kWarning,
      "stop",
      "{} again: leaving at once, {} sessions are cut off",
      signal,
      sessions);
  std::_Exit(kExitFailed);
}

/// After the drain the main thread joins others and fetches no signals; a second SIGTERM still ends
/// it all.
void let_signals_end_us() {
  struct sigaction action{};
  action.sa_handler = [](int) {
    _exit(kExitFailed);
  };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int say_why(const Error& error) {
  static_cast<void>(std::fputs(fmt::format("simbridge: {}\n", error.detail).c_str(), stderr));
  return kExitConfiguration;
}

/// Started with a closed standard stream, the first descriptor would get its number, and be written
/// into. gRPC opens one while the program is loaded, so this runs before any library's own start,
/// and before any sanitizer's: system calls only.
__attribute__((no_sanitize("address", "thread", "undefined"))) void keep_standard_descriptors(
    int argc, char** argv, char** /*environment*/) {
  if (argc < 2) return;
  for (int i = 0; i < 6; ++i) {  // to the end of both
    if (argv[1][i] != "serve"[i]) return;
  }
  long fd = 0;
  do {
    fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) syscall(SYS_close, fd);
}
// A constant: what it points to is code.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kBeforeAll)(int, char**, char**) = &keep_standard_descriptors;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

/// For scripts: the ports that the kernel chose. One line a listener, complete when the last one is
/// there. Whoever has closed our standard output does not want to know.
void print_addresses(const ListeningAt& at) {
  const std::string lines =
      fmt::format("websocket listening on {}\ngrpc listening on {}\nadmin listening on {}\n",
                  at.websocket,
                  at.grpc,
                  at.admin);
  static_cast<void>(std::fputs(lines.c_str(), stdout));
  static_cast<void>(std::fflush(stdout));
}

void reload(Bridge& bridge, const Given& given) {
  const Result<Loaded> loaded = load_config(given);
  if (!loaded) {
    log(LogLevel::kError, "reload", "nothing is changed: {}", loaded.error().detail);
    return;
  }
  for (const std::string& warning : loaded->warnings)
    log(LogLevel::kWarning, "configuration", "{}", warning);
  bridge.reload(loaded->config);
}

/// Until told to stop; returns the signal's name.
const char* run(Bridge& bridge, const Given& given) {
  constexpr milliseconds kTick{1'000};
  Monotonic due = std::chrono::steady_clock::now() + kTick;
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= due) {
      bridge.tick();
      due = now + kTick;
    }
    const int signal = next_signal(std::chrono::ceil<milliseconds>(due - now));
    if (signal == SIGHUP) reload(bridge, given);
    if (signal == SIGTERM || signal == SIGINT) return name_of_signal(signal);
  }
}

void drain(Bridge& bridge, const char* why) {
  constexpr milliseconds kLook{20};
  log(LogLevel::kInfo, "stop", "{}: draining {} sessions", why, bridge.sessions());
  bridge.drain(why);
  while (!bridge.drained()) {
    const int signal = next_signal(kLook);
    if (signal == SIGTERM || signal == SIGINT)
      leave_at_once(name_of_signal(signal), bridge.sessions());
  }
  log(LogLevel::kInfo, "stop", "drained, {} sessions are left", bridge.sessions());
}

}  // namespace

void hold_signals() {
  const sigset_t signals = our_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int serve(const Given& given) {
  hold_signals();
  // A peer that went is an error of write(), not the end of the process.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  const Result<Loaded> loaded = load_config(given);
  if (!loaded) return say_why(loaded.error());
  const std::uint64_t descriptors = raise_descriptor_limit();

  Result<std::unique_ptr<Bridge>> started = Bridge::start(loaded->config);
  if (!started) return say_why(started.error());
  const std::unique_ptr<Bridge> bridge = *std::move(started);
  for (const std::string& warning : loaded->warnings)
    log(LogLevel::kWarning, "configuration", "{}", warning);
  const ListeningAt at = bridge->listening_at();
  print_addresses(at);
  log(LogLevel::kInfo,
      "start",
      "listening on {}, {} and {}, {} file descriptors",
      at.websocket,
      at.grpc,
      at.admin,
      descriptors);

  drain(*bridge, run(*bridge, given));
  let_signals_end_us();
  return kExitDone;  // the bridge's destructor stops what is left
}

}  // namespace simbridge::app
