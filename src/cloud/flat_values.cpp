#include "cloud/flat_values.h"

#include "cloud/values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace simbridge::cloud {
namespace {

__extension__ using Wide = __int128;

std::int32_t saturated(Wide value) {
  constexpr Wide kLow = std::numeric_limits<std::int32_t>::min();
  constexpr Wide kHigh = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::int32_t>(std::clamp(value, kLow, kHigh));
}

// Half to even. A magnitude below 2^127 and one of at most 2^63: nothing overflows.
Wide divided(Wide value, Wide by) {
  const bool negative = (value < 0) != (by < 0);
  const Wide top = value < 0 ? -value : value;
  const Wide bottom = by < 0 ? -by : by;
  Wide quotient = top / bottom;
  const Wide rest = top % bottom;
  if (rest * 2 > bottom || (rest * 2 == bottom && quotient % 2 != 0)) ++quotient;
  return negative ? -quotient : quotient;
}

std::int32_t after_stamp(Wide time, const TimeRule& rule) {
  return saturated(rule.absolute ? time - rule.stamp_ns : time);
}

std::array<std::uint8_t, 4> bytes_of(std::uint32_t colour, bool has_alpha) {
  return {static_cast<std::uint8_t>(colour >> 16U),
          static_cast<std::uint8_t>(colour >> 8U),
          static_cast<std::uint8_t>(colour),
          static_cast<std::uint8_t>(has_alpha ? colour >> 24U : 255U)};
}

template <typename T, typename Convert>
void write_each(const Layout& layout,
                const Column& column,
                std::span<const std::uint32_t> points,
                std::byte* to,
                Convert convert) {
  for (const std::uint32_t point : points) {
    const auto value = convert(load<T>(layout.at(column, point), layout.swap));
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
}

template <typename T>
std::int32_t time_of_number(T value, const TimeRule& rule) {
  if constexpr (std::is_floating_point_v<T>)
    return time_of(static_cast<double>(value), rule);
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return time_of(value, rule);
  else
    return time_of(static_cast<std::int64_t>(value), rule);
}

template <typename T>
std::uint16_t ring_of(T value) {
  constexpr std::uint64_t kHigh = 65535;
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) return 0;
  }
  return static_cast<std::uint16_t>(std::min(static_cast<std::uint64_t>(value), kHigh));
}

// The field's own values, in our byte order.
void write_other(const Layout& layout,
                 const Column& column,
                 std::span<const std::uint32_t> points,
                 std::byte* to) {
  const std::size_t size = size_of(column.type);
  const std::size_t bytes = column.bytes();
  for (const std::uint32_t point : points) {
    const std::byte* from = layout.at(column, point);
    if (!layout.swap || size == 1) {
      std::memcpy(to, from, bytes);
      to += bytes;
      continue;
    }
    for (std::size_t i = 0; i < column.count; ++i, from += size, to += size)
      std::reverse_copy(from, from + size, to);
  }
}

}  // namespace

std::int32_t time_of(std::int64_t value, const TimeRule& rule) {
  return after_stamp(divided(Wide{value} * rule.num, rule.den), rule);
}
std::int32_t time_of(std::uint64_t value, const TimeRule& rule) {
  return after_stamp(divided(static_cast<Wide>(value) * rule.num, rule.den), rule);
}
std::int32_t time_of(double value, const TimeRule& rule) {
  constexpr double kFar = 0x1p100;  // farther than any stamp could bring back
  const double scaled = value * static_cast<double>(rule.num) / static_cast<double>(rule.den);
  if (std::isnan(scaled)) return 0;
  return after_stamp(static_cast<Wide>(std::clamp(std::rint(scaled), -kFar, kFar)), rule);
}

float intensity_of(const Layout& layout, const Column& column, std::uint32_t point) {
  float value = 0;
  with_number_type(column.type, [&]<typename T>() {
    value = static_cast<float>(load<T>(layout.at(column, point), layout.swap));
  });
  return value;
}

