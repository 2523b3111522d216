#include "client/lidar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <random>

namespace simbridge::client {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr float kMountHeight = 1.8F;     // of the sensor over the ground
constexpr double kLowest = -25.0 / 180;  // elevations, in units of pi
constexpr double kHighest = 15.0 / 180;
constexpr float kGroundReflectivity = 0.2F;
constexpr float kNearest = 0.5F;

/// As a ROS driver lays it out; two bytes of padding at the end.
struct Record {
  float x = 0, y = 0, z = 0, intensity = 0;
  std::uint32_t t = 0;
  std::uint16_t ring = 0;
  std::uint16_t padding = 0;
};
static_assert(sizeof(Record) == 24);

/// SplitMix64's finaliser: 64 good bits from any number.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

/// The random part of one ray: whether it drops out, and a number near a normal one.
struct Luck {
  float chance = 0;  // 0…1
  float normal = 0;  // mean 0, deviation 1: the sum of three uniform ones
};

Luck luck_of(std::uint64_t ray_key) {
  const auto bits = mixed(ray_key);
  constexpr float kUnit = 1.0F / 65536.0F;
  const auto part = [bits](unsigned shift) {
    return static_cast<float>((bits >> shift) & 0xFFFFU) * kUnit;
  };
  // Each uniform part has variance 1/12, three of them 1/4.
  return {.chance = part(0), .normal = (part(16) + part(32) + part(48) - 1.5F) * 2.0F};
}

/// Distance along the ray (cx, cy) from the origin to a piece of wall; 0 = passes it by.
double distance_to(double cx, double cy, double x0, double y0, double x1, double y1) {
  const double dx = x1 - x0;
  const double dy = y1 - y0;
  const double cross = cx * dy - cy * dx;
  if (std::abs(cross) < 1e-12) return 0;
  const double distance = (x0 * dy - y0 * dx) / cross;
  const double along = (x0 * cy - y0 * cx) / cross;
  return distance > 0 && along >= 0 && along <= 1 ? distance : 0;
}

double distance_to_circle(double cx, double cy, double x, double y, double radius) {
  const double along = cx * x + cy * y;
  const double aside2 = x * x + y * y - along * along;
  if (along <= 0 || aside2 > radius * radius) return 0;
  return along - std::sqrt(radius * radius - aside2);
}

}  // namespace

Lidar::Lidar(const LidarOptions& options) : options_(options) {
  // A slower sensor still turns at this speed, so that t stays within 32 bits.
  options_.rate_hz = std::max(options_.rate_hz, 1.0);
  for (std::uint32_t ring = 0; ring < options_.rings; ++ring) {
    const double part = options_.rings > 1 ? static_cast<double>(ring) / (options_.rings - 1) : 0.5;
    const double elevation = (kLowest + (kHighest - kLowest) * part) * kPi;
    slopes_.push_back(static_cast<float>(std::tan(elevation)));
    stretch_.push_back(static_cast<float>(1.0 / std::cos(elevation)));
  }
  build_scene();
}

void Lidar::build_scene() {
  std::mt19937_64 random(options_.seed);
  const auto between = [&random](double low, double high) {
    return low + (high - low) * (static_cast<double>(random() >> 11U) * 0x1.0p-53);
  };
  // The yard's walls.
  const double east = between(35, 60);
  const double west = -between(35, 60);
  const double north = between(25, 45);
  const double south = -between(25, 45);
  for (const auto& [x0, y0, x1, y1] : {std::array{west, south, east, south},
                                       std::array{east, south, east, north},
                                       std::array{east, north, west, north},
                                       std::array{west, north, west, south}})
    walls_.push_back({.x0 = x0, .y0 = y0, .x1 = x1, .y1 = y1, .height = 5, .reflectivity = 0.5});
  for (int house = 0; house < 4; ++house) {
    const double angle = (house + between(0.2, 0.8)) * kPi / 2;
    const double away = between(14, 22);
    add_house(away * std::cos(angle),
              away * std::sin(angle),
              between(3, 7),
              between(3, 7),
              between(2.5, 9),
              between(0.3, 0.7));
  }
  for (int person = 0; person < 6; ++person)
    movers_.push_back({.x = between(-8, 8),
                       .y = between(-8, 8),
                       .orbit = between(2, 6),
                       .turns_per_s = between(-0.05, 0.05),
                       .phase = between(0, 1),
                       .radius = between(0.2, 0.35),
                       .height = between(1.5, 1.95),
                       .reflectivity = between(0.3, 0.9)});
  for (int car = 0; car < 4; ++car)
    movers_.push_back({.orbit = between(9, 30),
                       .turns_per_s = between(0.02, 0.06) * (car % 2 == 0 ? 1 : -1),
                       .phase = between(0, 1),
                       .length = between(3.8, 5.2),
                       .width = between(1.7, 2.1),
                       .height = between(1.4, 2.2),
                       .reflectivity = between(0.4, 1.0)});
}

void Lidar::add_house(
    double x, double y, double width, double depth, double height, double reflectivity) {
  const double x0 = x - width / 2;
  const double x1 = x + width / 2;
  const double y0 = y - depth / 2;
  const double y1 = y + depth / 2;
  for (const auto& [ax, ay, bx, by] : {std::array{x0, y0, x1, y0},
                                       std::array{x1, y0, x1, y1},
                                       std::array{x1, y1, x0, y1},
                                       std::array{x0, y1, x0, y0}})
    walls_.push_back(
        {.x0 = ax, .y0 = ay, .x1 = bx, .y1 = by, .height = height, .reflectivity = reflectivity});
}

