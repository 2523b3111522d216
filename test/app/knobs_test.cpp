#include "app/knobs.h"

#include "app/config.h"
#include "support/golden.h"

#include <catch2/catch.hpp>

#include <regex>
#include <set>
#include <string>

namespace simbridge::app {
namespace {

TEST_CASE("every knob's key tells section and unit, and its default is allowed", "[app][knobs]") {
  const std::regex shape("[a-z]+\\.[a-z_]+");
  std::set<std::string> seen;
  for (const Knob* knob : kKnobs) {
    INFO(knob->key);
    CHECK(std::regex_match(std::string(knob->key), shape));
    CHECK(seen.insert(environment_name(knob->key)).second);
    CHECK_FALSE(knob->help.empty());
    CHECK(knob->help.ends_with('.'));
    CHECK((knob->kind == Kind::kBytes) == knob->key.ends_with("_bytes"));
    CHECK((knob->kind == Kind::kMilliseconds) == knob->key.ends_with("_ms"));
    CHECK((knob->kind == Kind::kSeconds) == knob->key.ends_with("_s"));
    const Result<Value> again = parse_value(*knob, show_value(*knob, fallback_of(*knob)));
    REQUIRE(again);
    CHECK(*again == fallback_of(*knob));
  }
}

TEST_CASE("docs/configuration.md is made from the table", "[app][knobs][golden]") {
  test::compare_with_file("docs/configuration.md", knobs_markdown());
}

TEST_CASE("values are read with their units, and refused with what is allowed", "[app][knobs]") {
  struct Row {
    const Knob& knob;
    std::string text;
    std::optional<double> number;  // or refused
    std::string says;
  };
  const Row rows[] = {
      {kFrameBudget, "536870912", 536'870'912.0, ""},
      {kFrameBudget, "512MiB", 536'870'912.0, ""},
      {kFrameBudget, " 512 Mi ", 536'870'912.0, ""},
      {kFrameBudget, "1.5GiB", 1.5 * kGi, ""},
      {kFrameBudget, "100MB", 100e6, ""},
      {kFrameBudget, "1TiB", kTi, ""},
      {kFrameBudget, "2TiB", {}, "2TiB is above 1TiB; set it between 8MiB and 1TiB"},
      {kFrameBudget, "1MiB", {}, "1MiB is below 8MiB; set it between 8MiB and 1TiB"},
      {kFrameBudget, "-1", {}, "-1 is below 8MiB"},
      {kFrameBudget, "12MIB", {}, "\"12MIB\" has a unit that is not known here; allowed: B, KiB"},
      {kFrameBudget, "9000000.5", {}, "\"9000000.5\" is not a whole number of bytes"},
      {kFrameBudget, "", {}, "\"\" is not a number; set it to 8MiB to 1TiB"},
      {kFrameBudget, "lots", {}, "\"lots\" is not a number"},
      {kFrameBudget, "inf", {}, "\"inf\" is not a number"},
      {kFrameBudget, "nan", {}, "\"nan\" is not a number"},
      {kFrameBudget, "1e400", {}, "is not a number"},
      {kSessionHelloTimeout, "2500", 2500.0, ""},
      {kSessionHelloTimeout, "2.5s", 2500.0, ""},
      {kSessionHelloTimeout, "1min", 60'000.0, ""},
      {kSessionHelloTimeout,
       "5d",
       {},
       "\"5d\" has a unit that is not known here; allowed: ms, s, min, h"},
      {kChannelsLatchedRemoveAfter, "2d", 172'800.0, ""},
      {kChannelsLatchedRemoveAfter, "100ms", {}, "unit that is not known here"},
      {kFramePinShare, "0.5", 0.5, ""},
      {kFramePinShare, "1.7", {}, "1.7 is above 0.9; set it between 0.01 and 0.9"},
      {kFramePinShare,
       "50%",
       {},
       "\"50%\" has a unit that is not known here; allowed: a plain number"},
      {kWebSocketPort, "0", 0.0, ""},
      {kWebSocketPort, "65536", {}, "65536 is above 65535; set it between 0 and 65535"},
      {kWebSocketPort, "80.5", {}, "\"80.5\" is not a whole number; set it to 0 to 65535"},
      {kWebSocketPort, "0x50", {}, "unit that is not known"},
      {kAllowAnonymous, "true", 1.0, ""},
      {kAllowAnonymous, "false", 0.0, ""},
      {kAllowAnonymous, "yes", {}, "\"yes\" is neither true nor false"},
      {kLogFormat, "json", 0.0, ""},
      {kLogFormat, "xml", {}, "\"xml\" is not one of: text, json"},
      {kWebSocketBind, "::1", 0.0, ""},
      {kWebSocketBind, "localhost", {}, "\"localhost\" is not a numeric address"},
      {kBridgeName, "hall 3", 0.0, ""},
      {kBridgeName, "", {}, "\"\" has 0 bytes; allowed: 1 to 256 bytes of text"},
      {kBridgeName, "a\nb", {}, "has control characters"},
      {kBridgeName, std::string(257, 'x'), {}, "has 257 bytes; allowed: 1 to 256 bytes of text"},
  };
  for (const Row& row : rows) {
    INFO(row.knob.key << " = " << row.text);
    const Result<Value> value = parse_value(row.knob, row.text);
    REQUIRE(value.has_value() == row.number.has_value());
    if (value) {
      CHECK(value->number == *row.number);
    } else {
      CHECK_THAT(value.error().detail, Catch::Contains(row.says));
    }
  }
}

TEST_CASE("figures are shown with the largest unit that loses nothing", "[app][knobs]") {
  CHECK(show_value(kFrameBudget, {.number = kGi}) == "1GiB");
  CHECK(show_value(kFrameBudget, {.number = 1.5 * kGi}) == "1536MiB");
  CHECK(show_value(kFrameBudget, {.number = 100e6}) == "100000000");
  CHECK(show_value(kFrameWarmReserve, {.number = 0}) == "0");
  CHECK(show_value(kSessionHelloTimeout, {.number = 10'000}) == "10s");
  CHECK(show_value(kSessionHelloTimeout, {.number = 250}) == "250ms");
  CHECK(show_value(kChannelsLatchedRemoveAfter, {.number = 86'400}) == "1d");
  CHECK(show_value(kFramePinShare, {.number = 0.25}) == "0.25");
}

TEST_CASE("a mistyped key is answered with the knob it looks like", "[app][knobs]") {
  CHECK(nearest_knob("frame.budget_byte") == &kFrameBudget);
  CHECK(nearest_knob("websocket.prot") == &kWebSocketPort);
  CHECK(nearest_knob("session.maxsessions") == &kSessionMax);
  CHECK(nearest_knob("colour") == nullptr);
  CHECK(nearest_knob("") == nullptr);
}

}  // namespace
}  // namespace simbridge::app
