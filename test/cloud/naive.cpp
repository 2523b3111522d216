#include "cloud/naive.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <variant>

namespace simbridge::test {
namespace {

using cloud::CloudView;
using cloud::DecimatedCloud;
using cloud::Field;
using cloud::Output;
using cloud::Request;
using cloud::Sampling;
using cloud::Type;
__extension__ using Int128 = __int128;

std::size_t bytes_of(Type type) {
  static const std::map<int, std::size_t> kSizes{
      {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 4}, {7, 4}, {8, 8}, {9, 8}, {10, 8}, {11, 1}};
  const auto found = kSizes.find(static_cast<int>(type));
  return found == kSizes.end() ? 0 : found->second;
}

bool is_float(Type type) {
  return type == Type::kFloat32 || type == Type::kFloat64;
}
bool is_whole(Type type) {
  const int number = static_cast<int>(type);
  return number >= 1 && number <= 10 && !is_float(type);
}

class Reader {
 public:
  explicit Reader(const CloudView& view) : view_(view) {}

  /// The bytes of a value, the lowest first.
  [[nodiscard]] std::vector<std::uint8_t> bytes(std::size_t field,
                                                std::uint64_t point,
                                                std::size_t element) const {
    const Field& f = view_.fields[field];
    const std::size_t size = bytes_of(f.type);
    std::uint64_t at = f.offset;
    if (view_.soa)
      at += (point * f.count + element) * size;
    else
      at += point / view_.width * view_.row_step + point % view_.width * view_.point_step +
            element * size;
    std::vector<std::uint8_t> value;
    for (std::size_t i = 0; i < size; ++i)
      value.push_back(static_cast<std::uint8_t>(view_.data[at + i]));
    if (view_.big_endian) std::ranges::reverse(value);
    return value;
  }
  [[nodiscard]] std::uint64_t bits(std::size_t field,
                                   std::uint64_t point,
                                   std::size_t element) const {
    std::uint64_t all = 0;
    const auto value = bytes(field, point, element);
    for (std::size_t i = value.size(); i-- > 0;) all = all << 8U | value[i];
    return all;
  }
  [[nodiscard]] Int128 whole(std::size_t field, std::uint64_t point, std::size_t element) const {
    const std::uint64_t all = bits(field, point, element);
    switch (view_.fields[field].type) {
      case Type::kInt8:
        return static_cast<std::int8_t>(all);
      case Type::kInt16:
        return static_cast<std::int16_t>(all);
      case Type::kInt32:
        return static_cast<std::int32_t>(all);
      case Type::kInt64:
        return static_cast<std::int64_t>(all);
      default:
        return all;
    }
  }
  [[nodiscard]] double real(std::size_t field, std::uint64_t point, std::size_t element) const {
    const std::uint64_t all = bits(field, point, element);
    if (view_.fields[field].type == Type::kFloat32)
      return std::bit_cast<float>(static_cast<std::uint32_t>(all));
    if (view_.fields[field].type == Type::kFloat64) return std::bit_cast<double>(all);
    return static_cast<double>(whole(field, point, element));
  }
  /// The float32 next to it; one that is there already keeps its bits, a NaN's too.
  [[nodiscard]] float single(std::size_t field, std::uint64_t point, std::size_t element) const {
    if (view_.fields[field].type == Type::kFloat32)
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits(field, point, element)));
    if (is_float(view_.fields[field].type)) return static_cast<float>(real(field, point, element));
    return static_cast<float>(whole(field, point, element));
  }
  [[nodiscard]] float single(std::size_t field, std::uint64_t point) const {
    return single(field, point, 0);
  }

 private:
  const CloudView& view_;
};

struct Axis {
  std::size_t field = 0, element = 0;
};

struct Cell {
  std::vector<std::uint64_t> points;
  std::array<Int128, 3> sums{};
  std::uint64_t nearest = 0, nearest_square = ~std::uint64_t{0};
};

class Naive {
 public:
  Naive(const CloudView& view, const Request& request)
      : view_(view), request_(request), read_(view) {}

  DecimatedCloud run();

