#pragma once
// What: clouds for tests: recordings as a CloudView.   Owner: the test.   Threads: one.
#include "simbridge/client/pcd.h"
#include "simbridge/cloud/decimator.h"
#include "support/test_data.h"

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::test {

/// A recording, and the view of it.
struct Recording {
  client::PointCloudData pcd;
  std::vector<cloud::Field> fields;
  cloud::CloudView view;

  explicit Recording(client::PointCloudData read) : pcd(std::move(read)) {
    for (const auto& field : pcd.fields)
      fields.push_back({.name = field.name,
                        .offset = field.offset,
                        .type = static_cast<cloud::Type>(field.type),
                        .count = field.count});
    view = {.width = pcd.width,
            .height = pcd.height,
            .fields = fields,
            .point_step = pcd.point_step,
            .row_step = pcd.point_step * pcd.width,
            .data = std::as_bytes(std::span(pcd.data))};
  }
  ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace simbridge::test
