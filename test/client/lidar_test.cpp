#include "client/lidar.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <ctime>

namespace simbridge::client {
namespace {

struct Point {
  float x = 0, y = 0, z = 0, intensity = 0;
  std::uint32_t t = 0;
  std::uint16_t ring = 0, padding = 0;
};

Point point_of(const PointCloudData& cloud, std::size_t index) {
  Point point;
  std::memcpy(
      static_cast<void*>(&point), cloud.data.data() + index * cloud.point_step, sizeof(point));
  return point;
}

double cpu_seconds() {
  timespec now{};
  REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

TEST_CASE("the same seed and number give the same scan, others another", "[client][lidar]") {
  const LidarOptions options{.rings = 16, .azimuths = 256, .seed = 5};
  const Lidar lidar(options);
  const auto scan = lidar.scan(3);
  CHECK(Lidar(options).scan(3).data == scan.data);
  CHECK(lidar.scan(4).data != scan.data);
  CHECK(Lidar({.rings = 16, .azimuths = 256, .seed = 6}).scan(3).data != scan.data);
  CHECK(scan.data.size() == lidar.scan_bytes());
}

TEST_CASE("a scan is laid out as a driver's, organised by ring", "[client][lidar]") {
  const auto scan = Lidar({.rings = 32, .azimuths = 512}).scan(0);
  CHECK(scan.width == 512);
  CHECK(scan.height == 32);
  CHECK(scan.point_step == 24);
  REQUIRE(scan.fields.size() == 6);
  CHECK(scan.fields[5] == CloudField{.name = "ring", .offset = 20, .type = FieldType::kUint16});
  for (std::size_t i = 0; i < scan.points(); ++i) {
    const auto point = point_of(scan, i);
    REQUIRE(point.ring == i / 512);
    REQUIRE(std::isfinite(point.x));
    REQUIRE(point.t < 100'000'000);
    REQUIRE(point.t == static_cast<std::uint32_t>(static_cast<double>(i % 512) / 512 * 0.1 * 1e9));
  }
}

TEST_CASE("a scan looks like a yard: ground below, walls around, some rays without return",
          "[client][lidar]") {
  const auto scan = Lidar({.dropouts = 0.05F}).scan(0);
  std::size_t none = 0;
  std::size_t ground = 0;
  float farthest = 0;
  for (std::size_t i = 0; i < scan.points(); ++i) {
    const auto point = point_of(scan, i);
    if (point.x == 0 && point.y == 0 && point.z == 0) {
      ++none;
      continue;
    }
    REQUIRE(point.z > -2.0F);  // nothing under the ground, noise aside
    if (point.z < -1.7F) ++ground;
    farthest = std::max(farthest, std::hypot(point.x, point.y));
  }
  const auto points = static_cast<double>(scan.points());
  CHECK(static_cast<double>(none) > 0.04 * points);  // dropouts, and the sky
  CHECK(static_cast<double>(none) < 0.5 * points);
  CHECK(static_cast<double>(ground) > 0.2 * points);
  CHECK(farthest > 30.0F);
  CHECK(farthest < 80.0F);
}

TEST_CASE("things move between scans while walls stand", "[client][lidar]") {
  const Lidar lidar({.rings = 16, .azimuths = 1024, .noise_m = 0, .dropouts = 0});
  const auto before = lidar.scan(0);
  const auto after = lidar.scan(10);
  std::size_t same = 0;
  std::size_t moved = 0;
  for (std::size_t i = 0; i < before.points(); ++i) {
    const auto a = point_of(before, i);
    const auto b = point_of(after, i);
    ++(std::hypot(a.x - b.x, a.y - b.y, a.z - b.z) < 0.001F ? same : moved);
  }
  CHECK(moved > 20);
  CHECK(same > 4 * moved);
}

TEST_CASE("a lidar of 64 rings and 1024 columns turns 20 times a second on a part of a core",
          "[client][lidar]") {
  const Lidar lidar({});
  const auto before = cpu_seconds();
  constexpr int kScans = 20;
  for (int i = 0; i < kScans; ++i)
    REQUIRE(lidar.scan(static_cast<std::uint64_t>(i)).points() == 65536);
  const auto share = cpu_seconds() - before;
  WARN("20 scans take " << share << " s of one core");
  CHECK(share <
        2.0);  // a bound against mistakes, not a benchmark: this may be an unoptimised build
}

}  // namespace simbridge::client
