#pragma once
// What: which of n points a stride or a seeded random choice takes, and the ladder of leaf sizes
// that a budget climbs. No state, no generator: point j of the answer follows from j alone.
// Owner: nobody, pure functions.   Threads: any.
#include "kernels/voxel.h"

#include <cstdint>

namespace simbridge::kernels {

inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

/// SplitMix64's finaliser of seed + (j + 1) x golden.
SB_HOST_DEVICE inline std::uint64_t mix64(std::uint64_t seed, std::uint64_t j) {
  std::uint64_t z = seed + (j + 1) * kGolden;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}
/// The j-th of exactly k points of n, ascending: one from each of k equal stretches. n < 2^31.
SB_HOST_DEVICE inline std::uint64_t jittered(std::uint64_t seed,
                                             std::uint64_t j,
                                             std::uint64_t n,
                                             std::uint64_t k) {
  const std::uint64_t low = j * n / k;
  const std::uint64_t high = (j + 1) * n / k;
  return low + (((mix64(seed, j) >> 32U) * (high - low)) >> 32U);
}
SB_HOST_DEVICE inline std::uint64_t stride_for(std::uint64_t n, std::uint64_t max_points) {
  return n <= max_points ? 1 : (n - 1) / max_points + 1;
}

}  // namespace simbridge::kernels
