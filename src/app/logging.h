#pragma once
// What: where log lines go: standard error, as text for people or as one JSON object a line.
// Owner: app, process-wide.   Threads: start_logging() once before other threads run; lines from
// any.
#include "simbridge/base/log.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace simbridge::metrics {
struct AppMetrics;
}

namespace simbridge::app {

enum class LogFormat : std::uint8_t { kText, kJson };

/// counters: log lines by level are counted there; must outlive the last line, or be nullptr.
void start_logging(LogFormat format, metrics::AppMetrics* counters);
/// Stops counting; lines are still written.
void stop_counting_log_lines();
[[nodiscard]] LogLevel log_level_named(std::string_view name);

/// The line without its end. What a peer wrote cannot end a line or steer a terminal: control
/// characters are escaped. wall_ns is nanoseconds since 1970.
[[nodiscard]] std::string format_log_line(LogFormat format,
                                          std::int64_t wall_ns,
                                          LogLevel level,
                                          std::string_view cause,
                                          std::string_view text,
                                          std::uint64_t suppressed);

}  // namespace simbridge::app
