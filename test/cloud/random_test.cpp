#include "cloud/cpu_decimator.h"
#include "cloud/naive.h"
#include "cloud/random_cloud.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <random>

namespace simbridge::cloud {
namespace {

test::Draw draw_from(std::mt19937_64& random) {
  return [&random](std::uint64_t n) {
    return random() % n;
  };
}

struct Kept {  // over all clouds, so that what one frame left behind meets the next
  std::unique_ptr<CpuDecimator> decimator;
  DecimatedCloud out;
};

std::vector<Kept> every_kind() {
  std::vector<Kept> kinds;
  for (const Level level : levels_here())
    kinds.push_back({make_cpu_decimator({.level = level}), {}});
  // Every tag lies; few sums fit; few probes; a table that grows all the time.
  kinds.push_back({make_cpu_decimator({.voxel = {.tag_mask = 0}}), {}});
  kinds.push_back({make_cpu_decimator({.voxel = {.narrow_points = 3}}), {}});
  kinds.push_back({make_cpu_decimator({.voxel = {.probes_max = 0, .slots_first = 2}}), {}});
  kinds.push_back(
      {make_cpu_decimator({.voxel = {.tag_mask = 3, .narrow_points = 2, .slots_first = 2}}), {}});
  return kinds;
}

void compare_on(std::mt19937_64& random, std::vector<Kept>& kinds, std::uint32_t points_max) {
  const auto draw = draw_from(random);
  const test::RandomCloud cloud(draw, points_max);
  const Request request = test::random_request(draw);
  INFO(test::describe(cloud.view, request));
  const DecimatedCloud naive = test::decimate_naively(cloud.view, request);
  for (Kept& kind : kinds) {
    const auto done = kind.decimator->decimate(cloud.view, request, kind.out);
    INFO((done ? "" : done.error().detail));
    REQUIRE(done.has_value());
    REQUIRE(test::difference(kind.out, naive) == "");
  }
}

}  // namespace

TEST_CASE(
    "every road through the CPU's decimator gives the bytes of the definition, for any layout "
    "and request",
    "[cloud][random]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  auto kinds = every_kind();
  for (int round = 0; round < 1500; ++round) compare_on(random, kinds, 60);
  for (int round = 0; round < 60; ++round) compare_on(random, kinds, 3000);
  const auto roads = [&](std::size_t back) {
    return kinds[kinds.size() - back].decimator->roads();
  };
  CHECK(roads(4).exact > 0);
  CHECK(roads(3).wide > 0);
  CHECK(roads(2).sorted > 0);
  CHECK((roads(1).exact > 0 && roads(1).wide > 0));
}

}  // namespace simbridge::cloud
