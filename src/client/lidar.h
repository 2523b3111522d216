#pragma once
// What: a simulated spinning lidar: rings of rays over a yard with walls, houses, people and cars
// that move while it turns; noise, dropouts. The same seed and number give the same scan.
// Owner: who made it.   Threads: one at a time.
#include "simbridge/client/point_cloud.h"

#include <cstdint>
#include <vector>

namespace simbridge::client {

struct LidarOptions {
  std::uint32_t rings = 64;
  std::uint32_t azimuths = 1024;
  std::uint64_t seed = 1;
  double rate_hz = 10;     // turns a second
  float noise_m = 0.02F;   // standard deviation of a range
  float dropouts = 0.02F;  // share of rays that return nothing
  float range_m = 120;
};

class Lidar {
 public:
  explicit Lidar(const LidarOptions& options);

  /// The scan of turn number index: organised, rings × azimuths; a ray without return is (0, 0, 0),
  /// as the drivers give it. Fields x y z intensity (float32), t (uint32, ns in the turn), ring.
  [[nodiscard]] PointCloudData scan(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t scan_bytes() const;

 private:
  /// Something upright: a ray of the column meets it at this distance on the ground.
  struct Hit {
    float distance = 0, bottom = 0, top = 0, reflectivity = 0;
  };
  struct Wall {
    double x0 = 0, y0 = 0, x1 = 0, y1 = 0, height = 0, reflectivity = 0;
  };
  /// Walks or drives on a circle.
  struct Mover {
    double x = 0, y = 0, orbit = 0, turns_per_s = 0, phase = 0;
    double radius = 0;  // of a person, round; 0: a car, a box on its way
    double length = 0, width = 0, height = 0, reflectivity = 0;
  };

  void build_scene();
  void add_house(
      double x, double y, double width, double depth, double height, double reflectivity);
  void hits_of_column(double azimuth, double time_s, std::vector<Hit>& hits) const;

  LidarOptions options_;
  std::vector<float> slopes_;   // of each ring: rise per metre on the ground
  std::vector<float> stretch_;  // of each ring: metres of ray per metre on the ground
  std::vector<Wall> walls_;
  std::vector<Mover> movers_;
};

}  // namespace simbridge::client
