#pragma once
// What: where things stand in a flat message (protocol.md §5), little-endian.
// Owner: nobody.   Threads: any.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace simbridge::wire::flat {

static_assert(std::endian::native == std::endian::little, "flat messages are copied as they lie");

inline constexpr std::string_view kMagic = "SBF1";
inline constexpr std::size_t kHeaderBytes = 208;
inline constexpr std::size_t kBlockBytes = 32;  // of the table
inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::uint64_t kAlign = 8;
inline constexpr std::string_view kMetaName = "#meta";

enum At : std::size_t {
  kAtHeaderBytes = 4,
  kAtBlocks = 6,
  kAtSubscription = 8,
  kAtChannel = 12,
  kAtSequence = 16,
  kAtEpoch = 24,
  kAtStamp = 32,
  kAtSent = 40,
  kAtReceived = 48,
  kAtForwarded = 56,
  kAtPointsIn = 64,
  kAtSkipped = 72,
  kAtPoints = 80,
  kAtFlags = 84,
  kAtHeight = 88,
  kAtLeaf = 96,
  kAtOrigin = 104,
  kAtPose = 128,
  kAtBox = 184,
};
/// Of a block's entry.
enum AtBlock : std::size_t {
  kAtType = 16,
  kAtComponents = 17,
  kAtOffset = 20,
  kAtBytes = 24,
};

enum Flag : std::uint32_t {
  kDegraded = 1,
  kKeepsRows = 2,
  kNotDense = 4,
  kBoxValid = 8,
  kPoseGiven = 16,
  kOriginGiven = 32,
};
inline constexpr unsigned kClockShift = 16, kKindShift = 24;
inline constexpr std::uint32_t kFourBits = 15;
enum Kind : std::uint32_t { kCloud = 0, kDepth = 1, kOpaque = 2 };

template <typename T>
T get(std::span<const std::byte> from, std::size_t at) {
  T value{};
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}
template <typename T>
void put(std::span<std::byte> to, std::size_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof value);
}
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace simbridge::wire::flat
