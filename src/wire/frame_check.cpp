// The judgement on a frame's head (protocol.md §3, "Validation of a point cloud", and its order).
// Every number a peer chose is multiplied and added in 128 bits.
#include "simbridge/wire/frame_head.h"
#include "wire/field_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace simbridge::wire {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr Wide kMaxProduct = Wide{1} << 63U;

// The numbers of the protocol.
enum Layout : std::uint32_t { kLayoutAos = 0, kLayoutSoa = 1 };
enum Codec : std::uint32_t { kCodecRaw = 0, kCodecDraco = 4 };  // LZ4, ZSTD, LZF between them
constexpr bool is_coordinate_type(std::uint32_t type) {
  return type == kTypeFloat32 || type == kTypeFloat64 || (type >= kTypeInt8 && type <= kTypeUint32);
}

constexpr std::uint32_t count_of(const FieldHead& field) {
  return field.count == 0 ? 1 : field.count;
}

std::string text(Wide value) {
  return value >> 64U == 0 ? fmt::format("{}", static_cast<std::uint64_t>(value))
                           : std::string("more than 2^64");
}

// The sizes that clouds and depth images share.
struct Extent {
  std::uint64_t points = 0;
  Wide tight = 0;     // bytes of a row without padding
  Wide row_step = 0;  // as it is read
  Wide needed = 0;
  bool row_step_reread = false;
};

struct Given {
  std::uint32_t height = 0, width = 0, row_step = 0;
  Wide pixel_bytes = 0;    // point_step, or the bytes of a depth value
  std::uint64_t size = 0;  // of the data once decoded
};

// as_cloud: the rows of the table on row_step that a depth image does not have.
Extent extent_of(const Given& given, bool as_cloud) {
  Extent extent{.points = std::uint64_t{given.width} * given.height,
                .tight = given.width * given.pixel_bytes,
                .row_step = given.row_step};
  const bool whole_size_as_step =
      extent.row_step * given.height > given.size && given.height * extent.tight == given.size;
  const bool read_as_tight =
      given.row_step == 0 || (as_cloud && given.height == 1) || whole_size_as_step;
  if (read_as_tight) {
    extent.row_step_reread = extent.row_step != extent.tight;
    extent.row_step = extent.tight;
  }
  if (extent.points != 0) extent.needed = (given.height - 1) * extent.row_step + extent.tight;
  return extent;
}

Verdict too_large(std::string detail) {
  return {RejectCode::kTooLarge, std::move(detail)};
}
Verdict layout(std::string detail) {
  return {RejectCode::kLayout, std::move(detail)};
}
Verdict bad_field(std::string detail) {
  return {RejectCode::kField, std::move(detail)};
}

Verdict check_data_size(std::uint64_t data_bytes, const FrameLimits& limits) {
  if (data_bytes <= limits.max_frame_bytes) return {};
  return too_large(
      fmt::format("data: {} bytes, max_frame_bytes is {}", data_bytes, limits.max_frame_bytes));
}

struct Compression {
  std::uint32_t codec = kCodecRaw;
  std::uint64_t raw_size = 0;
};

Verdict check_sizes(const Given& given,
                    const Extent& extent,
                    const Compression& compression,
                    std::uint64_t data_bytes,
                    const FrameLimits& limits) {
  if (extent.points > limits.max_points)
    return too_large(fmt::format("width {} x height {} is {} points, the limit is {}",
                                 given.width,
                                 given.height,
                                 extent.points,
                                 limits.max_points));
  if (extent.points * given.pixel_bytes > kMaxProduct)
    return too_large(
        fmt::format("width x height x step is {}", text(extent.points * given.pixel_bytes)));
  if (Wide{given.height} * given.row_step > kMaxProduct)
    return too_large(
        fmt::format("height {} x row_step {} is above 2^63", given.height, given.row_step));
  if (extent.needed > limits.max_frame_bytes)
    return too_large(fmt::format("the points need {} bytes, max_frame_bytes is {}",
                                 text(extent.needed),
                                 limits.max_frame_bytes));
  if (compression.codec != kCodecRaw && compression.raw_size > limits.max_frame_bytes)
    return too_large(fmt::format(
        "raw_size: {} bytes, max_frame_bytes is {}", compression.raw_size, limits.max_frame_bytes));
  return check_data_size(data_bytes, limits);
}

