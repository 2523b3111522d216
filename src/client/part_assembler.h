#pragma once
// What: puts a frame together from its parts, judging each: one transfer at a time, in order,
// adding up to what was announced and no more than allowed. Owner: Watcher, one a connection.
// Threads: one at a time.
#include "simbridge/base/result.h"

#include <cstdint>
#include <optional>
#include <string>

namespace simbridge::v1 {
class FramePart;
}  // namespace simbridge::v1

namespace simbridge::client {

class PartAssembler {
 public:
  explicit PartAssembler(std::uint64_t total_bytes_max) : total_bytes_max_(total_bytes_max) {}

  /// The Frame's encoding once the last part is here, nullopt before. An error drops the transfer.
  Result<std::optional<std::string>> add(const v1::FramePart& part);

 private:
  Result<void> judge(const v1::FramePart& part) const;

  std::uint64_t total_bytes_max_;
  std::uint64_t transfer_ = 0;  // the newest seen
  bool open_ = false;
  std::uint32_t next_index_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::string bytes_;
};

}  // namespace simbridge::client
