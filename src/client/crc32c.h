#pragma once
// What: CRC-32C (Castagnoli), as Frame.crc32c wants it. The client's own, beside the daemon's.
// Threads: any.
#include <cstdint>
#include <string_view>

namespace simbridge::client {

[[nodiscard]] std::uint32_t crc32c(std::string_view data);

}  // namespace simbridge::client
