#pragma once
// What: the vectorised stages of the road of a block of points: which are kept, and which cell of
// the grid each is in. The same code at several levels of instructions, with the same answer; the
// machine's best is chosen at run time.   Owner: nobody, pure functions.   Threads: any.
#include "kernels/voxel.h"

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace simbridge::cloud {

inline constexpr std::uint32_t kBlockPoints = 256;

/// Coordinates as transmitted: float where the sender has float32, else double (exact for
/// integers).
template <typename T>
struct CoordinateBlock {
  alignas(64) std::array<T, kBlockPoints> x, y, z;
};

struct Filter {
  bool drop_invalid = true;               // false: invalid points pass, region and ranges too
  bool bounded = false;                   // region or ranges are asked for
  std::array<double, 3> min{}, max{};     // infinite where there is no region
  double min_square = 0, max_square = 0;  // of the ranges; infinite where there is no end
};

struct Dropped {
  std::uint64_t nonfinite = 0, zero = 0, region = 0, extent = 0;
  [[nodiscard]] std::uint64_t sum() const { return nonfinite + zero + region + extent; }
};

/// For each point of a block its key, kNoKey where it is dropped, and its offsets in the cell.
struct KeyBlock {
  alignas(64) std::array<std::uint64_t, kBlockPoints> key, offsets;
};

enum class Level : std::uint8_t { kBaseline, kV3, kV4 };  // of x86-64; elsewhere the first only
std::string_view name_of(Level level);
/// The levels that this machine can run, the baseline first.
std::span<const Level> levels_here();

/// keep[i] is 1 or 0.
void select_points(Level level,
                   const CoordinateBlock<float>& in,
                   std::uint32_t points,
                   const Filter& filter,
                   std::array<std::uint8_t, kBlockPoints>& keep,
                   Dropped& dropped);
void select_points(Level level,
                   const CoordinateBlock<double>& in,
                   std::uint32_t points,
                   const Filter& filter,
                   std::array<std::uint8_t, kBlockPoints>& keep,
                   Dropped& dropped);
/// Filters, then the grid. Invalid points are dropped in any case.
void find_keys(Level level,
               const CoordinateBlock<float>& in,
               std::uint32_t points,
               const Filter& filter,
               const kernels::Grid& grid,
               KeyBlock& out,
               Dropped& dropped);
void find_keys(Level level,
               const CoordinateBlock<double>& in,
               std::uint32_t points,
               const Filter& filter,
               const kernels::Grid& grid,
               KeyBlock& out,
               Dropped& dropped);

}  // namespace simbridge::cloud
