#include "pipeline/cloud_form.h"

#include <fmt/format.h>

namespace simbridge::pipeline {

Result<cloud::CloudView> view_of(const wire::FrameHead& head,
                                 std::uint64_t sequence,
                                 std::span<const std::byte> data,
                                 std::vector<cloud::Field>& fields) {
  const wire::CloudHead& cloud = head.cloud;
  cloud::CloudView view{.width = cloud.width, .height = cloud.height};
  view.stamp_ns = head.stamp_ns;
  view.sequence = sequence;
  if (head.points() == 0) return view;  // its fields, steps and codec were not judged
  if (cloud.codec != 0)
    return fail(ErrorCode::kInvalid, fmt::format("codec {} is not decoded here", cloud.codec));
  fields.clear();
  for (const wire::FieldHead& field : cloud.fields) {
    const bool known = field.type <= static_cast<std::uint32_t>(cloud::Type::kBool);
    fields.push_back({.name = field.name,
                      .offset = field.offset,
                      .type = known ? static_cast<cloud::Type>(field.type) : cloud::Type::kUnknown,
                      .count = field.count == 0 ? 1 : field.count});
  }
  view.fields = fields;
  view.soa = wire::is_soa(cloud);
  view.point_step = cloud.point_step;
  view.row_step = static_cast<std::uint32_t>(wire::row_step_as_read(cloud, data.size()));
  view.big_endian = cloud.is_bigendian;
  view.time_field = cloud.time_field;
  view.time_num = cloud.time_scale_num == 0 ? 1 : cloud.time_scale_num;
  view.time_den = cloud.time_scale_den == 0 ? 1 : cloud.time_scale_den;
  view.time_absolute = cloud.time_absolute;
  view.data = data;
  return view;
}

void make_derived(wire::FrameHead& head,
                  const cloud::DecimatedCloud& cloud,
                  cloud::Output output,
                  wire::DecimatedBy by) {
  wire::CloudHead& out = head.cloud;
  out.height = cloud.height;
  out.width = cloud.width;
  out.fields.clear();
  for (const cloud::ResultField& field : cloud.fields) {
    out.fields.push_back({.name = field.name,
                          .offset = field.offset,
                          .type = static_cast<std::uint32_t>(field.type),
                          .count = field.count});
  }
  out.point_step = cloud.point_step;
  out.row_step = cloud.row_step;
  out.is_bigendian = cloud.big_endian;
  out.is_dense = cloud.is_dense;
  wire::set_soa(out, cloud.soa);
  out.codec = 0;
  out.raw_size = 0;
  if (output != cloud::Output::kAsSent) {
    out.time_field = {};
    out.time_scale_num = out.time_scale_den = 0;
    out.time_absolute = false;
  }
  head.crc32c.reset();  // it was of other bytes
  wire::Result& result = head.result.emplace();
  result.points_in = cloud.points_in;
  result.points_out = cloud.points_out;
  result.by = by;
  result.leaf = cloud.leaf;
  result.dropped_nonfinite = cloud.dropped_nonfinite;
  result.dropped_zero = cloud.dropped_zero;
  result.dropped_region = cloud.dropped_region;
  result.dropped_extent = cloud.dropped_extent;
  if (cloud.box) {
    const auto& [min, max] = *cloud.box;
    result.box =
        std::array{wire::Vector3{min[0], min[1], min[2]}, wire::Vector3{max[0], max[1], max[2]}};
  }
}

}  // namespace simbridge::pipeline
