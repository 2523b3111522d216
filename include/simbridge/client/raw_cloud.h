#pragma once
// What: a cloud as it arrives, in any layout the protocol has, and the way from there to the
// records that a PCD file holds.   Owner: a view of someone's bytes.   Threads: values, any.
#include "simbridge/base/result.h"
#include "simbridge/client/point_cloud.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace simbridge::client {

struct RawCloud {
  std::uint32_t width = 0, height = 0;
  std::uint32_t point_step = 0, row_step = 0;  // row_step 0: no padding between rows
  bool big_endian = false;
  bool soa = false;                // a block of data for each field, at its offset
  std::vector<CloudField> fields;  // count never 0
  Viewpoint viewpoint;
  std::string_view data;
};

/// Little-endian records stay as they are, padding included. Everything else is laid out anew,
/// field by field: xyz becomes x, y and z, four bytes of rgba the number that PCD has for a colour,
/// and what PCD cannot name (padding, a second field of a name) stays out. kInvalid where fields
/// and data contradict each other.
[[nodiscard]] Result<PointCloudData> to_records(const RawCloud& cloud);

}  // namespace simbridge::client
