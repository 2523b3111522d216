#pragma once
// What: the seam of decimation: a point cloud as it was transmitted and what a quality asks of it,
// in; the points that remain, out. Implementations: CPU, PCL (a reference, a target of its own),
// later the GPU worker. Owner: the pipeline has one Decimator a thread.   Threads: a Decimator and
// its result belong to one thread; it keeps its scratch between frames.
#include "simbridge/base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::cloud {

/// The protocol's numbers (those of sensor_msgs/PointField, continued).
enum class Type : std::uint8_t {
  kUnknown = 0,
  kInt8 = 1,
  kUint8 = 2,
  kInt16 = 3,
  kUint16 = 4,
  kInt32 = 5,
  kUint32 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kInt64 = 9,
  kUint64 = 10,
  kBool = 11,
};
/// Bytes of one value; 0 for kUnknown and numbers outside the enum.
std::uint32_t size_of(Type type);

struct Field {
  std::string_view name;
  std::uint32_t offset = 0;  // in the point's record; with soa where the block starts
  Type type = Type::kUnknown;
  std::uint32_t count = 1;  // never 0 here
};

/// A cloud as transmitted, raw bytes (decoded where a codec was). It has passed
/// wire::check_payload: every field ends within its record, every record within data, x, y, z (or
/// xyz) are there.
struct CloudView {
  std::uint32_t width = 0, height = 0;
  std::span<const Field> fields;  // as sent: padding and duplicates included
  std::uint32_t point_step = 0;   // 0 with soa
  std::uint32_t row_step =
      0;  // as read (protocol.md §3): tight where the sender's is not to be used
  bool big_endian = false;
  bool soa = false;  // a block of data for each field, at its offset
  // Per-point time: value * num / den nanoseconds after stamp (den and num are never 0 here).
  std::string_view time_field;  // empty: none
  std::int64_t time_num = 1, time_den = 1;
  bool time_absolute = false;
  std::int64_t stamp_ns = 0;
  std::uint64_t sequence = 0;  // seeds RANDOM
  std::span<const std::byte> data;
  [[nodiscard]] std::uint64_t points() const { return std::uint64_t{width} * height; }
};

enum class Sampling : std::uint8_t {
  kNone = 0,  // every point that the filters leave
  kVoxelCentroid = 1,
  kVoxelNearest = 2,
  kStride = 3,
  kRandom = 4,
  kVoxelFirst = 5,
};
enum class Output : std::uint8_t { kAsSent = 0, kXyz = 1, kFlat = 2 };

template <typename T>
struct Box {
  std::array<T, 3> min{}, max{};
};

/// A quality without its rate, resolved: unspecified sampling is already NONE or VOXEL_CENTROID.
struct Request {
  Sampling sampling = Sampling::kNone;
  double leaf = 0;               // metres; 0 = none
  std::uint64_t max_points = 0;  // 0 = no budget
  using Box = cloud::Box<double>;
  std::optional<Box> region;            // inclusive, in the coordinates as transmitted
  double min_range = 0, max_range = 0;  // metres from the coordinates' zero; 0 = none
  bool keep_invalid = false;
  std::vector<std::string> fields;  // of kFlat; empty = all
  Output output = Output::kAsSent;
};
/// A sentence where this build cannot do it; empty where it can.
std::string unsupported(const Request& request);

struct ResultField {
  std::string name;  // of a flat block: at most 16 bytes (protocol.md §5)
  std::uint32_t offset = 0;
  Type type = Type::kUnknown;
  std::uint32_t count = 1;
};

/// What remains. Reused from frame to frame: vectors keep their capacity.
struct DecimatedCloud {
  std::vector<std::byte> data;
  std::vector<ResultField> fields;
  std::uint32_t width = 0, height = 0;
  std::uint32_t point_step = 0, row_step = 0;
  bool big_endian = false, soa = false, is_dense = true;
  // time of a kFlat result is int32 nanoseconds after stamp: no scale goes with it. kAsSent keeps
  // the sender's time_field.

  std::uint64_t points_in = 0, points_out = 0;
  // points_in - points_out - all of these = merged or not sampled
  std::uint64_t dropped_nonfinite = 0, dropped_zero = 0, dropped_region = 0, dropped_extent = 0;
  double leaf = 0;  // metres, as applied; 0 without a grid
  using Box = cloud::Box<float>;
  std::optional<Box> box;  // of the points that remain, finite ones; absent where there are none
  enum Warning : std::uint32_t { kTimeFieldUnusable = 1, kFieldLeftOut = 2 };
  std::uint32_t warnings = 0;
};

class Decimator {
 public:
  virtual ~Decimator() = default;
  Decimator(const Decimator&) = delete;
  Decimator& operator=(const Decimator&) = delete;
  /// "cpu", "pcl": Result.decimator of the protocol.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Fails with a sentence where the cloud cannot be had in this form (out is then not to be used).
  virtual Result<void> decimate(const CloudView& cloud,
                                const Request& request,
                                DecimatedCloud& out) = 0;
  /// Bytes of scratch that it keeps between frames.
  [[nodiscard]] virtual std::uint64_t scratch_bytes() const = 0;

 protected:
  Decimator() = default;
};

std::unique_ptr<Decimator> make_cpu_decimator();
/// PCL's VoxelGrid behind the same seam, to compare with: centroids to kXyz, in PCL's own order and
/// float32 arithmetic. In the library simbridge_cloud_pcl, where libpcl-dev was found; the daemon
/// does without.
std::unique_ptr<Decimator> make_pcl_decimator();

}  // namespace simbridge::cloud
