#include "simbridge/metrics/metrics.h"

#include "simbridge/metrics/instruments.h"
#include "support/golden.h"

#include <catch2/catch.hpp>

#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace simbridge::metrics {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  std::istringstream lines(text);
  for (std::string each; std::getline(lines, each);) {
    if (each == line) return true;
  }
  return false;
}

TEST_CASE("every metric's name tells module, base unit and kind", "[metrics]") {
  const std::regex shape("simbridge_(frame|pipeline|session|transport|admin|app)_[a-z0-9_]+");
  std::set<std::string_view> seen;
  for (const Metric* metric : kCatalogue) {
    INFO(metric->name);
    CHECK(std::regex_match(std::string(metric->name), shape));
    CHECK(seen.insert(metric->name).second);
    CHECK_FALSE(metric->help.empty());
    CHECK(metric->name.ends_with("_total") == (metric->type == Type::kCounter));
    CHECK(metric->label.empty() == metric->values.empty());
    CHECK((metric->type == Type::kHistogram) == !metric->bounds.empty());
    CHECK(std::is_sorted(metric->bounds.begin(), metric->bounds.end()));
    CHECK(metric->name.find("_ms") == std::string_view::npos);
    if (metric->type == Type::kHistogram) CHECK(metric->name.ends_with("_seconds"));
  }
}

TEST_CASE("names, types and labels are what dashboards rely on", "[metrics][golden]") {
  test::compare_with_file("test/metrics/metrics.golden", catalogue_list());
}

TEST_CASE("docs/metrics.md is made from the catalogue", "[metrics][golden]") {
  test::compare_with_file("docs/metrics.md", catalogue_markdown());
}

TEST_CASE("a scrape shows every series from the start, with its help and type", "[metrics]") {
  Registry registry;
  registry.set_info(kAppBuild, {"1.2.3", "g++"});
  registry.set_info(kAppBoot, {"42"});
  const std::string text = registry.scrape();
  for (const Metric* metric : kCatalogue) {
    INFO(metric->name);
    CHECK(text.find("# HELP " + std::string(metric->name) + " ") != std::string::npos);
    CHECK(text.find("# TYPE " + std::string(metric->name) + " ") != std::string::npos);
    for (const std::string_view value : metric->values) {
      if (value.empty()) continue;
      CHECK(has_line(text,
                     std::string(metric->name) + "{" + std::string(metric->label) + "=\"" +
                         std::string(value) + "\"} 0"));
    }
  }
  CHECK(has_line(text, "simbridge_app_build_info{version=\"1.2.3\",compiler=\"g++\"} 1"));
  CHECK(has_line(text, "simbridge_frame_budget_bytes 0"));
}

TEST_CASE("what is counted is what a scrape shows", "[metrics]") {
  Registry registry;
  const SessionMetrics session(registry);
  const FrameMetrics frame(registry);
  session.received_frames.add();
  session.received_frames.add(41);
  session.rejected_frames[2].add(3);
  session.closed[CloseCause::kDead].add();
  frame.budget_bytes.set(std::uint64_t{1} << 30U);
  frame.evicted_frames[EvictReason::kShrink].add(7);
  session.open.add(5);
  session.open.add(-2);
  const std::string text = registry.scrape();
  CHECK(has_line(text, "simbridge_session_received_frames_total 42"));
  CHECK(has_line(text, "simbridge_session_rejected_frames_total{code=\"UNKNOWN_CHANNEL\"} 3"));
  CHECK(has_line(text, "simbridge_session_closed_total{cause=\"dead\"} 1"));
  CHECK(has_line(text, "simbridge_frame_budget_bytes 1073741824"));
  CHECK(has_line(text, "simbridge_frame_evicted_frames_total{reason=\"shrink\"} 7"));
  CHECK(has_line(text, "simbridge_session_open 3"));
}

TEST_CASE("a number that the protocol table does not know is counted, not lost", "[metrics]") {
  Registry registry;
  const SessionMetrics session(registry);
  session.rejected_frames[9].add();     // reserved in bridge.proto
  session.rejected_frames[4000].add();  // of a later version
  CHECK(has_line(registry.scrape(),
                 "simbridge_session_rejected_frames_total{code=\"UNSPECIFIED\"} 2"));
}

TEST_CASE("a histogram's buckets hold what is at most their bound, in seconds", "[metrics]") {
  Registry registry;
  const SessionMetrics session(registry);
  session.age.observe(std::chrono::microseconds(50));  // exactly the first bound
  session.age.observe(std::chrono::microseconds(51));
  session.age.observe(std::chrono::seconds(31));      // above all
  session.age.observe(std::chrono::nanoseconds(-5));  // a clock that went backwards is no time
  const std::string text = registry.scrape();
  CHECK(has_line(text, "simbridge_session_age_seconds_count 4"));
  CHECK(has_line(text, "simbridge_session_age_seconds_bucket{le=\"0.0001\"} 3"));
  CHECK(has_line(text, "simbridge_session_age_seconds_bucket{le=\"30\"} 3"));
  CHECK(has_line(text, "simbridge_session_age_seconds_bucket{le=\"+Inf\"} 4"));
  CHECK(session.age.in_bucket(0) == 2);
  CHECK(session.age.sum() == 31'000'101'000);
}

TEST_CASE("a scrape hook fills gauges while it lives, and never after", "[metrics]") {
  Registry registry;
  const FrameMetrics frame(registry);
  int runs = 0;
  {
    const ScrapeHook hook =
        registry.on_scrape([&] { frame.charged_bytes.set(std::int64_t{++runs}); });
    CHECK(has_line(registry.scrape(), "simbridge_frame_charged_bytes 1"));
    CHECK(has_line(registry.scrape(), "simbridge_frame_charged_bytes 2"));
  }
  CHECK(has_line(registry.scrape(), "simbridge_frame_charged_bytes 2"));
  CHECK(runs == 2);
}

TEST_CASE("a close code of the protocol has its own series, any other shares one", "[metrics]") {
  CHECK(kCloseCodes[static_cast<std::size_t>(close_code(1002))] == "1002");
  CHECK(kCloseCodes[static_cast<std::size_t>(close_code(1009))] == "1009");
  CHECK(close_code(4321) == CloseCode::kOther);
  for (std::size_t i = 0; i + 1 < kCloseCodes.size(); ++i) {
    CHECK(static_cast<std::size_t>(
              close_code(static_cast<std::uint16_t>(std::stoi(std::string(kCloseCodes[i]))))) == i);
  }
}

}  // namespace
}  // namespace simbridge::metrics
