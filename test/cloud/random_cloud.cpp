#include "cloud/random_cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace simbridge::test {
namespace {

using cloud::Field;
using cloud::Sampling;
using cloud::Type;

const std::array<std::string, 24> kNames{
    "intensity",
    "intensity",
    "rgb",
    "rgba",
    "ring",
    "ring",
    "time",
    "t",
    "payload",
    "depth",
    "#meta",
    "_",
    "",
    "label",
    "_intensity",
    "a_name_of_exactl",
    "a_very_long_field_name",
    "a_very_long_field_nbme",
    "laenge_mit_\xC3\xA4_umlaut",
    "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC",
    "x",
    "xyz",
    "normal",
    "reflectivity"};
constexpr std::array kLeafs{0.05, 0.1, 0.25, 1.0, 3.7, 1e-3, 1e6, 1e-12, 1e30};

template <std::size_t Count, typename T>
const T& any_of(const Draw& draw, const std::array<T, Count>& all) {
  return all[draw(Count)];
}

double coordinate(const Draw& draw) {
  const double small = (static_cast<double>(draw(2001)) - 1000.0) / 100.0;
  switch (draw(16)) {
    case 0:
      return 0;
    case 1:
      return -0.0;
    case 2:
      return std::numeric_limits<double>::quiet_NaN();
    case 3:
      return draw(2) == 0 ? std::numeric_limits<double>::infinity()
                          : -std::numeric_limits<double>::infinity();
    case 4:  // on a border, and beside it
      return std::nextafter(static_cast<float>(std::floor(small) * any_of(draw, kLeafs)),
                            draw(2) == 0 ? 1e9F : -1e9F);
    case 5:
      return std::floor(small) * any_of(draw, kLeafs);
    case 6:
      return small * 1e6;
    case 7:
      return small * 1e38;
    case 8:  // the last float32, and what rounds to it or beyond
      return any_of(
          draw,
          std::array{0x1.fffffep127, 0x1.fffffefffp127, 0x1.ffffffp127, -0x1.ffffffp127, 1e300});
    case 9:
    case 10:
    case 11:
      return std::floor(small / 4);
    default:
      return small / 8;
  }
}

void put(std::byte* to, Type type, double value, bool big) {
  std::uint64_t bits = 0;
  const std::uint32_t size = cloud::size_of(type);
  if (type == Type::kFloat32) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else if (type == Type::kFloat64) {
    bits = std::bit_cast<std::uint64_t>(value);
  } else if (std::isfinite(value)) {
    bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(std::fmod(value, 1e9)));
  }
  for (std::uint32_t i = 0; i < size; ++i)
    to[big ? size - 1 - i : i] = static_cast<std::byte>(bits >> (8 * i));
}

}  // namespace

RandomCloud::RandomCloud(const Draw& draw, std::uint32_t points_max) {
  view.width = static_cast<std::uint32_t>(draw(points_max + 1));
  view.height = 1;
  if (draw(3) == 0) {
    view.height = static_cast<std::uint32_t>(draw(7));
    view.width = view.width / 6 + static_cast<std::uint32_t>(draw(2));
  }
  view.big_endian = draw(4) == 0;
  view.soa = draw(3) == 0;
  view.sequence = draw(1000) * draw(1000000007);
  add_fields(draw);
  if (view.soa)
    place_blocks(draw);
  else
    place_records(draw);
  fill(draw);
  view.fields = fields;
  view.data = data;
  constexpr std::array<std::int64_t, 8> kFactors{1,
                                                 1000,
                                                 1000000000,
                                                 -1,
                                                 3,
                                                 std::numeric_limits<std::int64_t>::max(),
                                                 std::numeric_limits<std::int64_t>::min(),
                                                 7};
  if (draw(3) != 0) {
    view.time_field = draw(2) == 0 ? std::string_view("t") : std::string_view(any_of(draw, kNames));
    view.time_num = any_of(draw, kFactors);
    view.time_den = draw(2) == 0 ? 1 : any_of(draw, kFactors);
    view.time_absolute = draw(2) == 0;
    view.stamp_ns = static_cast<std::int64_t>(draw(1000)) * (any_of(draw, kFactors) / 1000);
  }
}

void RandomCloud::add_fields(const Draw& draw) {
  constexpr std::array kCoordinateTypes{Type::kFloat32,
                                        Type::kFloat32,
                                        Type::kFloat32,
                                        Type::kFloat64,
                                        Type::kInt8,
                                        Type::kUint8,
                                        Type::kInt16,
                                        Type::kUint16,
                                        Type::kInt32,
                                        Type::kUint32};
  const Type type = any_of(draw, kCoordinateTypes);
  const bool together = draw(4) == 0;
  const auto others = draw(6);
  // Duplicates of coordinates may only stand behind them, or they would be the coordinates.
  if (together) {
    fields.push_back({.name = "xyz", .type = type, .count = 3});
  } else {
    for (const char* axis : {"x", "y", "z"}) fields.push_back({.name = axis, .type = type});
    for (std::size_t i = 2; i > 0; --i) std::swap(fields[i], fields[draw(i + 1)]);
  }
  const std::size_t coordinates = fields.size();
  for (std::uint64_t i = 0; i < others; ++i) {
    Field field{.name = names.emplace_back(any_of(draw, kNames)),
                .type = static_cast<Type>(draw(13)),
                .count = 1};
    if (draw(4) == 0) field.count = draw(8) == 0 ? 300 : 1 + static_cast<std::uint32_t>(draw(4));
    const bool is_coordinate_name = field.name == "x" || field.name == "xyz";
    const std::size_t to = is_coordinate_name ? fields.size() : draw(fields.size() + 1);
    fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(to), field);
  }
  static_cast<void>(coordinates);
}

