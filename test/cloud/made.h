#pragma once
// What: small clouds written out in a test: little-endian records, one row of numbers a point.
// Owner: the test.   Threads: one.
#include "cloud/values.h"
#include "simbridge/cloud/decimator.h"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace simbridge::test {

struct Made {
  std::vector<cloud::Field> fields;
  std::vector<std::byte> data;
  cloud::CloudView view;

  /// A field of count n takes n numbers of a row.
  Made(std::vector<cloud::Field> given, const std::vector<std::vector<double>>& rows)
      : fields(std::move(given)) {
    std::uint32_t step = 0;
    for (cloud::Field& field : fields) {
      field.offset = step;
      step += cloud::size_of(field.type) * field.count;
    }
    for (const auto& row : rows) {
      auto number = row.begin();
      for (const cloud::Field& field : fields) {
        for (std::uint32_t i = 0; i < field.count; ++i) {
          const double value =
              number == row.end() ? 0.0 : *number++;  // of a short row the rest is 0
          const std::size_t at = data.size();
          data.resize(at + cloud::size_of(field.type));
          cloud::with_number_type(field.type, [&]<typename T>() {
            cloud::store(data.data() + at, static_cast<T>(value), false);
          });
        }
      }
    }
    view = {.width = static_cast<std::uint32_t>(rows.size()),
            .height = 1,
            .fields = fields,
            .point_step = step,
            .row_step = static_cast<std::uint32_t>(step * rows.size()),
            .data = data};
  }
  ~Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
};

inline std::vector<cloud::Field> xyz_fields(cloud::Type type = cloud::Type::kFloat32) {
  return {{.name = "x", .type = type}, {.name = "y", .type = type}, {.name = "z", .type = type}};
}

template <typename T>
std::vector<T> values_of(const cloud::DecimatedCloud& out, std::string_view name) {
  std::vector<T> values;
  for (const auto& field : out.fields) {
    if (field.name != name) continue;
    const std::size_t step = out.soa ? sizeof(T) * field.count : out.point_step;
    for (std::uint64_t i = 0; i < out.points_out; ++i)
      for (std::uint32_t c = 0; c < field.count; ++c)
        values.push_back(cloud::load<T>(out.data.data() + field.offset + i * step + c * sizeof(T),
                                        out.big_endian));
  }
  return values;
}

inline std::vector<std::string> names_of(const cloud::DecimatedCloud& out) {
  std::vector<std::string> names;
  for (const auto& field : out.fields) names.push_back(field.name);
  return names;
}

}  // namespace simbridge::test