 private:
  [[nodiscard]] std::optional<std::size_t> named(std::string_view name) const {
    for (std::size_t i = 0; i < view_.fields.size(); ++i)
      if (view_.fields[i].name == name) return i;
    return std::nullopt;
  }
  void find_axes();
  [[nodiscard]] std::array<double, 3> place(std::uint64_t point) const {
    return {read_.real(axes_[0].field, point, axes_[0].element),
            read_.real(axes_[1].field, point, axes_[1].element),
            read_.real(axes_[2].field, point, axes_[2].element)};
  }
  void filter();
  void sample();
  void grid();
  [[nodiscard]] bool averages() const { return request_.sampling == Sampling::kVoxelCentroid; }
  /// Result k before it is rounded to float32.
  [[nodiscard]] std::array<double, 3> result(std::size_t k) const {
    return averages() ? means_[k] : place(left_[k]);
  }
  void as_sent();
  void put(std::size_t at, Type type, double value);
  void append_block(std::string name, Type type, std::uint32_t count);
  void append(std::uint64_t bits, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i)
      out_.data.push_back(static_cast<std::byte>(bits >> (8 * i)));
  }
  void append_float(float value) { append(std::bit_cast<std::uint32_t>(value), 4); }
  void xyz();
  void flat();
  [[nodiscard]] bool wanted(std::string_view block, std::string_view field) const {
    return request_.fields.empty() || std::ranges::any_of(request_.fields, [&](const auto& n) {
             return n == block || n == field;
           });
  }
  void intensity(std::size_t field);
  void colour(std::size_t field);
  void time(std::size_t field);
  void box();

  const CloudView& view_;
  const Request& request_;
  Reader read_;
  std::array<Axis, 3> axes_{};
  std::vector<std::uint64_t> left_;           // points
  std::vector<std::array<double, 3>> means_;  // of cells
  std::vector<std::vector<std::uint64_t>> members_;
  DecimatedCloud out_;
};

void Naive::find_axes() {
  const auto x = named("x");
  const auto y = named("y");
  const auto z = named("z");
  if (x && y && z)
    axes_ = {{{*x, 0}, {*y, 0}, {*z, 0}}};
  else if (const auto xyz = named("xyz"))
    axes_ = {{{*xyz, 0}, {*xyz, 1}, {*xyz, 2}}};
}

void Naive::filter() {
  const bool bounded = request_.region || request_.min_range > 0 || request_.max_range > 0;
  const bool drops =
      (bounded || request_.sampling != Sampling::kNone || request_.output != Output::kAsSent) &&
      !request_.keep_invalid;
  for (std::uint64_t i = 0; i < view_.points(); ++i) {
    const auto p = place(i);
    const bool finite = std::ranges::all_of(
        p, [](double v) { return std::isfinite(v) && std::isfinite(static_cast<float>(v)); });
    const bool zero = p[0] == 0 && p[1] == 0 && p[2] == 0;
    if (!finite || zero) {
      if (drops)
        ++(finite ? out_.dropped_zero : out_.dropped_nonfinite);
      else
        left_.push_back(i);
      continue;
    }
    bool inside = true;
    if (request_.region)
      for (std::size_t a = 0; a < 3; ++a)
        if (p[a] < request_.region->min[a] || p[a] > request_.region->max[a]) inside = false;
    const double x2 = p[0] * p[0];
    const double y2 = p[1] * p[1];
    const double z2 = p[2] * p[2];
    const double square = (x2 + y2) + z2;
    if (request_.min_range > 0 && square < request_.min_range * request_.min_range) inside = false;
    if (request_.max_range > 0 && square > request_.max_range * request_.max_range) inside = false;
    if (inside)
      left_.push_back(i);
    else
      ++out_.dropped_region;
  }
}

std::uint64_t finaliser(std::uint64_t z) {
  z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ z >> 27U) * 0x94D049BB133111EBULL;
  return z ^ z >> 31U;
}