Verdict check_codec(std::uint32_t codec) {
  if (codec <= kCodecDraco) return {};
  return {RejectCode::kCodec, fmt::format("codec: {} is not known", codec)};
}

Verdict check_length(const Extent& extent, std::uint64_t size, bool raw) {
  if (extent.needed <= size) return {};
  return {RejectCode::kDataTooShort,
          fmt::format("the points need {} bytes, {} has {}",
                      text(extent.needed),
                      raw ? "data" : "raw_size",
                      size)};
}

// ---- fields ----

const FieldHead* first_named(const CloudHead& cloud, std::string_view name) {
  const auto found = std::ranges::find(cloud.fields, name, &FieldHead::name);
  return found == cloud.fields.end() ? nullptr : &*found;
}

std::string_view name_or_padding(const FieldHead& field) {
  return field.name.empty() ? std::string_view("(no name)") : field.name;
}

// x, y, z where all three occur, else xyz.
Verdict check_coordinates(const CloudHead& cloud) {
  const std::array axes{first_named(cloud, "x"), first_named(cloud, "y"), first_named(cloud, "z")};
  if (std::ranges::find(axes, nullptr) == axes.end()) {
    for (const FieldHead* axis : axes) {
      if (count_of(*axis) != 1)
        return bad_field(fmt::format("{}: count {}, a coordinate has 1", axis->name, axis->count));
      if (!is_coordinate_type(axis->type))
        return bad_field(
            fmt::format("{}: type {} is not one for coordinates", axis->name, axis->type));
      if (axis->type != axes[0]->type)
        return bad_field(
            fmt::format("{}: type {}, but x has {}", axis->name, axis->type, axes[0]->type));
    }
    return {};
  }
  const FieldHead* xyz = first_named(cloud, "xyz");
  if (xyz == nullptr) return bad_field("fields: neither x, y and z nor xyz are there");
  if (count_of(*xyz) != 3)
    return bad_field(fmt::format("xyz: count {}, three coordinates have 3", xyz->count));
  if (!is_coordinate_type(xyz->type))
    return bad_field(fmt::format("xyz: type {} is not one for coordinates", xyz->type));
  return {};
}

Verdict check_field_ends(const CloudHead& cloud) {
  for (const FieldHead& field : cloud.fields) {
    const Wide end = field.offset + Wide{count_of(field)} * size_of(field.type);
    if (end > cloud.point_step)
      return bad_field(fmt::format("{}: it ends at byte {}, point_step is {}",
                                   name_or_padding(field),
                                   text(end),
                                   cloud.point_step));
  }
  return {};
}

std::uint32_t field_warnings(const CloudHead& cloud) {
  std::uint32_t warnings = 0;
  std::vector<std::string_view> names;
  names.reserve(cloud.fields.size());
  for (const FieldHead& field : cloud.fields) {
    if (field.name.empty() || field.name == "_") continue;
    if (size_of(field.type) == 0) warnings |= kWarnUnknownFieldType;
    names.push_back(field.name);
  }
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end()) warnings |= kWarnDuplicateField;
  return warnings;
}

// ---- blocks of a SOA cloud ----

struct Block {
  std::uint64_t begin = 0;
  Wide end = 0;
  const FieldHead* field = nullptr;
};

std::vector<Block> blocks_of(const CloudHead& cloud, std::uint64_t points) {
  std::vector<Block> blocks;
  blocks.reserve(cloud.fields.size());
  for (const FieldHead& field : cloud.fields) {
    const Wide bytes = Wide{points} * count_of(field) * size_of(field.type);
    blocks.push_back({field.offset, field.offset + bytes, &field});
  }
  return blocks;
}

Verdict check_block_sizes(const std::vector<Block>& blocks) {
  for (const Block& block : blocks)
    if (block.end - block.begin > kMaxProduct)
      return too_large(
          fmt::format("{}: its block is above 2^63 bytes", name_or_padding(*block.field)));
  return {};
}

