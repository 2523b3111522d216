#include "simbridge/client/quality.h"

#include "client/messages.h"

#include <catch2/catch.hpp>

#include "simbridge/v1/bridge.pb.h"

#include <cmath>

namespace simbridge::client {
namespace {

std::string refusal(const QualityWords& words) {
  const auto quality = parse_quality(words);
  return quality ? "" : quality.error().detail;
}

}  // namespace

TEST_CASE("a quality's words become what a Subscribe asks for", "[client][quality]") {
  const auto quality = parse_quality({.leaf = 0.2,
                                      .max_points = 7,
                                      .sampling = "nearest",
                                      .region = "-1,-2.5,-3e0:1,2,1e2",
                                      .min_range = 0.5,
                                      .max_range = 80,
                                      .output = "flat"});
  REQUIRE(quality.has_value());
  v1::Quality message;
  fill_quality(message, 10, *quality);
  CHECK(message.ShortDebugString() ==
        "max_hz: 10 max_points: 7 leaf: 0.2 sampling: SAMPLING_VOXEL_NEAREST region { min { x: -1 "
        "y: -2.5 z: -3 } max { x: 1 y: 2 z: 100 } } min_range: 0.5 max_range: 80 output: "
        "OUTPUT_FLAT");
}

TEST_CASE("a Subscribe with only defaults names no quality, so that frames pass as they are sent",
          "[client][quality]") {
  v1::Subscribe message;
  fill_subscribe(message, {.channel = "a"});
  CHECK_FALSE(message.has_quality());
  fill_subscribe(message, {.channel = "a", .quality = {.output = Output::kXyz}});
  CHECK(message.has_quality());
}

TEST_CASE("words that no bridge would take are refused with the flag that is wrong",
          "[client][quality]") {
  CHECK(refusal({}).empty());
  CHECK(refusal({.leaf = 0.1, .sampling = "centroid"}).empty());
  CHECK(refusal({.max_points = 5, .sampling = "random"}).empty());
  CHECK(refusal({.region = "0,0,0:0,0,0"}).empty());
  const std::vector<std::pair<QualityWords, std::string>> rows{
      {{.leaf = -1}, "--leaf"},
      {{.leaf = std::nan("")}, "--leaf"},
      {{.min_range = -1}, "--min-range"},
      {{.max_range = HUGE_VAL}, "--max-range"},
      {{.min_range = 5, .max_range = 4}, "--max-range"},
      {{.sampling = "centroid"}, "--sampling"},
      {{.sampling = "stride"}, "--sampling"},
      {{.leaf = 1, .max_points = 5, .sampling = "random"}, "--sampling"},
      {{.leaf = 1, .sampling = "voxel"}, "--sampling is one of"},
      {{.output = "pcd"}, "--output is one of"},
      {{.region = "1,2,3"}, "--region"},
      {{.region = "1,2,3:4,5"}, "--region"},
      {{.region = "1,2,3,4,5,6"}, "--region"},
      {{.region = "1,2,3:4,5,6,"}, "--region"},
      {{.region = "1,2,3:4,5,nan"}, "--region"},
      {{.region = " 1,2,3:4,5,6"}, "--region"},
      {{.region = "0,0,0:1,1,-1"}, "--region: z from 0 to -1"}};
  for (const auto& [words, beginning] : rows) {
    INFO(beginning << " " << words.region);
    CHECK(refusal(words).starts_with(beginning));
  }
}

}  // namespace simbridge::client