void Naive::sample() {
  const std::uint64_t n = left_.size();
  const std::uint64_t most = request_.max_points;
  std::vector<std::uint64_t> chosen;
  if (request_.sampling == Sampling::kStride && n > 0) {
    const std::uint64_t k = n / most + (n % most != 0 ? 1 : 0);
    for (std::uint64_t i = 0; i * k < n; ++i) chosen.push_back(left_[i * k]);
  } else if (request_.sampling == Sampling::kRandom) {
    const std::uint64_t wanted = std::min(n, most);
    for (std::uint64_t j = 0; j < wanted; ++j) {
      const std::uint64_t low = j * n / wanted;
      const std::uint64_t high = (j + 1) * n / wanted;
      const std::uint64_t mixed = finaliser(view_.sequence + (j + 1) * 0x9E3779B97F4A7C15ULL);
      chosen.push_back(left_[low + ((mixed >> 32U) * (high - low) >> 32U)]);
    }
  } else {
    return;
  }
  left_ = chosen;
}

void Naive::grid() {
  std::map<std::array<std::int64_t, 3>, Cell> cells;
  const double inverse = 1.0 / request_.leaf;
  const double scale = inverse * 65536.0;
  for (const std::uint64_t i : left_) {
    const auto p = place(i);
    std::array<std::int64_t, 3> key{};
    std::array<std::int64_t, 3> rest{};
    bool indexed = true;
    for (std::size_t a = 0; a < 3; ++a) {
      const double t = std::floor(p[a] * scale);
      if (!(t >= -0x1p36 && t < 0x1p36)) {
        indexed = false;
        break;
      }
      const auto whole = static_cast<std::int64_t>(t);
      rest[a] = ((whole % 65536) + 65536) % 65536;
      key[a] = (whole - rest[a]) / 65536;
    }
    if (!indexed) {
      ++out_.dropped_extent;
      continue;
    }
    Cell& cell = cells[key];
    cell.points.push_back(i);
    std::uint64_t square = 0;
    for (std::size_t a = 0; a < 3; ++a) {
      cell.sums[a] += rest[a];
      square += static_cast<std::uint64_t>((rest[a] - 32768) * (rest[a] - 32768));
    }
    if (square < cell.nearest_square) {
      cell.nearest_square = square;
      cell.nearest = i;
    }
  }
  std::map<std::uint64_t, std::array<std::int64_t, 3>> order;
  for (const auto& [key, cell] : cells) order[cell.points.front()] = key;
  left_.clear();
  for (const auto& [first, key] : order) {
    const Cell& cell = cells[key];
    left_.push_back(request_.sampling == Sampling::kVoxelNearest ? cell.nearest : first);
    members_.push_back(cell.points);
    std::array<double, 3> mean{};
    const auto n = static_cast<Int128>(cell.points.size());
    for (std::size_t a = 0; a < 3; ++a) {
      const Int128 v = Int128{key[a]} * n * (1 << 17) + 2 * cell.sums[a] + n;
      const double reciprocal = 1.0 / static_cast<double>(n * (1 << 17));
      const double in_cells = static_cast<double>(v) * reciprocal;
      mean[a] = in_cells * request_.leaf;
    }
    means_.push_back(mean);
  }
  out_.leaf = request_.leaf;
}

