#pragma once
// What: the log, as seen by modules: level, cause, one sentence. Rate-limited per cause, so that a
// hostile peer cannot fill a disk. Where it goes (spdlog: text or JSON) is app's business. Owner:
// process-wide.   Threads: any.
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace simbridge {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// The sink gets finished sentences; suppressed is how many of this cause were left out before it.
using LogSink = void (*)(LogLevel level,
                         std::string_view cause,
                         std::string_view text,
                         unsigned long suppressed);

/// nullptr = standard error, plain. Set once at start, before other threads run.
void set_log_sink(LogSink sink);
void set_log_level(LogLevel lowest);
[[nodiscard]] bool log_enabled(LogLevel level);

/// At most 10 lines a second for one cause; the rest are counted and told with the next.
/// cause: a short constant such as "frame_rejected", from code, never from a peer.
void log_line(LogLevel level, std::string_view cause, std::string_view text);

template <typename... Args>
void log(LogLevel level, std::string_view cause, fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(level)) log_line(level, cause, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace simbridge
