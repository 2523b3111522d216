#pragma once
// What: a point cloud as its producer lays it out: records of point_step bytes, as in PointCloud2.
// Owner: who made it, a value.   Threads: values, any.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simbridge::client {

/// The numbers of bridge.proto's Type.
enum class FieldType : std::uint8_t {
  kUnspecified = 0,
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
};

[[nodiscard]] constexpr std::size_t size_of(FieldType type) {
  switch (type) {
    case FieldType::kInt8:
    case FieldType::kUint8:
      return 1;
    case FieldType::kInt16:
    case FieldType::kUint16:
      return 2;
    case FieldType::kInt32:
    case FieldType::kUint32:
    case FieldType::kFloat32:
      return 4;
    case FieldType::kFloat64:
    case FieldType::kInt64:
    case FieldType::kUint64:
      return 8;
    case FieldType::kUnspecified:
      break;
  }
  return 0;
}

struct CloudField {
  std::string name;  // "_" is padding
  std::uint32_t offset = 0;
  FieldType type = FieldType::kUnspecified;
  std::uint32_t count = 1;

  friend bool operator==(const CloudField&, const CloudField&) = default;
};

/// Where the points were seen from: position and a quaternion, as PCD's VIEWPOINT.
struct Viewpoint {
  double x = 0, y = 0, z = 0;
  double qw = 1, qx = 0, qy = 0, qz = 0;

  friend bool operator==(const Viewpoint&, const Viewpoint&) = default;
};

struct PointCloudData {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t point_step = 0;
  bool is_dense = false;
  std::vector<CloudField> fields;
  Viewpoint viewpoint;
  std::string data;  // width × height records, little-endian, without padding between rows

  [[nodiscard]] std::uint64_t points() const { return static_cast<std::uint64_t>(width) * height; }
};

}  // namespace simbridge::client