std::array<std::uint8_t, 4> colour_of(const Layout& layout,
                                      const Column& column,
                                      bool has_alpha,
                                      std::uint32_t point) {
  const std::byte* at = layout.at(column, point);
  if (column.type != Type::kUint8) return bytes_of(load<std::uint32_t>(at, layout.swap), has_alpha);
  std::array<std::uint8_t, 4> bytes{};
  std::memcpy(bytes.data(), at, bytes.size());
  return bytes;
}

void write_block(const CloudView& cloud,
                 const Layout& layout,
                 const FlatBlock& block,
                 std::span<const std::uint32_t> points,
                 std::byte* to) {
  const Column& column = layout.columns[block.field];
  switch (block.kind) {
    case FlatKind::kXyz:
      return;
    case FlatKind::kIntensity:
      with_number_type(column.type, [&]<typename T>() {
        write_each<T>(
            layout, column, points, to, [](T value) { return static_cast<float>(value); });
      });
      return;
    case FlatKind::kRgba:
      for (const std::uint32_t point : points) {
        const auto bytes =
            colour_of(layout, column, cloud.fields[block.field].name == "rgba", point);
        std::memcpy(to, bytes.data(), bytes.size());
        to += bytes.size();
      }
      return;
    case FlatKind::kRing:
      with_number_type(column.type, [&]<typename T>() {
        if constexpr (!std::is_floating_point_v<T>)
          write_each<T>(layout, column, points, to, [](T value) { return ring_of(value); });
      });
      return;
    case FlatKind::kTime: {
      const TimeRule rule{.num = cloud.time_num,
                          .den = cloud.time_den,
                          .absolute = cloud.time_absolute,
                          .stamp_ns = cloud.stamp_ns};
      with_number_type(column.type, [&]<typename T>() {
        write_each<T>(
            layout, column, points, to, [&](T value) { return time_of_number(value, rule); });
      });
      return;
    }
    case FlatKind::kOther:
      write_other(layout, column, points, to);
      return;
  }
}

void AttributeSums::begin(const CloudView& cloud,
                          const Layout& layout,
                          std::span<const FlatBlock> blocks,
                          bool wide) {
  intensity_ = nullptr;
  colour_ = nullptr;
  wide_ = wide;
  used_intensity_ = 0;
  used_colour_ = 0;
  for (const FlatBlock& block : blocks) {
    if (block.kind == FlatKind::kIntensity) intensity_ = &layout.columns[block.field];
    if (block.kind == FlatKind::kRgba) {
      colour_ = &layout.columns[block.field];
      has_alpha_ = cloud.fields[block.field].name == "rgba";
    }
  }
}

void AttributeSums::add(const Layout& layout,
                        std::uint32_t cells,
                        std::uint32_t first_point,
                        std::uint32_t points,
                        const CellIds& ids) {
  const std::size_t count = std::size_t{cells} + 1;
  if (intensity_ != nullptr) {
    if (wide_)
      extend(wide_intensity_, used_intensity_, count);
    else
      extend(narrow_intensity_, used_intensity_, count);
    for (std::uint32_t i = 0; i < points; ++i) {
      const std::int64_t fixed =
          kernels::fixed_of(intensity_of(layout, *intensity_, first_point + i));
      if (wide_)
        wide_intensity_[ids[i]] += fixed;
      else
        narrow_intensity_[ids[i]] += fixed;
    }
  }
  if (colour_ == nullptr) return;
  if (wide_)
    extend(wide_colour_, used_colour_, count);
  else
    extend(narrow_colour_, used_colour_, count);
  for (std::uint32_t i = 0; i < points; ++i) {
    const auto bytes = colour_of(layout, *colour_, has_alpha_, first_point + i);
    for (std::size_t channel = 0; channel < 4; ++channel) {
      if (wide_)
        wide_colour_[ids[i]][channel] += bytes[channel];
      else
        narrow_colour_[ids[i]][channel] += bytes[channel];
    }
  }
}

std::uint64_t AttributeSums::bytes() const {
  return narrow_intensity_.bytes() + wide_intensity_.bytes() + narrow_colour_.bytes() +
         wide_colour_.bytes();
}

void AttributeSums::release() {
  narrow_intensity_.release();
  wide_intensity_.release();
  narrow_colour_.release();
  wide_colour_.release();
}

}  // namespace simbridge::cloud
