#pragma once
// What: "voxel v1", the exact arithmetic of decimation: which cell a point falls into, what a cell
// sums up, what comes out of it. After the first floor everything is integer, and no product is
// added to anything in floating point, so that the answer is the same on every processor.
// Compiled by the host's compiler and by nvcc (C++20): no fused multiply-add, no fast-math.
// Owner: nobody, pure functions.   Threads: any.
#include <bit>
#include <cmath>
#include <cstdint>

#ifndef SB_HOST_DEVICE
#ifdef __CUDACC__
#define SB_HOST_DEVICE __host__ __device__
#else
#define SB_HOST_DEVICE
#endif
#endif

namespace simbridge::kernels {

/// Cells per axis: [-2^20, 2^20) around the base cell. A cell has 65536 quanta per axis.
inline constexpr int kCellBits = 21;
inline constexpr std::int64_t kHalfCells = std::int64_t{1} << (kCellBits - 1);
inline constexpr std::uint64_t kCellMask = (std::uint64_t{1} << kCellBits) - 1;
inline constexpr double kQuanta = 65536.0;
inline constexpr std::int64_t kHalfWindow = kHalfCells << 16;  // 2^36 quanta
/// The key of a point that is in no cell; a real key has 63 bits.
inline constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
/// Sums of 32 bits hold so many points of one cell.
inline constexpr std::uint32_t kNarrowPoints = 65536;

struct Grid {
  double leaf = 0;
  double scale = 0;         // quanta a metre
  std::int64_t base[3]{};   // the cell in the window's middle; moves no border. |base| <= 2^25
  double base_quanta[3]{};  // 65536 x base
};

/// False where no grid can be made of it: zero, negative, NaN, or so small that 1/leaf overflows.
inline bool make_grid(double leaf, Grid& grid) {
  const double scale = (1.0 / leaf) * kQuanta;  // an exact scaling
  if (!(leaf > 0) || !std::isfinite(leaf) || !std::isfinite(scale)) return false;
  grid = {.leaf = leaf, .scale = scale};
  return true;
}

/// Quanta from the base cell's lower border. One rounded product; the rest is exact wherever
/// in_window() holds.
SB_HOST_DEVICE inline double quanta_of(double v, double scale, double base_quanta) {
  return std::floor(v * scale) - base_quanta;
}
/// False for NaN too.
SB_HOST_DEVICE inline bool in_window(double quanta) {
  constexpr auto kLimit = static_cast<double>(kHalfWindow);
  return quanta >= -kLimit && quanta < kLimit;
}
/// Quanta from the window's lower border, 37 bits. quanta is a whole number in the window: the sum
/// with 1.5 x 2^52 has it in its low bits, which every SIMD unit can do (a conversion to 64 bits
/// only the newest).
SB_HOST_DEVICE inline std::uint64_t window_quanta(double quanta) {
  constexpr double kMagic = 0x1.8p52;
  return std::bit_cast<std::uint64_t>(quanta + kMagic) - std::bit_cast<std::uint64_t>(kMagic) +
         static_cast<std::uint64_t>(kHalfWindow);
}
SB_HOST_DEVICE inline std::uint64_t key_of(std::uint64_t wx, std::uint64_t wy, std::uint64_t wz) {
  return (wx >> 16U) | ((wy >> 16U) << kCellBits) | ((wz >> 16U) << (2 * kCellBits));
}
/// The three offsets in the cell and a 1 for the count, 16 bits each.
SB_HOST_DEVICE inline std::uint64_t offsets_of(std::uint64_t wx,
                                               std::uint64_t wy,
                                               std::uint64_t wz) {
  constexpr std::uint64_t kLow = 0xFFFF;
  return (wx & kLow) | ((wy & kLow) << 16U) | ((wz & kLow) << 32U) | (std::uint64_t{1} << 48U);
}
SB_HOST_DEVICE inline std::uint64_t offset(std::uint64_t offsets, int axis) {
  return (offsets >> (16 * axis)) & 0xFFFFU;
}
/// Cell number along an axis, from world 0.
SB_HOST_DEVICE inline std::int64_t cell_of(std::uint64_t key, int axis, const Grid& grid) {
  return static_cast<std::int64_t>((key >> (kCellBits * axis)) & kCellMask) - kHalfCells +
         grid.base[axis];
}

/// Smaller is nearer to the cell's middle, then earlier.
SB_HOST_DEVICE inline std::uint64_t nearness(std::uint64_t offsets, std::uint32_t index) {
  std::uint64_t squares = 0;  // < 3 x 2^30
  for (int axis = 0; axis < 3; ++axis) {
    const auto d = static_cast<std::int64_t>(offset(offsets, axis)) - 32768;
    squares += static_cast<std::uint64_t>(d * d);
  }
  return (squares << 32U) | index;
}

/// The mean of n points of a cell whose offsets add up to sum. n <= 2^20: 64 bits are exact.
SB_HOST_DEVICE inline double centroid(std::int64_t cell,
                                      std::uint64_t sum,
                                      std::uint64_t n,
                                      double leaf) {
  const auto count = static_cast<std::int64_t>(n);
  const std::int64_t value =
      cell * count * (std::int64_t{1} << 17) + 2 * static_cast<std::int64_t>(sum) + count;
  const double mean = static_cast<double>(value) * (1.0 / static_cast<double>(n << 17U));
  return mean * leaf;
}
/// The same for any n.
inline double centroid_wide(std::int64_t cell, std::uint64_t sum, std::uint64_t n, double leaf) {
  __extension__ using Wide = __int128;
  const Wide value = Wide{cell} * static_cast<Wide>(n) * (Wide{1} << 17U) +
                     2 * static_cast<Wide>(sum) + static_cast<Wide>(n);
  const double mean = static_cast<double>(value) * (1.0 / static_cast<double>(n << 17U));
  return mean * leaf;
}

/// A float attribute as an integer that can be summed in any order. NaN counts as 0.
SB_HOST_DEVICE inline std::int64_t fixed_of(float value) {
  constexpr double kLimit = 67108864.0;  // 2^26
  double v = value;
  if (!(v == v)) return 0;
  v = v < -kLimit ? -kLimit : v;
  v = v > kLimit ? kLimit : v;
  return static_cast<std::int64_t>(std::rint(v * kQuanta));
}
template <typename Sum>
SB_HOST_DEVICE inline float mean_of_fixed(Sum sum, std::uint64_t n) {
  return static_cast<float>(static_cast<double>(sum) * (1.0 / static_cast<double>(n << 16U)));
}
SB_HOST_DEVICE inline std::uint64_t rounded_mean(std::uint64_t sum, std::uint64_t n) {
  return (2 * sum + n) / (2 * n);
}

}  // namespace simbridge::kernels
