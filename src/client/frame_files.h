#pragma once
// What: frames as PCD files of one folder: CHANNEL-EPOCH-SEQUENCE.pcd. A file that is there already
// is never written over.   Owner: watch.   Threads: one.
#include "simbridge/base/result.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace simbridge::v1 {
class Frame;
}

namespace simbridge::client {

/// A channel's name as the beginning of a file's: '/' becomes '_', a dot does not come first; a
/// name that is too long is cut and ends with its checksum.
[[nodiscard]] std::string file_name_of(std::string_view channel,
                                       std::uint64_t epoch,
                                       std::uint64_t sequence);

class FrameFiles {
 public:
  /// Makes the folder where it is not there.
  [[nodiscard]] static Result<FrameFiles> open(const std::filesystem::path& folder);

  /// The file's path; empty for a frame that is no cloud of plain bytes (a PCD file cannot hold
  /// it).
  [[nodiscard]] Result<std::filesystem::path> write(std::string_view channel,
                                                    const v1::Frame& frame) const;

 private:
  explicit FrameFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

}  // namespace simbridge::client
