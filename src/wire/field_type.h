#pragma once
// What: the protocol's Type numbers and their sizes.   Owner: nobody.   Threads: any.
#include <cstdint>
#include <string_view>

namespace simbridge::wire {

enum Type : std::uint32_t {
  kTypeInt8 = 1,
  kTypeUint8 = 2,
  kTypeInt16 = 3,
  kTypeUint16 = 4,
  kTypeInt32 = 5,
  kTypeUint32 = 6,
  kTypeFloat32 = 7,
  kTypeFloat64 = 8,
  kTypeInt64 = 9,
  kTypeUint64 = 10,
  kTypeBool = 11,
};

/// 0 for a type that this version does not know.
constexpr std::uint32_t size_of(std::uint32_t type) {
  switch (type) {
    case kTypeInt8:
    case kTypeUint8:
    case kTypeBool:
      return 1;
    case kTypeInt16:
    case kTypeUint16:
      return 2;
    case kTypeInt32:
    case kTypeUint32:
    case kTypeFloat32:
      return 4;
    case kTypeFloat64:
    case kTypeInt64:
    case kTypeUint64:
      return 8;
    default:
      return 0;
  }
}

/// Bytes of a depth value, or 0 for an encoding that is not known.
constexpr std::uint32_t depth_value_bytes(std::string_view encoding) {
  if (encoding == "16UC1") return 2;
  if (encoding == "32FC1") return 4;
  return 0;
}

}  // namespace simbridge::wire
