#pragma once
// What: single values out of and into records: unaligned, in either byte order.
// Owner: nobody, pure functions.   Threads: any.
#include "simbridge/cloud/decimator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace simbridge::cloud {

template <std::size_t Size>
using UnsignedOf = std::conditional_t<
    Size == 1,
    std::uint8_t,
    std::conditional_t<Size == 2,
                       std::uint16_t,
                       std::conditional_t<Size == 4, std::uint32_t, std::uint64_t>>>;

constexpr std::uint8_t swapped(std::uint8_t bits) {
  return bits;
}
constexpr std::uint16_t swapped(std::uint16_t bits) {
  return __builtin_bswap16(bits);
}
constexpr std::uint32_t swapped(std::uint32_t bits) {
  return __builtin_bswap32(bits);
}
constexpr std::uint64_t swapped(std::uint64_t bits) {
  return __builtin_bswap64(bits);
}

template <typename T>
T load(const std::byte* from, bool swap) {
  UnsignedOf<sizeof(T)> bits{};
  std::memcpy(&bits, from, sizeof bits);
  return std::bit_cast<T>(swap ? swapped(bits) : bits);
}
template <typename T>
void store(std::byte* to, T value, bool swap) {
  auto bits = std::bit_cast<UnsignedOf<sizeof(T)>>(value);
  if (swap) bits = swapped(bits);
  std::memcpy(to, &bits, sizeof bits);
}

/// Calls what.operator()<T>() for the C++ type of a number; false for kUnknown and kBool.
template <typename What>
bool with_number_type(Type type, What&& what) {
  switch (type) {
    case Type::kInt8:
      what.template operator()<std::int8_t>();
      return true;
    case Type::kUint8:
      what.template operator()<std::uint8_t>();
      return true;
    case Type::kInt16:
      what.template operator()<std::int16_t>();
      return true;
    case Type::kUint16:
      what.template operator()<std::uint16_t>();
      return true;
    case Type::kInt32:
      what.template operator()<std::int32_t>();
      return true;
    case Type::kUint32:
      what.template operator()<std::uint32_t>();
      return true;
    case Type::kFloat32:
      what.template operator()<float>();
      return true;
    case Type::kFloat64:
      what.template operator()<double>();
      return true;
    case Type::kInt64:
      what.template operator()<std::int64_t>();
      return true;
    case Type::kUint64:
      what.template operator()<std::uint64_t>();
      return true;
    case Type::kUnknown:
    case Type::kBool:
      break;
  }
  return false;
}
/// The same for the types that coordinates may have.
template <typename What>
bool with_coordinate_type(Type type, What&& what) {
  return with_number_type(type, [&]<typename T>() {
    if constexpr (!(std::is_integral_v<T> && sizeof(T) == 8)) what.template operator()<T>();
  });
}

/// Half to even, and the nearest that T has. value is no NaN.
template <typename T>
T rounded_to(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    static_assert(sizeof(T) <= 4, "a double holds every one of these");
    constexpr double kLow = std::numeric_limits<T>::min();
    constexpr double kHigh = std::numeric_limits<T>::max();
    return static_cast<T>(std::clamp(std::rint(value), kLow, kHigh));
  }
}

}  // namespace simbridge::cloud
