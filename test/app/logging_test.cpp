#include "app/logging.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace simbridge::app {
namespace {

constexpr std::int64_t kWhen = 1'700'000'000'123'456'789;

TEST_CASE("a text line has time, level, cause and what was left out", "[app][log]") {
  CHECK(format_log_line(LogFormat::kText, kWhen, LogLevel::kInfo, "start", "hello", 0) ==
        "2023-11-14T22:13:20.123456Z info    start: hello");
  CHECK(format_log_line(LogFormat::kText, kWhen, LogLevel::kWarning, "frame_rejected", "x", 12) ==
        "2023-11-14T22:13:20.123456Z warning frame_rejected: x (12 more of these left out)");
}

TEST_CASE("what a peer wrote cannot end a line or steer a terminal", "[app][log]") {
  const std::string hostile = "name\nerror   forged: line\x1b[2J\x7f\t";
  const std::string text =
      format_log_line(LogFormat::kText, kWhen, LogLevel::kInfo, "hello", hostile, 0);
  CHECK(text.find_first_of("\n\x1b\x7f\t") == std::string::npos);
  CHECK_THAT(text, Catch::Contains("name\\x0aerror   forged: line\\x1b[2J\\x7f\\x09"));
  const std::string json =
      format_log_line(LogFormat::kJson, kWhen, LogLevel::kInfo, "hello", hostile, 0);
  CHECK(json.find_first_of("\n\x1b\t") == std::string::npos);
  CHECK(nlohmann::json::parse(json)["text"] == hostile);
}

TEST_CASE("a JSON line is one object, also when a name is no UTF-8", "[app][log]") {
  const auto line = nlohmann::json::parse(
      format_log_line(LogFormat::kJson, kWhen, LogLevel::kError, "cause", "caf\xe9", 3));
  CHECK(line["time"] == "2023-11-14T22:13:20.123456Z");
  CHECK(line["level"] == "error");
  CHECK(line["cause"] == "cause");
  CHECK(line["text"] == "caf\xEF\xBF\xBD");
  CHECK(line["suppressed"] == 3);
}

TEST_CASE("levels have the names of the knob", "[app][log]") {
  CHECK(log_level_named("debug") == LogLevel::kDebug);
  CHECK(log_level_named("info") == LogLevel::kInfo);
  CHECK(log_level_named("warning") == LogLevel::kWarning);
  CHECK(log_level_named("error") == LogLevel::kError);
}

}  // namespace
}  // namespace simbridge::app