void Naive::put(std::size_t at, Type type, double value) {
  std::uint64_t bits = 0;
  if (type == Type::kFloat32) {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else if (type == Type::kFloat64) {
    bits = std::bit_cast<std::uint64_t>(value);
  } else {
    const bool has_sign = type == Type::kInt8 || type == Type::kInt16 || type == Type::kInt32;
    const double span = std::ldexp(1.0, static_cast<int>(8 * bytes_of(type)));
    const double low = has_sign ? -span / 2 : 0;
    const double high = (has_sign ? span / 2 : span) - 1;
    bits = static_cast<std::uint64_t>(
        static_cast<std::int64_t>(std::min(std::max(std::nearbyint(value), low), high)));
  }
  const std::size_t size = bytes_of(type);
  for (std::size_t i = 0; i < size; ++i)
    out_.data[at + (view_.big_endian ? size - 1 - i : i)] = static_cast<std::byte>(bits >> (8 * i));
}

void Naive::as_sent() {
  out_.big_endian = view_.big_endian;
  out_.soa = view_.soa;
  for (const Field& f : view_.fields)
    out_.fields.push_back(
        {.name = std::string(f.name), .offset = f.offset, .type = f.type, .count = f.count});
  const std::size_t n = left_.size();
  if (!view_.soa) {
    out_.point_step = view_.point_step;
    for (const std::uint64_t i : left_) {
      const auto at = static_cast<std::ptrdiff_t>(i / view_.width * view_.row_step +
                                                  i % view_.width * view_.point_step);
      out_.data.insert(
          out_.data.end(), view_.data.begin() + at, view_.data.begin() + at + view_.point_step);
    }
  } else {
    for (std::size_t f = 0; f < view_.fields.size(); ++f) {
      if (n == 0) {
        out_.fields[f].offset = 0;
        continue;
      }
      while (out_.data.size() % 8 != 0) out_.data.push_back({});
      out_.fields[f].offset = static_cast<std::uint32_t>(out_.data.size());
      const std::size_t size = bytes_of(view_.fields[f].type) * view_.fields[f].count;
      for (const std::uint64_t i : left_) {
        const auto at = static_cast<std::ptrdiff_t>(view_.fields[f].offset + i * size);
        out_.data.insert(out_.data.end(),
                         view_.data.begin() + at,
                         view_.data.begin() + at + static_cast<std::ptrdiff_t>(size));
      }
    }
  }
  if (!averages()) return;
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t a = 0; a < 3; ++a) {
      const auto& f = out_.fields[axes_[a].field];
      const std::size_t size = bytes_of(f.type);
      const std::size_t step = view_.soa ? size * f.count : view_.point_step;
      put(f.offset + k * step + axes_[a].element * size, f.type, means_[k][a]);
    }
  }
}

void Naive::append_block(std::string name, Type type, std::uint32_t count) {
  while (out_.data.size() % 8 != 0) out_.data.push_back({});
  out_.soa = true;
  out_.fields.push_back({.name = std::move(name),
                         .offset = static_cast<std::uint32_t>(out_.data.size()),
                         .type = type,
                         .count = count});
}

void Naive::xyz() {
  append_block("xyz", Type::kFloat32, 3);
  for (std::size_t k = 0; k < left_.size(); ++k)
    for (std::size_t a = 0; a < 3; ++a)
      append_float(averages() ? static_cast<float>(means_[k][a])
                              : read_.single(axes_[a].field, left_[k], axes_[a].element));
}

void Naive::intensity(std::size_t field) {
  append_block("intensity", Type::kFloat32, 1);
  for (std::size_t k = 0; k < left_.size(); ++k) {
    if (!averages()) {
      append_float(read_.single(field, left_[k]));
      continue;
    }
    Int128 sum = 0;
    for (const std::uint64_t i : members_[k]) {
      const double v = read_.single(field, i);
      if (std::isnan(v)) continue;
      sum += static_cast<Int128>(std::rint(std::min(std::max(v, -0x1p26), 0x1p26) * 65536));
    }
    const auto n = static_cast<double>(members_[k].size() << 16U);
    append_float(static_cast<float>(static_cast<double>(sum) * (1.0 / n)));
  }
}

void Naive::colour(std::size_t field) {
  append_block("rgba", Type::kUint8, 4);
  const bool bytes = view_.fields[field].type == Type::kUint8;
  const bool alpha = view_.fields[field].name == "rgba";
  const auto channels = [&](std::uint64_t point) -> std::array<std::uint64_t, 4> {
    if (bytes)
      return {read_.bits(field, point, 0),
              read_.bits(field, point, 1),
              read_.bits(field, point, 2),
              read_.bits(field, point, 3)};
    const std::uint64_t value = read_.bits(field, point, 0);
    return {value / 65536 % 256, value / 256 % 256, value % 256, alpha ? value / 16777216 : 255};
  };
  for (std::size_t k = 0; k < left_.size(); ++k) {
    std::array<std::uint64_t, 4> all{};
    const auto members = averages() ? members_[k] : std::vector<std::uint64_t>{left_[k]};
    for (const std::uint64_t i : members)
      for (std::size_t c = 0; c < 4; ++c) all[c] += channels(i)[c];
    for (const std::uint64_t sum : all)
      append((2 * sum + members.size()) / (2 * members.size()), 1);
  }
}

