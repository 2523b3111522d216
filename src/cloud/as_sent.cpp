#include "cloud/as_sent.h"

#include "cloud/values.h"

#include <array>
#include <cstring>

namespace simbridge::cloud {
namespace {

std::uint64_t next_multiple_of_8(std::uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

void copy_fields(const CloudView& cloud, DecimatedCloud& out) {
  out.fields.resize(cloud.fields.size());
  for (std::size_t i = 0; i < cloud.fields.size(); ++i) {
    const Field& field = cloud.fields[i];
    out.fields[i].name = field.name;
    out.fields[i].offset = field.offset;
    out.fields[i].type = field.type;
    out.fields[i].count = field.count;
  }
}

void copy_records(const Layout& layout,
                  std::span<const std::uint32_t> points,
                  DecimatedCloud& out) {
  const std::size_t step = out.point_step;
  out.data.resize(points.size() * step);
  const Column record{.start = layout.records, .step = layout.record_step};
  std::byte* to = out.data.data();
  for (const std::uint32_t point : points) {
    std::memcpy(to, layout.at(record, point), step);
    to += step;
  }
}

void copy_blocks(const Layout& layout, std::span<const std::uint32_t> points, DecimatedCloud& out) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < out.fields.size(); ++i) {
    out.fields[i].offset = static_cast<std::uint32_t>(next_multiple_of_8(end));
    end = out.fields[i].offset + layout.columns[i].bytes() * points.size();
  }
  out.data.assign(end, std::byte{0});
  for (std::size_t i = 0; i < out.fields.size(); ++i) {
    const Column& column = layout.columns[i];
    const std::size_t bytes = column.bytes();
    std::byte* to = out.data.data() + out.fields[i].offset;
    for (const std::uint32_t point : points) {
      std::memcpy(to, layout.at(column, point), bytes);
      to += bytes;
    }
  }
}

}  // namespace

void write_as_sent(const CloudView& cloud,
                   const Layout& layout,
                   std::span<const std::uint32_t> points,
                   DecimatedCloud& out) {
  out.soa = cloud.soa;
  out.big_endian = cloud.big_endian;
  out.point_step = cloud.soa ? 0 : cloud.point_step;
  copy_fields(cloud, out);
  if (points.empty()) {
    out.data.clear();
    if (cloud.soa)
      for (ResultField& field : out.fields) field.offset = 0;
    return;
  }
  if (cloud.soa)
    copy_blocks(layout, points, out);
  else
    copy_records(layout, points, out);
}

void put_coordinates(const Layout& layout,
                     const CoordinateBlock<double>& coordinates,
                     std::uint32_t first,
                     std::uint32_t count,
                     DecimatedCloud& out) {
  const std::array values{&coordinates.x, &coordinates.y, &coordinates.z};
  const bool together = layout.axis_field[0] == layout.axis_field[1];
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const ResultField& field = out.fields[layout.axis_field[axis]];
    const std::uint64_t size = size_of(field.type);
    const std::uint64_t step = out.soa ? size * field.count : out.point_step;
    std::byte* to = out.data.data() + field.offset + (together ? axis * size : 0) + first * step;
    with_coordinate_type(field.type, [&]<typename T>() {
      for (std::uint32_t i = 0; i < count; ++i, to += step)
        store(to, rounded_to<T>((*values[axis])[i]), layout.swap);
    });
  }
}

}  // namespace simbridge::cloud
