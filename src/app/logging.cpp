#include "app/logging.h"

#include "simbridge/base/clock.h"
#include "simbridge/metrics/instruments.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <atomic>
#include <ctime>
#include <exception>
#include <memory>

namespace simbridge::app {
namespace {

constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};

std::string timestamp(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  static_cast<void>(gmtime_r(&seconds, &parts));  // fails only beyond the year 2^31
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
                     parts.tm_year + 1900,
                     parts.tm_mon + 1,
                     parts.tm_mday,
                     parts.tm_hour,
                     parts.tm_min,
                     parts.tm_sec,
                     wall_ns % 1'000'000'000 / 1000);
}

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

// A sink is a plain function, so what it needs is process-wide.
struct State {
  LogFormat format = LogFormat::kText;
  std::shared_ptr<spdlog::logger> logger;
  // release/acquire: whoever logs after the counters were given finds them made.
  std::atomic<metrics::AppMetrics*> counters{nullptr};
};

State& state() {
  static State the_state;
  return the_state;
}

void sink(LogLevel level, std::string_view cause, std::string_view text, unsigned long suppressed) {
  try {  // formatting allocates; a line that cannot be written is no reason to end
    const State& here = state();
    if (auto* const counters = here.counters.load(std::memory_order_acquire)) {
      counters->log_lines[static_cast<unsigned>(level)].add();
    }
    here.logger->info(
        format_log_line(here.format, SystemClock().wall_ns(), level, cause, text, suppressed));
  } catch (const std::exception&) {
    static_cast<void>(std::fputs("simbridge: a log line could not be written\n", stderr));
  }
}

}  // namespace

void start_logging(LogFormat format, metrics::AppMetrics* counters) {
  State& here = state();
  here.format = format;
  if (!here.logger) {
    here.logger = std::make_shared<spdlog::logger>(
        "simbridge", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    here.logger->set_pattern("%v");  // the line is finished; base has judged the level
    here.logger->flush_on(spdlog::level::trace);
    here.logger->set_error_handler(
        [](const std::string&) {});  // standard error is gone: nobody to tell
  }
  here.counters.store(counters, std::memory_order_release);
  set_log_sink(&sink);
}

void stop_counting_log_lines() {
  state().counters.store(nullptr, std::memory_order_release);
}

LogLevel log_level_named(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return LogLevel::kInfo;
}

std::string format_log_line(LogFormat format,
                            std::int64_t wall_ns,
                            LogLevel level,
                            std::string_view cause,
                            std::string_view text,
                            std::uint64_t suppressed) {
  const std::string_view name = kNames.at(static_cast<std::size_t>(level));
  if (format == LogFormat::kText) {
    return fmt::format(
        "{} {:<7} {}: {}{}",
        timestamp(wall_ns),
        name,
        cause,
        escaped(text),
        suppressed > 0 ? fmt::format(" ({} more of these left out)", suppressed) : "");
  }
  nlohmann::ordered_json line{
      {"time", timestamp(wall_ns)}, {"level", name}, {"cause", cause}, {"text", text}};
  if (suppressed > 0) line["suppressed"] = suppressed;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace simbridge::app
