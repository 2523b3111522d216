#include "client/lzf.h"
#include "simbridge/client/pcd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace simbridge::client {
namespace {

char kind_of(FieldType type) {
  switch (type) {
    case FieldType::kInt8:
    case FieldType::kInt16:
    case FieldType::kInt32:
    case FieldType::kInt64:
      return 'I';
    case FieldType::kFloat32:
    case FieldType::kFloat64:
      return 'F';
    default:
      return 'U';
  }
}

/// In the order of the record, with "_" where it has gaps.
Result<std::vector<CloudField>> without_gaps(const PointCloudData& cloud) {
  auto sorted = cloud.fields;
  std::ranges::sort(sorted, {}, &CloudField::offset);
  std::vector<CloudField> fields;
  std::uint64_t end = 0;
  const auto fill_to = [&](std::uint64_t offset) {
    if (offset > end)
      fields.push_back({.name = "_",
                        .offset = static_cast<std::uint32_t>(end),
                        .type = FieldType::kUint8,
                        .count = static_cast<std::uint32_t>(offset - end)});
    end = offset;
  };
  for (const auto& field : sorted) {
    if (size_of(field.type) == 0 || field.count == 0 || field.name.empty() ||
        field.name.find_first_of(" \t\r\n\v\f") != std::string::npos)
      return fail(ErrorCode::kInvalid,
                  fmt::format("field \"{}\" has no place in a PCD header", field.name));
    if (field.offset < end)
      return fail(ErrorCode::kInvalid,
                  fmt::format("field \"{}\" overlaps the one before", field.name));
    fill_to(field.offset);
    fields.push_back(field);
    end += size_of(field.type) * std::uint64_t{field.count};
  }
  if (end > cloud.point_step)
    return fail(ErrorCode::kInvalid,
                fmt::format("the fields end at {}, the point at {}", end, cloud.point_step));
  fill_to(cloud.point_step);
  if (fields.empty()) return fail(ErrorCode::kInvalid, "a cloud without fields");
  return fields;
}

std::string header_of(const PointCloudData& cloud,
                      const std::vector<CloudField>& fields,
                      std::string_view form) {
  std::string names;
  std::string sizes;
  std::string types;
  std::string counts;
  for (const auto& field : fields) {
    names += " " + field.name;
    sizes += fmt::format(" {}", size_of(field.type));
    types += fmt::format(" {}", kind_of(field.type));
    counts += fmt::format(" {}", field.count);
  }
  const auto& view = cloud.viewpoint;
  return fmt::format(
      "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS{}\nSIZE{}\nTYPE{}\nCOUNT{}\n"
      "WIDTH {}\nHEIGHT {}\nVIEWPOINT {} {} {} {} {} {} {}\nPOINTS {}\nDATA {}\n",
      names,
      sizes,
      types,
      counts,
      cloud.width,
      cloud.height,
      view.x,
      view.y,
      view.z,
      view.qw,
      view.qx,
      view.qy,
      view.qz,
      cloud.points(),
      form);
}

template <typename Number>
void print_as(std::string& out, const char* from) {
  Number number{};
  std::memcpy(&number, from, sizeof(number));
  if constexpr (sizeof(number) == 1) {
    fmt::format_to(std::back_inserter(out), "{} ", static_cast<int>(number));
  } else {
    fmt::format_to(
        std::back_inserter(out), "{} ", number);  // the shortest that reads back the same
  }
}

void print(std::string& out, FieldType type, const char* from) {
  switch (type) {
    case FieldType::kInt8:
      return print_as<std::int8_t>(out, from);
    case FieldType::kUint8:
      return print_as<std::uint8_t>(out, from);
    case FieldType::kInt16:
      return print_as<std::int16_t>(out, from);
    case FieldType::kUint16:
      return print_as<std::uint16_t>(out, from);
    case FieldType::kInt32:
      return print_as<std::int32_t>(out, from);
    case FieldType::kUint32:
      return print_as<std::uint32_t>(out, from);
    case FieldType::kFloat32:
      return print_as<float>(out, from);
    case FieldType::kFloat64:
      return print_as<double>(out, from);
    case FieldType::kInt64:
      return print_as<std::int64_t>(out, from);
    case FieldType::kUint64:
      return print_as<std::uint64_t>(out, from);
    case FieldType::kUnspecified:
      break;
  }
}

std::string ascii_body(const PointCloudData& cloud, const std::vector<CloudField>& fields) {
  std::string out;
  for (std::uint64_t point = 0; point < cloud.points(); ++point) {
    const char* const record = cloud.data.data() + point * cloud.point_step;
    for (const auto& field : fields) {
      for (std::uint32_t i = 0; i < field.count; ++i)
        print(out, field.type, record + field.offset + i * size_of(field.type));
    }
    out.back() = '\n';
  }
  return out;
}

Result<std::string> compressed_body(const PointCloudData& cloud,
                                    const std::vector<CloudField>& fields) {
  std::string blocks(cloud.data.size(), '\0');
  char* to = blocks.data();
  for (const auto& field : fields) {
    const auto bytes = size_of(field.type) * field.count;
    const char* from = cloud.data.data() + field.offset;
    for (std::uint64_t i = 0; i < cloud.points(); ++i, from += cloud.point_step, to += bytes)
      std::memcpy(to, from, bytes);
  }
  const auto packed = lzf_compress(blocks);
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  if (packed.size() > kMost || blocks.size() > kMost)
    return fail(ErrorCode::kInvalid, "binary_compressed has 32-bit sizes; the cloud is above them");
  const auto sizes = {static_cast<std::uint32_t>(packed.size()),
                      static_cast<std::uint32_t>(blocks.size())};
  std::string out;
  for (const auto size : sizes) {
    char bytes[sizeof(size)];
    std::memcpy(bytes, &size, sizeof(size));
    out.append(bytes, sizeof(size));
  }
  return out + packed;
}

}  // namespace

Result<std::string> format_pcd(const PointCloudData& cloud, PcdForm form) {
  const auto fields = without_gaps(cloud);
  if (!fields) return std::unexpected(fields.error());
  if (cloud.data.size() != cloud.points() * cloud.point_step)
    return fail(ErrorCode::kInvalid,
                fmt::format("{} bytes of data for {} points of {}",
                            cloud.data.size(),
                            cloud.points(),
                            cloud.point_step));
  switch (form) {
    case PcdForm::kAscii:
      return header_of(cloud, *fields, "ascii") + ascii_body(cloud, *fields);
    case PcdForm::kBinary:
      return header_of(cloud, *fields, "binary") + cloud.data;
    case PcdForm::kCompressed:
      break;
  }
  auto body = compressed_body(cloud, *fields);
  if (!body) return body;
  return header_of(cloud, *fields, "binary_compressed") + *body;
}

}  // namespace simbridge::client
