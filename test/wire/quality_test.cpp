#include "simbridge/wire/frame_head.h"

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace simbridge::wire {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Row {
  std::string_view what;
  Quality quality;
};

std::array<Vector3, 2> box(Vector3 min, Vector3 max) {
  return {min, max};
}

}  // namespace

TEST_CASE("qualities that mean something are taken", "[wire][quality]") {
  const std::vector<Row> rows{
      {"all defaults", {}},
      {"a rate", {.max_hz = 10}},
      {"a leaf", {.leaf = 0.1}},
      {"a budget", {.max_points = 1000}},
      {"leaf and budget", {.max_points = 1000, .leaf = 0.1}},
      {"centroid with a budget", {.max_points = 1, .sampling = 1}},
      {"nearest with a leaf", {.leaf = 0.5, .sampling = 2}},
      {"stride with a budget", {.max_points = 10, .sampling = 3}},
      {"random with a budget", {.max_points = 10, .sampling = 4}},
      {"first with a leaf", {.leaf = 0.5, .sampling = 5}},
      {"a region", {.region = box({-1, -1, -1}, {1, 1, 1})}},
      {"a region that is a point", {.region = box({}, {})}},
      {"ranges", {.min_range = 1, .max_range = 2}},
      {"a lower range alone", {.min_range = 1}},
      {"invalid points kept", {.keep_invalid = true, .output = 1}},
      {"fields of the flat form", {.fields = {"intensity"}, .output = 2}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    CHECK(check_quality(row.quality).ok());
  }
}

TEST_CASE("qualities that contradict themselves are refused", "[wire][quality]") {
  const std::vector<Row> rows{
      {"a negative rate", {.max_hz = -1}},
      {"a rate that is NaN", {.max_hz = std::nanf("")}},
      {"an infinite rate", {.max_hz = std::numeric_limits<float>::infinity()}},
      {"a negative leaf", {.leaf = -0.1}},
      {"a leaf that is NaN", {.leaf = kNan}},
      {"an infinite leaf", {.leaf = kInf}},
      {"a negative range", {.min_range = -1}},
      {"a range that is NaN", {.max_range = kNan}},
      {"a range that ends before it begins", {.min_range = 2, .max_range = 1}},
      {"a region that holds nothing", {.region = box({1, 0, 0}, {-1, 1, 1})}},
      {"a region with NaN", {.region = box({0, kNan, 0}, {1, 1, 1})}},
      {"a region without end", {.region = box({0, 0, 0}, {1, 1, kInf})}},
      {"voxel without leaf or budget", {.sampling = 1}},
      {"nearest without leaf or budget", {.sampling = 2}},
      {"first without leaf or budget", {.sampling = 5}},
      {"stride without a budget", {.leaf = 0.1, .sampling = 3}},
      {"random without a budget", {.sampling = 4}},
      {"stride with a leaf", {.max_points = 5, .leaf = 0.1, .sampling = 3}},
      {"a sampling that is not known", {.max_points = 5, .leaf = 0.1, .sampling = 6}},
      {"a negative sampling", {.max_points = 5, .sampling = 0xFFFFFFFFU}},
      {"an output that is not known", {.output = 3}},
      {"fields without the flat form", {.fields = {"x"}, .output = 1}},
      {"fields as sent", {.fields = {"x"}}},
      {"invalid points kept and a leaf", {.leaf = 0.1, .keep_invalid = true}},
      {"invalid points kept and a budget", {.max_points = 9, .keep_invalid = true}},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    const Verdict refused = check_quality(row.quality);
    CHECK(refused.code == RejectCode::kQuality);
    CHECK_FALSE(refused.detail.empty());
  }
}

TEST_CASE("a quality leaves frames unchanged when only its rate is set", "[wire][quality]") {
  CHECK(Quality{}.unchanged());
  CHECK(Quality{.max_hz = 5}.unchanged());
  CHECK_FALSE(Quality{.leaf = 0.1}.unchanged());
  CHECK_FALSE(Quality{.output = 1}.unchanged());
  CHECK_FALSE(Quality{.region = box({}, {})}.unchanged());
}

}  // namespace simbridge::wire