void RandomCloud::place_records(const Draw& draw) {
  std::vector<std::size_t> order(fields.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[draw(i + 1)]);
  std::uint32_t end = 0;
  for (const std::size_t i : order) {
    fields[i].offset = end + static_cast<std::uint32_t>(draw(4) == 0 ? draw(9) : 0);
    end = fields[i].offset + cloud::size_of(fields[i].type) * fields[i].count;
  }
  view.point_step = end + static_cast<std::uint32_t>(draw(3) == 0 ? draw(9) : 0);
  const std::uint32_t tight = view.width * view.point_step;
  view.row_step = tight + static_cast<std::uint32_t>(draw(2) == 0 ? draw(20) : 0);
  if (view.points() == 0) return;
  // The last row's padding may be absent; data may be longer.
  data.resize(std::size_t{view.height - 1} * view.row_step + tight + draw(9));
}

void RandomCloud::place_blocks(const Draw& draw) {
  std::uint64_t end = 0;
  for (Field& field : fields) {
    field.offset = static_cast<std::uint32_t>((end + 7) / 8 * 8 + 8 * draw(3));
    end = field.offset + view.points() * cloud::size_of(field.type) * field.count;
  }
  data.resize(end + draw(9));
}

void RandomCloud::fill(const Draw& draw) {
  std::uint64_t mixed = draw(1ULL << 32U) | 1U;
  for (std::byte& byte : data) {  // a cheap generator: the draws are for what decides
    mixed ^= mixed << 13U;
    mixed ^= mixed >> 7U;
    mixed ^= mixed << 17U;
    byte = static_cast<std::byte>(mixed);
  }
  const bool clustered = draw(2) == 0;
  std::array<double, 3> last{coordinate(draw), coordinate(draw), coordinate(draw)};
  for (std::uint64_t point = 0; point < view.points(); ++point) {
    if (!clustered || draw(4) == 0) {
      for (double& v : last) v = coordinate(draw);
      if (draw(12) == 0) last = {0, -0.0, 0};
    }
    for (const Field& field : fields) {
      const auto axis = std::string_view("xyz").find(field.name);
      if (field.name.empty() || axis == std::string_view::npos) continue;
      const std::uint32_t size = cloud::size_of(field.type);
      for (std::uint32_t e = 0; e < field.count && e < 3; ++e) {
        std::uint64_t at = field.offset + e * size;
        at += view.soa ? point * size * field.count
                       : point / view.width * view.row_step + point % view.width * view.point_step;
        put(data.data() + at, field.type, last[(axis + e) % 3], view.big_endian);
      }
    }
  }
}

cloud::Request random_request(const Draw& draw) {
  cloud::Request request;
  request.sampling = static_cast<Sampling>(draw(6));
  if (request.sampling == Sampling::kStride || request.sampling == Sampling::kRandom)
    request.max_points = 1 + draw(60);
  else if (request.sampling != Sampling::kNone)
    request.leaf = any_of(draw, kLeafs);
  else
    request.keep_invalid = draw(2) == 0;
  request.output = static_cast<cloud::Output>(draw(3));
  const auto length = [&] {
    return (static_cast<double>(draw(2001)) - 1000.0) / 100.0;
  };
  if (draw(3) == 0) {
    request.region.emplace();
    for (std::size_t a = 0; a < 3; ++a) {
      request.region->min[a] = std::floor(length());
      request.region->max[a] = request.region->min[a] + std::fabs(length()) * 2;
    }
  }
  if (draw(4) == 0) request.min_range = std::fabs(length()) / 4;
  if (draw(4) == 0) request.max_range = request.min_range + std::fabs(length());
  if (request.output == cloud::Output::kFlat && draw(3) == 0)
    for (std::uint64_t i = 0; i < 1 + draw(3); ++i) request.fields.push_back(any_of(draw, kNames));
  return request;
}

std::string describe(const cloud::CloudView& view, const cloud::Request& request) {
  std::string text = fmt::format("{} x {}, steps {} {}, big {}, soa {}; time {} x {} / {}, {} {}\n",
                                 view.width,
                                 view.height,
                                 view.point_step,
                                 view.row_step,
                                 view.big_endian,
                                 view.soa,
                                 view.time_field,
                                 view.time_num,
                                 view.time_den,
                                 view.time_absolute,
                                 view.stamp_ns);
  for (const Field& field : view.fields)
    text += fmt::format(
        "  '{}' @{} {} x{}\n", field.name, field.offset, static_cast<int>(field.type), field.count);
  text +=
      fmt::format("sampling {} leaf {} max {} ranges {} {} keep {} output {} region {} fields {}",
                  static_cast<int>(request.sampling),
                  request.leaf,
                  request.max_points,
                  request.min_range,
                  request.max_range,
                  request.keep_invalid,
                  static_cast<int>(request.output),
                  request.region.has_value(),
                  fmt::join(request.fields, ","));
  return text;
}

}  // namespace simbridge::test