void Naive::time(std::size_t field) {
  append_block("time", Type::kInt32, 1);
  for (const std::uint64_t point : left_) {
    Int128 value = 0;
    if (is_float(view_.fields[field].type)) {
      double v = read_.real(field, point, 0) * static_cast<double>(view_.time_num) /
                 static_cast<double>(view_.time_den);
      if (std::isnan(v)) {
        append(0, 4);
        continue;
      }
      v = std::rint(v);
      value = static_cast<Int128>(std::min(std::max(v, -1e36), 1e36));
    } else {
      Int128 top = read_.whole(field, point, 0) * view_.time_num;
      Int128 bottom = view_.time_den;
      if (bottom < 0) {
        top = -top;
        bottom = -bottom;
      }
      value = top / bottom;  // towards zero; now to the floor, then to the nearest, ties to even
      Int128 rest = top % bottom;
      if (rest < 0) {
        rest += bottom;
        --value;
      }
      if (2 * rest > bottom || (2 * rest == bottom && value % 2 != 0)) ++value;
    }
    if (view_.time_absolute) value -= view_.stamp_ns;
    value = std::min<Int128>(std::max<Int128>(value, std::numeric_limits<std::int32_t>::min()),
                             std::numeric_limits<std::int32_t>::max());
    append(static_cast<std::uint64_t>(value), 4);
  }
}

std::uint32_t crc_of(std::string_view name) {
  std::uint32_t crc = ~0U;
  for (const char c : name) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1U ? crc >> 1U ^ 0x82F63B78U : crc >> 1U;
  }
  return ~crc;
}

std::string shortened(const std::string& name) {
  if (name.size() <= 16) return name;
  std::string head = name.substr(0, 12);
  if ((name[12] & '\xC0') == '\x80') {  // in the middle of a character
    while (!head.empty() && (head.back() & '\xC0') == '\x80') head.pop_back();
    if (!head.empty()) head.pop_back();
  }
  return fmt::format("{}~{:03x}", head, crc_of(name) % 4096);
}

void Naive::flat() {
  xyz();
  std::set<std::string> names{"xyz"};
  std::set<std::size_t> used;
  const auto take = [&](const char* block, std::size_t field, auto write) {
    used.insert(field);
    names.insert(block);
    if (wanted(block, view_.fields[field].name)) write();
  };
  const auto number = [&](std::optional<std::size_t> f) {
    return f && view_.fields[*f].count == 1 &&
           (is_whole(view_.fields[*f].type) || is_float(view_.fields[*f].type));
  };
  if (const auto f = named("intensity"); number(f)) take("intensity", *f, [&] { intensity(*f); });
  for (const auto* name : {"rgba", "rgb"}) {
    const auto f = named(name);
    if (!f) continue;
    const Field& field = view_.fields[*f];
    const int type = static_cast<int>(field.type);
    if ((type == 2 && field.count == 4) ||
        ((type == 5 || type == 6 || type == 7) && field.count == 1)) {
      take("rgba", *f, [&] { colour(*f); });
      break;
    }
  }
  if (const auto f = named("ring"); number(f) && is_whole(view_.fields[*f].type))
    take("ring", *f, [&] {
      append_block("ring", Type::kUint16, 1);
      for (const std::uint64_t i : left_)
        append(static_cast<std::uint64_t>(
                   std::min<Int128>(std::max<Int128>(read_.whole(*f, i, 0), 0), 65535)),
               2);
    });
  if (!view_.time_field.empty()) {
    const auto f = named(view_.time_field);
    if (number(f) && view_.time_field != "_")
      take("time", *f, [&] { time(*f); });
    else
      out_.warnings |= DecimatedCloud::kTimeFieldUnusable;
  }
  static const std::set<std::string> kFriends{
      "xyz", "intensity", "rgba", "ring", "time", "payload", "depth"};
  for (std::size_t f = 0; f < view_.fields.size(); ++f) {
    const Field& field = view_.fields[f];
    const bool axis =
        view_.points() != 0 && (f == axes_[0].field || f == axes_[1].field || f == axes_[2].field);
    if (field.name.empty() || field.name == "_" || named(field.name) != f || used.contains(f) ||
        axis)
      continue;
    std::string name(field.name);
    if (kFriends.contains(name) || name[0] == '#') name = "_" + name;
    name = shortened(name);
    if (bytes_of(field.type) == 0 || field.count > 255 || names.contains(name)) {
      out_.warnings |= DecimatedCloud::kFieldLeftOut;
      continue;
    }
    names.insert(name);
    if (!wanted(name, field.name)) continue;
    append_block(name, field.type, field.count);
    for (const std::uint64_t i : left_)
      for (std::uint32_t e = 0; e < field.count; ++e)
        append(read_.bits(f, i, e), bytes_of(field.type));
  }
}

