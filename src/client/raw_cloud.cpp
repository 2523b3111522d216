#include "simbridge/client/raw_cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace simbridge::client {
namespace {

constexpr std::uint64_t kFieldMax = 1U << 20U;  // nobody judged those of a cloud without points

bool is_padding(const CloudField& field) {
  return field.name.empty() || field.name == "_";
}

bool fits_a_header(std::string_view name) {
  return name.find_first_of(" \t\r\n\v\f") == std::string_view::npos;
}

std::uint64_t bytes_of(const CloudField& field) {
  return size_of(field.type) * std::uint64_t{field.count};
}

// Where the values of one field come from, and go to.
struct Move {
  CloudField to;
  std::uint64_t from = 0;  // in the record, or of the block
  std::uint64_t step = 0;
  bool colour = false;  // R G B A to the number 0xAARRGGBB
};

class Records {
 public:
  explicit Records(const RawCloud& cloud)
      : cloud_(cloud),
        row_step_(cloud.row_step != 0 ? cloud.row_step
                                      : std::uint64_t{cloud.point_step} * cloud.width) {}

  Result<PointCloudData> run() {
    if (const std::string fault = fault_of_sizes(); !fault.empty())
      return fail(ErrorCode::kInvalid, fault);
    out_.width = cloud_.width;
    out_.height = cloud_.height;
    out_.viewpoint = cloud_.viewpoint;
    if (can_stay())
      copy_records();
    else
      lay_out_anew();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::uint64_t points() const { return std::uint64_t{cloud_.width} * cloud_.height; }
  [[nodiscard]] std::string fault_of_sizes() const;
  [[nodiscard]] bool can_stay() const;
  void copy_records();
  void plan();
  void lay_out_anew();
  [[nodiscard]] const char* at(const Move& move, std::uint64_t point) const {
    const std::uint64_t row = cloud_.soa ? 0 : point / cloud_.width;
    const std::uint64_t column = cloud_.soa ? point : point % cloud_.width;
    return cloud_.data.data() + move.from + row * row_step_ + column * move.step;
  }

  const RawCloud& cloud_;
  std::uint64_t row_step_;
  std::vector<Move> moves_;
  PointCloudData out_;
};

// Every product below is of 32-bit numbers, or follows a check that it is small.
std::string Records::fault_of_sizes() const {
  if (points() == 0) return {};
  const std::uint64_t have = cloud_.data.size();
  std::uint64_t used = 0;
  for (const CloudField& field : cloud_.fields) {
    const std::uint64_t bytes = bytes_of(field);
    if (cloud_.soa) {
      if (bytes != 0 && (have / bytes < points() || field.offset > have - bytes * points()))
        return fmt::format("{}: the block ends beyond the data", field.name);
      used += bytes * points();
      // A hostile peer could name the same bytes over and over.
      if (used > have) return "the blocks overlap";
    } else if (field.offset + bytes > cloud_.point_step) {
      return fmt::format("{}: ends beyond the point", field.name);
    }
  }
  if (cloud_.soa) return {};
  const std::uint64_t tight = std::uint64_t{cloud_.point_step} * cloud_.width;
  if (cloud_.height > 1 && row_step_ < tight) return "row_step is less than a row";
  if (cloud_.point_step == 0 || tight > have || (cloud_.height - 1) > (have - tight) / row_step_)
    return "the data is shorter than its points";
  return {};
}

bool Records::can_stay() const {
  if (points() == 0 || cloud_.soa || cloud_.big_endian) return false;
  auto fields = cloud_.fields;
  std::ranges::sort(fields, {}, &CloudField::offset);
  std::uint64_t end = 0;
  for (const CloudField& field : fields) {
    if (is_padding(field)) continue;
    if (field.offset < end || size_of(field.type) == 0 || !fits_a_header(field.name) ||
        std::ranges::count(fields, field.name, &CloudField::name) > 1)
      return false;
    end = field.offset + bytes_of(field);
  }
  return end > 0;
}

void Records::copy_records() {
  out_.point_step = cloud_.point_step;
  for (const CloudField& field : cloud_.fields)
    if (!is_padding(field)) out_.fields.push_back(field);
  const std::uint64_t tight = std::uint64_t{cloud_.point_step} * cloud_.width;
  out_.data.reserve(tight * cloud_.height);
  for (std::uint64_t row = 0; row < cloud_.height; ++row)
    out_.data.append(cloud_.data.substr(row * row_step_, tight));
}

void Records::plan() {
  const auto add = [this](std::string name, const CloudField& from, std::uint64_t at) -> Move& {
    Move& move = moves_.emplace_back();
    move.to = from;
    move.to.name = std::move(name);
    move.from = at;
    move.step = cloud_.soa ? bytes_of(from) : cloud_.point_step;
    return move;
  };
  for (const CloudField& field : cloud_.fields) {
    const auto size = size_of(field.type);
    if (is_padding(field) || size == 0 || bytes_of(field) > kFieldMax ||
        !fits_a_header(field.name) || std::ranges::find(moves_, field.name, [](const Move& m) {
                                        return m.to.name;
                                      }) != moves_.end())
      continue;
    if (field.name == "xyz" && field.count == 3) {
      for (std::uint32_t axis = 0; axis < 3; ++axis) {
        add(std::string(1, "xyz"[axis]), field, field.offset + axis * size).to.count = 1;
      }
    } else if (field.name == "rgba" && field.type == FieldType::kUint8 && field.count == 4) {
      Move& move = add(field.name, field, field.offset);
      move.colour = true;
      move.to.type = FieldType::kUint32;
      move.to.count = 1;
    } else {
      add(field.name, field, field.offset);
    }
  }
}

void Records::lay_out_anew() {
  plan();
  if (moves_.empty() && points() == 0)  // a PCD file has at least one field
    for (const char* axis : {"x", "y", "z"})
      moves_.push_back({.to = {.name = axis, .type = FieldType::kFloat32}});
  for (Move& move : moves_) {
    move.to.offset = out_.point_step;
    out_.point_step += static_cast<std::uint32_t>(bytes_of(move.to));
    out_.fields.push_back(move.to);
  }
  out_.data.resize(points() * out_.point_step);
  for (const Move& move : moves_) {
    const auto size = size_of(move.to.type);
    const auto bytes = bytes_of(move.to);
    char* to = out_.data.data() + move.to.offset;
    for (std::uint64_t point = 0; point < points(); ++point, to += out_.point_step) {
      std::memcpy(to, at(move, point), bytes);
      if (move.colour) {
        std::swap(to[0], to[2]);
      } else if (cloud_.big_endian) {
        for (char* value = to; value < to + bytes; value += size) std::reverse(value, value + size);
      }
    }
  }
}

}  // namespace

Result<PointCloudData> to_records(const RawCloud& cloud) {
  return Records(cloud).run();
}

}  // namespace simbridge::client