void Lidar::hits_of_column(double azimuth, double time_s, std::vector<Hit>& hits) const {
  hits.clear();
  const double cx = std::cos(azimuth);
  const double cy = std::sin(azimuth);
  const auto add = [&hits](double distance, double height, double reflectivity) {
    if (distance < kNearest) return;
    hits.push_back({.distance = static_cast<float>(distance),
                    .bottom = -kMountHeight,
                    .top = static_cast<float>(height) - kMountHeight,
                    .reflectivity = static_cast<float>(reflectivity)});
  };
  for (const auto& wall : walls_)
    add(distance_to(cx, cy, wall.x0, wall.y0, wall.x1, wall.y1), wall.height, wall.reflectivity);
  for (const auto& mover : movers_) {
    const double angle = 2 * kPi * (mover.phase + mover.turns_per_s * time_s);
    const double ox = std::cos(angle);
    const double oy = std::sin(angle);
    const double x = mover.x + mover.orbit * ox;
    const double y = mover.y + mover.orbit * oy;
    if (mover.radius > 0) {
      add(distance_to_circle(cx, cy, x, y, mover.radius), mover.height, mover.reflectivity);
      continue;
    }
    // A car drives along its circle: its length lies across the line to the centre.
    const double lx = -oy * mover.length / 2;
    const double ly = ox * mover.length / 2;
    const double wx = ox * mover.width / 2;
    const double wy = oy * mover.width / 2;
    const std::array<double, 8> corners{x + lx + wx,
                                        y + ly + wy,
                                        x - lx + wx,
                                        y - ly + wy,
                                        x - lx - wx,
                                        y - ly - wy,
                                        x + lx - wx,
                                        y + ly - wy};
    for (std::size_t side = 0; side < 4; ++side) {
      const auto from = 2 * side;
      const auto to = 2 * ((side + 1) % 4);
      add(distance_to(cx, cy, corners[from], corners[from + 1], corners[to], corners[to + 1]),
          mover.height,
          mover.reflectivity);
    }
  }
  std::ranges::sort(hits, {}, &Hit::distance);
}

std::uint64_t Lidar::scan_bytes() const {
  return std::uint64_t{options_.rings} * options_.azimuths * sizeof(Record);
}

PointCloudData Lidar::scan(std::uint64_t index) const {
  PointCloudData cloud{.width = options_.azimuths,
                       .height = options_.rings,
                       .point_step = sizeof(Record),
                       .is_dense = true};
  const auto field = [&cloud](const char* name, std::uint32_t offset, FieldType type) {
    cloud.fields.push_back({.name = name, .offset = offset, .type = type});
  };
  field("x", offsetof(Record, x), FieldType::kFloat32);
  field("y", offsetof(Record, y), FieldType::kFloat32);
  field("z", offsetof(Record, z), FieldType::kFloat32);
  field("intensity", offsetof(Record, intensity), FieldType::kFloat32);
  field("t", offsetof(Record, t), FieldType::kUint32);
  field("ring", offsetof(Record, ring), FieldType::kUint16);
  cloud.data.resize(scan_bytes());

  const double turn_s = 1.0 / options_.rate_hz;
  const auto scan_key = mixed(options_.seed ^ mixed(index + 1));
  std::vector<Hit> hits;
  for (std::uint32_t column = 0; column < options_.azimuths; ++column) {
    const double part = static_cast<double>(column) / options_.azimuths;
    const double azimuth = 2 * kPi * part;
    hits_of_column(azimuth, (static_cast<double>(index) + part) * turn_s, hits);
    const auto cx = static_cast<float>(std::cos(azimuth));
    const auto cy = static_cast<float>(std::sin(azimuth));
    const auto t = static_cast<std::uint32_t>(part * turn_s * 1e9);
    for (std::uint32_t ring = 0; ring < options_.rings; ++ring) {
      const float slope = slopes_[ring];
      float distance = slope < 0 ? -kMountHeight / slope : options_.range_m * 2;
      float reflectivity = kGroundReflectivity;
      for (const auto& hit : hits) {
        if (hit.distance >= distance) break;
        const float z = hit.distance * slope;
        if (z < hit.bottom || z > hit.top) continue;
        distance = hit.distance;
        reflectivity = hit.reflectivity;
        break;
      }
      const auto at = std::size_t{ring} * options_.azimuths + column;
      const auto luck = luck_of(scan_key + at * 0x9E3779B97F4A7C15U);
      Record record{.t = t, .ring = static_cast<std::uint16_t>(ring)};
      const float range = distance * stretch_[ring];
      if (range <= options_.range_m && luck.chance >= options_.dropouts) {
        const float noisy = (range + luck.normal * options_.noise_m) / stretch_[ring];
        record.x = noisy * cx;
        record.y = noisy * cy;
        record.z = noisy * slope;
        record.intensity =
            std::max(0.0F, 100.0F * reflectivity / (1.0F + 0.02F * range) + luck.normal);
      }
      std::memcpy(cloud.data.data() + at * sizeof(Record), &record, sizeof(record));
    }
  }
  return cloud;
}

}  // namespace simbridge::client
