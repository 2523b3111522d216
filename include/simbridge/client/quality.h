#pragma once
// What: what a consumer asks for on the command line: a leaf, a region, an output; and the words of
// it. `watch` sends it to a bridge, `decimate` does it here.   Owner: who made it, a value.
// Threads: values, any.
#include "simbridge/base/result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simbridge::client {

/// The numbers of bridge.proto.
enum class Sampling : std::uint8_t {
  kUnspecified = 0,
  kVoxelCentroid = 1,
  kVoxelNearest = 2,
  kStride = 3,
  kRandom = 4,
  kVoxelFirst = 5,
};
enum class Output : std::uint8_t { kAsSent = 0, kXyz = 1, kFlat = 2 };

struct Region {
  std::array<double, 3> min{}, max{};
};

/// Quality without its rate.
struct Quality {
  double leaf = 0;  // metres; 0 = none
  std::uint64_t max_points = 0;
  Sampling sampling = Sampling::kUnspecified;
  std::optional<Region> region;
  double min_range = 0, max_range = 0;  // metres; 0 = none
  Output output = Output::kAsSent;
};

/// As typed. Empty words: the defaults.
struct QualityWords {
  double leaf = 0;
  std::uint64_t max_points = 0;
  std::string sampling;  // centroid, nearest, first, stride, random
  std::string region;    // XMIN,YMIN,ZMIN:XMAX,YMAX,ZMAX
  double min_range = 0, max_range = 0;
  std::string output;  // as-sent, xyz, flat
};
/// The error names the flag.
Result<Quality> parse_quality(const QualityWords& words);

}  // namespace simbridge::client
