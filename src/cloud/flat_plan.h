#pragma once
// What: which blocks a flat result has, under which names (protocol.md §5): pure, a table's work.
// Owner: one call of decimate().   Threads: values, any.
#include "cloud/layout.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::cloud {

enum class FlatKind : std::uint8_t { kXyz, kIntensity, kRgba, kRing, kTime, kOther };

struct FlatBlock {
  FlatKind kind = FlatKind::kOther;
  std::size_t field = 0;  // of the view; of kXyz none
  std::string name;
  Type type = Type::kUnknown;
  std::uint32_t components = 1;
  std::uint64_t offset = 0;  // set by place()
  [[nodiscard]] std::uint64_t bytes(std::uint64_t points) const {
    return points * components * size_of(type);
  }
};

/// The blocks in their order, xyz first; wanted: names of blocks or of the sensor's fields, empty =
/// all. warnings: DecimatedCloud::Warning.
std::vector<FlatBlock> plan_flat(const CloudView& cloud,
                                 const Layout& layout,
                                 std::span<const std::string> wanted,
                                 std::uint32_t& warnings);
/// Lays the blocks out for so many points, at multiples of 8. Returns the bytes of all.
std::uint64_t place(std::vector<FlatBlock>& blocks, std::uint64_t points);
/// At most 16 bytes: a longer name is its first 12, cut back to a whole character, `~` and the low
/// 12 bits of its CRC-32C.
std::string short_name(std::string_view name);

}  // namespace simbridge::cloud
