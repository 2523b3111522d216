#pragma once
// What: the way that processors without the instruction go, for tests.   Owner: nobody.
// Threads: any.
#include <cstddef>
#include <cstdint>
#include <span>

namespace simbridge::wire {

std::uint32_t crc32c_by_tables(std::span<const std::byte> data);

}  // namespace simbridge::wire
