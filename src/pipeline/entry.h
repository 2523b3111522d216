#pragma once
// What: what a derived stream knows of one raw position, in one word: who works on it, how many
// readers need it, where the result lies.   Owner: nobody, values.   Threads: any; pure.
#include <cstdint>

namespace simbridge::pipeline {

enum class Stage : std::uint8_t { kEmpty = 0, kWaits, kRuns, kReady, kFailed };

struct Entry {
  Stage stage = Stage::kEmpty;
  std::uint8_t readers = 0;   // kManyReaders: so many or more, and never counted down again
  std::uint32_t lap = 0;      // which of the raw positions that share the place; 21 bits
  std::uint32_t derived = 0;  // kReady: the low bits of the position in the derived ring
};
inline constexpr std::uint8_t kManyReaders = 255;
inline constexpr std::uint32_t kPlaces = 512;  // raw positions that a stream knows of at one time
inline constexpr std::uint32_t kLapMask = (1U << 21U) - 1;

constexpr std::uint32_t place_of(std::uint64_t position) {
  return static_cast<std::uint32_t>(position % kPlaces);
}
constexpr std::uint32_t lap_of(std::uint64_t position) {
  return static_cast<std::uint32_t>(position / kPlaces) & kLapMask;
}

constexpr std::uint64_t pack(const Entry& entry) {
  return std::uint64_t{static_cast<std::uint8_t>(entry.stage)} << 61U |
         std::uint64_t{entry.readers} << 53U | std::uint64_t{entry.lap} << 32U | entry.derived;
}
constexpr Entry unpack(std::uint64_t word) {
  return {.stage = static_cast<Stage>(word >> 61U),
          .readers = static_cast<std::uint8_t>(word >> 53U),
          .lap = static_cast<std::uint32_t>(word >> 32U) & kLapMask,
          .derived = static_cast<std::uint32_t>(word)};
}
/// Whether this is about the position (or one 2^30 positions away: the frame itself tells).
constexpr bool is_about(const Entry& entry, std::uint64_t position) {
  return entry.stage != Stage::kEmpty && entry.lap == lap_of(position);
}
constexpr Entry with_one_more(Entry entry) {
  if (entry.readers != kManyReaders) ++entry.readers;
  return entry;
}
constexpr Entry with_one_less(Entry entry) {
  if (entry.readers != kManyReaders && entry.readers != 0) --entry.readers;
  return entry;
}
/// The whole position of which the low 32 bits are known: the newest below head.
constexpr std::uint64_t whole_position(std::uint32_t low, std::uint64_t head) {
  const std::uint64_t behind = static_cast<std::uint32_t>(head) - low;
  return head - behind;
}

}  // namespace simbridge::pipeline
