#pragma once
// What: PCD files (versions .5 to .7): ascii, binary, binary_compressed; COUNT above 1, "_"
// padding, organised clouds, VIEWPOINT. Pure from bytes to values; a broken file is refused with
// the line or the byte at fault, before anything of the size it claims is reserved. Owner: nobody,
// functions.   Threads: any.
#include "simbridge/base/bytes.h"
#include "simbridge/base/result.h"
#include "simbridge/client/point_cloud.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace simbridge::client {

struct PcdLimits {
  Bytes data{1ULL << 30U};  // the most that points may take once they are read
};

enum class PcdForm { kAscii, kBinary, kCompressed };

/// The error begins with "line N:" or "byte N:". Bytes after the points are ignored (PCL pads to
/// pages).
[[nodiscard]] Result<PointCloudData> parse_pcd(std::string_view file, const PcdLimits& limits = {});

/// As parse_pcd; the error begins with the path.
[[nodiscard]] Result<PointCloudData> read_pcd(const std::filesystem::path& path,
                                              const PcdLimits& limits = {});

/// The cloud as a file. The fields stand in the order of their offsets and gaps become "_", since a
/// PCD record has none. Fields must not overlap and must lie within point_step.
[[nodiscard]] Result<std::string> format_pcd(const PointCloudData& cloud, PcdForm form);

}  // namespace simbridge::client
