#include "simbridge/base/log.h"

#include "simbridge/base/mutex.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

namespace simbridge {
namespace {

constexpr unsigned kLinesPerSecond = 10;
constexpr std::size_t kCausesKept = 256;

struct CauseState {
  std::chrono::steady_clock::time_point window_start;
  unsigned in_window = 0;
  unsigned long suppressed = 0;
};

void to_stderr(LogLevel level,
               std::string_view cause,
               std::string_view text,
               unsigned long suppressed) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  (void)std::fprintf(stderr,
                     "%s %.*s: %.*s",
                     kNames[static_cast<int>(level)],
                     static_cast<int>(cause.size()),
                     cause.data(),
                     static_cast<int>(text.size()),
                     text.data());
  if (suppressed > 0) (void)std::fprintf(stderr, " (%lu more of these left out)", suppressed);
  (void)std::fputc('\n', stderr);
}

// Process-wide by design: a module logs without being handed anything.
// relaxed: a level or sink that changes while a line is written may catch it or not.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): see above
std::atomic<LogSink> g_sink{nullptr};
std::atomic<LogLevel> g_lowest{LogLevel::kInfo};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

class Limiter {
 public:
  /// Whether the line may pass; fills how many of its cause were left out before it.
  bool admit(std::string_view cause, unsigned long& suppressed) {
    const auto now = std::chrono::steady_clock::now();
    const MutexLock lock(mutex_);
    auto found = causes_.find(cause);
    if (found == causes_.end()) {
      if (causes_.size() >= kCausesKept) causes_.clear();
      found = causes_.emplace(std::string(cause), CauseState{now, 0, 0}).first;
    }
    CauseState& state = found->second;
    if (now - state.window_start >= std::chrono::seconds(1)) {
      state.window_start = now;
      state.in_window = 0;
    }
    if (state.in_window >= kLinesPerSecond) {
      ++state.suppressed;
      return false;
    }
    ++state.in_window;
    suppressed = std::exchange(state.suppressed, 0UL);
    return true;
  }

 private:
  Mutex mutex_;
  std::map<std::string, CauseState, std::less<>> causes_ SB_GUARDED_BY(mutex_);
};

}  // namespace

void set_log_sink(LogSink sink) {
  g_sink.store(sink, std::memory_order_relaxed);
}

void set_log_level(LogLevel lowest) {
  g_lowest.store(lowest, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
  return level >= g_lowest.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view cause, std::string_view text) {
  static Limiter limiter;
  unsigned long suppressed = 0;
  if (!log_enabled(level) || !limiter.admit(cause, suppressed)) return;
  const LogSink sink = g_sink.load(std::memory_order_relaxed);
  (sink != nullptr ? sink : to_stderr)(level, cause, text, suppressed);
}

}  // namespace simbridge
