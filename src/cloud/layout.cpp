#include "cloud/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace simbridge::cloud {

std::uint32_t size_of(Type type) {
  switch (type) {
    case Type::kInt8:
    case Type::kUint8:
    case Type::kBool:
      return 1;
    case Type::kInt16:
    case Type::kUint16:
      return 2;
    case Type::kInt32:
    case Type::kUint32:
    case Type::kFloat32:
      return 4;
    case Type::kFloat64:
    case Type::kInt64:
    case Type::kUint64:
      return 8;
    case Type::kUnknown:
      break;
  }
  return 0;
}

bool is_padding(std::string_view name) {
  return name.empty() || name == "_";
}

bool is_integer(Type type) {
  return (type >= Type::kInt8 && type <= Type::kUint32) || type == Type::kInt64 ||
         type == Type::kUint64;
}

bool is_number(Type type) {
  return is_integer(type) || type == Type::kFloat32 || type == Type::kFloat64;
}

bool is_coordinate_type(Type type) {
  return type == Type::kFloat32 || type == Type::kFloat64 ||
         (type >= Type::kInt8 && type <= Type::kUint32);
}

namespace {

__extension__ using Wide = unsigned __int128;

std::size_t first_named(const CloudView& cloud, std::string_view name) {
  const auto found = std::ranges::find(cloud.fields, name, &Field::name);
  return found == cloud.fields.end() ? Layout::kNoField
                                     : static_cast<std::size_t>(found - cloud.fields.begin());
}

std::unexpected<Error> broken(std::string detail) {
  return fail(ErrorCode::kInvalid, std::move(detail));
}

// Records of one length, in rows.
Result<void> resolve_records(const CloudView& cloud, Layout& layout) {
  const Wide tight = Wide{cloud.width} * cloud.point_step;
  const Wide needed = Wide{cloud.height - 1} * cloud.row_step + tight;
  if (cloud.point_step == 0) return broken("point_step: 0, with points");
  if (cloud.height > 1 && cloud.row_step < tight)
    return broken(fmt::format("row_step: {} is less than a row needs", cloud.row_step));
  if (needed > cloud.data.size())
    return broken(
        fmt::format("data: {} bytes are too few for {} points", cloud.data.size(), layout.points));
  layout.records = cloud.data.data();
  layout.record_step = cloud.point_step;
  if (cloud.height == 1 || cloud.row_step == tight) {
    layout.width = layout.points;
  } else if (cloud.width == 1) {
    layout.width = layout.points;
    layout.record_step = cloud.row_step;  // rows of one point are points with a longer step
  } else {
    layout.width = cloud.width;
    layout.row_step = cloud.row_step;
  }
  for (const Field& field : cloud.fields) {
    const Column column{.start = layout.records + field.offset,
                        .step = layout.record_step,
                        .type = field.type,
                        .count = field.count};
    if (Wide{field.offset} + column.bytes() > cloud.point_step)
      return broken(fmt::format("{}: ends beyond point_step, {}", field.name, cloud.point_step));
    layout.columns.push_back(column);
  }
  return {};
}

// A block for each field.
Result<void> resolve_blocks(const CloudView& cloud, Layout& layout) {
  layout.width = layout.points;
  for (const Field& field : cloud.fields) {
    Column column{
        .start = cloud.data.data() + field.offset, .type = field.type, .count = field.count};
    column.step = column.bytes();
    if (Wide{field.offset} + Wide{column.step} * layout.points > cloud.data.size())
      return broken(fmt::format("{}: the block ends beyond the data", field.name));
    layout.columns.push_back(column);
  }
  return {};
}

Result<void> resolve_axes(const CloudView& cloud, Layout& layout) {
  layout.axis_field = {first_named(cloud, "x"), first_named(cloud, "y"), first_named(cloud, "z")};
  const bool apart =
      std::ranges::find(layout.axis_field, Layout::kNoField) == layout.axis_field.end();
  if (!apart) {
    const std::size_t xyz = first_named(cloud, "xyz");
    if (xyz == Layout::kNoField) return broken("fields: neither x, y and z nor xyz are there");
    layout.axis_field = {xyz, xyz, xyz};
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::size_t field = layout.axis_field[axis];
    const Column& column = layout.columns[field];
    if (!is_coordinate_type(column.type) ||
        column.type != layout.columns[layout.axis_field[0]].type ||
        column.count != (apart ? 1U : 3U))
      return broken(
          fmt::format("{}: type and count are not those of coordinates", cloud.fields[field].name));
    layout.axes[axis] = column;
    layout.axes[axis].count = 1;
    if (!apart) layout.axes[axis].start += axis * size_of(column.type);
  }
  return {};
}

}  // namespace

Result<void> resolve(const CloudView& cloud, Layout& layout) {
  layout = Layout{.swap = cloud.big_endian != (std::endian::native == std::endian::big),
                  .columns = std::move(layout.columns)};
  layout.columns.clear();
  if (cloud.points() == 0) {
    for (const Field& field : cloud.fields)
      layout.columns.push_back({.type = field.type, .count = field.count});
    return {};
  }
  if (cloud.points() > (std::uint64_t{1} << 28U))
    return broken(fmt::format("{} points are more than can be numbered", cloud.points()));
  layout.points = static_cast<std::uint32_t>(cloud.points());
  auto placed = cloud.soa ? resolve_blocks(cloud, layout) : resolve_records(cloud, layout);
  if (!placed) return placed;
  return resolve_axes(cloud, layout);
}

}  // namespace simbridge::cloud
