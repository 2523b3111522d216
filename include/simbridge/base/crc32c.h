#pragma once
// What: CRC-32C (Castagnoli), as Frame.crc32c and the names of flat blocks want it.
// Owner: nobody, pure functions.   Threads: any.
#include <cstddef>
#include <cstdint>
#include <span>

namespace simbridge {

[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data);
/// The way that processors without the instruction go; for tests.
[[nodiscard]] std::uint32_t crc32c_by_tables(std::span<const std::byte> data);

}  // namespace simbridge
