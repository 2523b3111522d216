// A frame's checksum; the sum itself is base's.
#include "simbridge/base/crc32c.h"

#include "simbridge/wire/frame_head.h"

#include <fmt/format.h>

namespace simbridge::wire {

std::uint32_t crc32c(std::span<const std::byte> data) {
  return simbridge::crc32c(data);
}

Verdict check_crc(const FrameHead& head, std::span<const std::byte> data) {
  if (!head.crc32c) return {};
  const std::uint32_t found = crc32c(data);
  if (found == *head.crc32c) return {};
  return {RejectCode::kChecksum,
          fmt::format("crc32c: the header says {:#010x}, the {} bytes of data have {:#010x}",
                      *head.crc32c,
                      data.size(),
                      found)};
}

}  // namespace simbridge::wire