Verdict check_block_layout(const CloudHead& cloud, std::vector<Block> blocks) {
  if (cloud.point_step != 0 || cloud.row_step != 0)
    return layout(fmt::format("point_step {}, row_step {}: both are 0 with LAYOUT_SOA",
                              cloud.point_step,
                              cloud.row_step));
  for (const Block& block : blocks)
    if (block.begin % 8 != 0)
      return layout(fmt::format(
          "{}: its offset {} is not a multiple of 8", name_or_padding(*block.field), block.begin));
  std::erase_if(blocks, [](const Block& block) { return block.end == block.begin; });
  std::ranges::sort(blocks, {}, &Block::begin);
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i].begin < blocks[i - 1].end)
      return layout(fmt::format("{}: its block begins at byte {}, that of {} ends at {}",
                                name_or_padding(*blocks[i].field),
                                blocks[i].begin,
                                name_or_padding(*blocks[i - 1].field),
                                text(blocks[i - 1].end)));
  return {};
}

Verdict check_block_ends(const std::vector<Block>& blocks, std::uint64_t data_bytes) {
  for (const Block& block : blocks)
    if (block.end > data_bytes)
      return {RejectCode::kDataTooShort,
              fmt::format("{}: its block ends at byte {}, data has {}",
                          name_or_padding(*block.field),
                          text(block.end),
                          data_bytes)};
  return {};
}

// ---- the payloads ----

Verdict check_soa(const CloudHead& cloud,
                  const std::vector<Block>& blocks,
                  std::uint64_t data_bytes,
                  std::uint32_t& warnings) {
  const bool raw = cloud.codec == kCodecRaw;
  if (raw)
    if (Verdict verdict = check_block_layout(cloud, blocks); !verdict.ok()) return verdict;
  if (Verdict verdict = check_coordinates(cloud); !verdict.ok()) return verdict;
  warnings |= field_warnings(cloud);
  return raw ? check_block_ends(blocks, data_bytes) : Verdict{};
}

Verdict check_aos(const CloudHead& cloud,
                  const Given& given,
                  const Extent& extent,
                  std::uint32_t& warnings) {
  if (cloud.point_step == 0)
    return layout(fmt::format("point_step: 0 with {} points", extent.points));
  if (extent.row_step < extent.tight)
    return layout(fmt::format("row_step {} is below width {} x point_step {}",
                              cloud.row_step,
                              cloud.width,
                              cloud.point_step));
  if (Verdict verdict = check_field_ends(cloud); !verdict.ok()) return verdict;
  if (Verdict verdict = check_coordinates(cloud); !verdict.ok()) return verdict;
  Verdict length = check_length(extent, given.size, cloud.codec == kCodecRaw);
  if (!length.ok()) return length;
  warnings |= field_warnings(cloud);
  if (extent.row_step_reread) warnings |= kWarnRowStep;
  if (given.size > extent.row_step * given.height) warnings |= kWarnDataLonger;
  return {};
}

Verdict check_cloud(const FrameHead& head, const FrameLimits& limits, std::uint32_t& warnings) {
  const CloudHead& cloud = head.cloud;
  const Given given{.height = cloud.height,
                    .width = cloud.width,
                    .row_step = cloud.row_step,
                    .pixel_bytes = cloud.point_step,
                    .size = cloud.codec == kCodecRaw ? head.data_bytes : cloud.raw_size};
  const Extent extent = extent_of(given, true);
  const Compression compression{.codec = cloud.codec, .raw_size = cloud.raw_size};
  if (Verdict verdict = check_sizes(given, extent, compression, head.data_bytes, limits);
      !verdict.ok())
    return verdict;
  std::vector<Block> blocks;
  if (cloud.layout == kLayoutSoa && cloud.codec == kCodecRaw) {
    blocks = blocks_of(cloud, extent.points);
    if (Verdict verdict = check_block_sizes(blocks); !verdict.ok()) return verdict;
  }
  if (Verdict verdict = check_codec(cloud.codec); !verdict.ok()) return verdict;
  if (!head.flat_fault.empty()) return layout(head.flat_fault);
  if (extent.points == 0) return {};
  if (cloud.layout > kLayoutSoa)
    return layout(fmt::format("layout: {} is not known", cloud.layout));
  // The attributes of a Draco stream stand in for fields, steps and size.
  if (cloud.codec == kCodecDraco) return {};
  return cloud.layout == kLayoutSoa ? check_soa(cloud, blocks, head.data_bytes, warnings)
                                    : check_aos(cloud, given, extent, warnings);
}