void Naive::box() {
  for (std::size_t k = 0; k < left_.size(); ++k) {
    const auto r = result(k);
    const std::array<float, 3> p{
        static_cast<float>(r[0]), static_cast<float>(r[1]), static_cast<float>(r[2])};
    if (!std::ranges::all_of(p, [](float v) { return std::isfinite(v); })) {
      out_.is_dense = false;
      continue;
    }
    if (!out_.box) out_.box = DecimatedCloud::Box{.min = p, .max = p};
    for (std::size_t a = 0; a < 3; ++a) {
      out_.box->min[a] = std::min(out_.box->min[a], p[a]);
      out_.box->max[a] = std::max(out_.box->max[a], p[a]);
    }
  }
}

DecimatedCloud Naive::run() {
  find_axes();
  filter();
  if (request_.sampling == Sampling::kVoxelCentroid ||
      request_.sampling == Sampling::kVoxelNearest || request_.sampling == Sampling::kVoxelFirst)
    grid();
  else
    sample();
  box();
  if (request_.output == Output::kAsSent) as_sent();
  if (request_.output == Output::kXyz) xyz();
  if (request_.output == Output::kFlat) flat();
  out_.points_in = view_.points();
  out_.points_out = left_.size();
  const bool all = request_.sampling == Sampling::kNone && !request_.region &&
                   request_.min_range == 0 && request_.max_range == 0 &&
                   (request_.keep_invalid || request_.output == Output::kAsSent);
  out_.width = all ? view_.width : static_cast<std::uint32_t>(left_.size());
  out_.height = all ? view_.height : 1;
  out_.row_step = out_.soa ? 0 : out_.width * out_.point_step;
  return std::move(out_);
}

}  // namespace

DecimatedCloud decimate_naively(const CloudView& view, const Request& request) {
  return Naive(view, request).run();
}

std::string difference(const DecimatedCloud& a, const DecimatedCloud& b) {
  const auto counts = [](const DecimatedCloud& c) {
    return fmt::format(
        "in {} out {} nonfinite {} zero {} region {} extent {}; {} x {}, steps {} {}, big {} soa "
        "{} dense {}, leaf {}, warnings {}, {} bytes",
        c.points_in,
        c.points_out,
        c.dropped_nonfinite,
        c.dropped_zero,
        c.dropped_region,
        c.dropped_extent,
        c.width,
        c.height,
        c.point_step,
        c.row_step,
        c.big_endian,
        c.soa,
        c.is_dense,
        c.leaf,
        c.warnings,
        c.data.size());
  };
  if (counts(a) != counts(b)) return counts(a) + "\n  and  " + counts(b);
  if (a.fields.size() != b.fields.size())
    return fmt::format("{} and {} fields", a.fields.size(), b.fields.size());
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    const auto text = [](const cloud::ResultField& f) {
      return fmt::format("{} @{} {} x{}", f.name, f.offset, static_cast<int>(f.type), f.count);
    };
    if (text(a.fields[i]) != text(b.fields[i]))
      return text(a.fields[i]) + "  and  " + text(b.fields[i]);
  }
  const auto where = std::ranges::mismatch(a.data, b.data);
  if (where.in1 != a.data.end())
    return fmt::format("byte {} of {}", where.in1 - a.data.begin(), a.data.size());
  if (a.box.has_value() != b.box.has_value()) return "only one has a box";
  if (a.box && (a.box->min != b.box->min || a.box->max != b.box->max)) return "boxes";
  return {};
}

}  // namespace simbridge::test
