#pragma once
// What: a CloudView made ready to be read: where each field's value of point i stands, whatever the
// layout. Owner: one call of decimate(); it points into the view.   Threads: one.
#include "simbridge/base/result.h"
#include "simbridge/cloud/decimator.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simbridge::cloud {

/// Where the values of one field stand. size() is 0 for an unknown type: nothing can be read then.
struct Column {
  const std::byte* start = nullptr;  // of point 0
  std::uint64_t step = 0;            // from point to point within a row
  Type type = Type::kUnknown;
  std::uint32_t count = 1;
  [[nodiscard]] std::uint64_t bytes() const { return std::uint64_t{size_of(type)} * count; }
};

/// Points stand in rows of `width`; `row_step` bytes lie between the starts of two rows. A cloud
/// without padding between rows is one long row.
struct Layout {
  std::uint32_t points = 0;
  std::uint32_t width = 0;
  std::uint64_t row_step = 0;
  bool swap = false;                   // values are in the other byte order
  const std::byte* records = nullptr;  // of point 0; nullptr with soa
  std::uint64_t record_step = 0;
  std::vector<Column> columns;  // as CloudView::fields
  static constexpr std::size_t kNoField = ~std::size_t{0};
  std::array<std::size_t, 3> axis_field{kNoField, kNoField, kNoField};  // all alike: one xyz
  std::array<Column, 3> axes;                                           // count 1 each

  [[nodiscard]] bool is_coordinate(std::size_t field) const {
    return field == axis_field[0] || field == axis_field[1] || field == axis_field[2];
  }
  [[nodiscard]] const std::byte* at(const Column& column, std::uint32_t point) const {
    if (point < width) return column.start + point * column.step;
    return column.start + (point / width) * row_step + (point % width) * column.step;
  }
};

/// kInvalid where the view breaks its own promise (what wire::check_payload would have refused). A
/// cloud of no points has no columns that could be read, and nothing of it is judged.
Result<void> resolve(const CloudView& cloud, Layout& layout);

/// "" and "_" are padding.
bool is_padding(std::string_view name);
/// A number that coordinates may have: float32, float64, integers up to 32 bits.
bool is_coordinate_type(Type type);
/// Everything but kUnknown and kBool.
bool is_number(Type type);
bool is_integer(Type type);

}  // namespace simbridge::cloud