Verdict check_depth_fields(const DepthHead& depth, const Extent& extent) {
  if (depth_value_bytes(depth.encoding) == 0)
    return bad_field(
        fmt::format("encoding: \"{}\" is neither 16UC1 nor 32FC1", depth.encoding.substr(0, 40)));
  if (extent.row_step < extent.tight)
    return bad_field(fmt::format("row_step: {} is below width {} x {} bytes",
                                 depth.row_step,
                                 depth.width,
                                 depth_value_bytes(depth.encoding)));
  for (const auto& [name, value] : {std::pair{"fx", depth.fx}, std::pair{"fy", depth.fy}})
    if (!std::isfinite(value) || value <= 0)
      return bad_field(fmt::format("{}: {} is not a finite number above 0", name, value));
  for (const auto& [name, value] : {std::pair{"cx", depth.cx}, std::pair{"cy", depth.cy}})
    if (!std::isfinite(value)) return bad_field(fmt::format("{}: {} is not finite", name, value));
  return {};
}

Verdict check_depth(const FrameHead& head, const FrameLimits& limits, std::uint32_t& warnings) {
  const DepthHead& depth = head.depth;
  const bool raw = depth.codec == kCodecRaw;
  const Given given{.height = depth.height,
                    .width = depth.width,
                    .row_step = depth.row_step,
                    .pixel_bytes = depth_value_bytes(depth.encoding),
                    .size = raw ? head.data_bytes : depth.raw_size};
  const Extent extent = extent_of(given, false);
  const Compression compression{.codec = depth.codec, .raw_size = depth.raw_size};
  if (Verdict verdict = check_sizes(given, extent, compression, head.data_bytes, limits);
      !verdict.ok())
    return verdict;
  if (Verdict verdict = check_codec(depth.codec); !verdict.ok()) return verdict;
  if (!head.flat_fault.empty()) return layout(head.flat_fault);
  if (extent.points == 0) return {};
  if (Verdict verdict = check_depth_fields(depth, extent); !verdict.ok()) return verdict;
  Verdict length = check_length(extent, given.size, raw);
  if (!length.ok()) return length;
  if (extent.row_step_reread && depth.row_step != 0) warnings |= kWarnRowStep;
  if (given.size > extent.row_step * given.height) warnings |= kWarnDataLonger;
  return {};
}

Verdict over_limit(std::string_view what, std::uint64_t value, std::uint64_t limit) {
  return {RejectCode::kLimit, fmt::format("{}: {}, the limit is {}", what, value, limit)};
}

}  // namespace

std::uint64_t row_step_as_read(const CloudHead& cloud, std::uint64_t size) {
  const Given given{.height = cloud.height,
                    .width = cloud.width,
                    .row_step = cloud.row_step,
                    .pixel_bytes = cloud.point_step,
                    .size = size};
  return is_soa(cloud) ? 0 : static_cast<std::uint64_t>(extent_of(given, true).row_step);
}

Verdict check_head(const FrameHead& head, const FrameLimits& limits) {
  if (head.frame_id.size() > limits.max_frame_id)
    return over_limit("frame_id: bytes", head.frame_id.size(), limits.max_frame_id);
  if (head.head_bytes > limits.max_head_bytes)
    return over_limit("header before data: bytes", head.head_bytes, limits.max_head_bytes);
  if (head.cloud.fields.size() > limits.max_fields)
    return over_limit("fields", head.cloud.fields.size(), limits.max_fields);
  for (const FieldHead& field : head.cloud.fields)
    if (field.name.size() > limits.max_field_name)
      return over_limit("field name: bytes", field.name.size(), limits.max_field_name);
  if (head.hops >= limits.max_hops)
    return {RejectCode::kLimit,
            fmt::format("hops: {}, a frame passes at most {} bridges", head.hops, limits.max_hops)};
  return {};
}

Verdict check_payload(const FrameHead& head, const FrameLimits& limits, std::uint32_t& warnings) {
  warnings = 0;
  switch (head.kind) {
    case PayloadKind::kNone:
      break;
    case PayloadKind::kCloud:
      return check_cloud(head, limits, warnings);
    case PayloadKind::kDepth:
      return check_depth(head, limits, warnings);
    case PayloadKind::kOpaque:
      if (Verdict verdict = check_data_size(head.data_bytes, limits); !verdict.ok()) return verdict;
      return head.flat_fault.empty() ? Verdict{} : layout(head.flat_fault);
  }
  return {RejectCode::kUnsupported, "the frame has no payload that this version knows"};
}

}  // namespace simbridge::wire
