#include "cloud/stages.h"

#include <cmath>
#include <limits>

#if defined(__x86_64__)
#define SB_V3 __attribute__((target("arch=x86-64-v3")))
#define SB_V4 __attribute__((target("arch=x86-64-v4")))
#endif
#define SB_INLINE __attribute__((always_inline)) inline

namespace simbridge::cloud {
namespace {

using kernels::Grid;

// Finite, and still so as a float32: half an ulp above its largest a double rounds to infinity.
SB_INLINE bool fits(float v) {
  return std::fabs(v) <= std::numeric_limits<float>::max();
}
SB_INLINE bool fits(double v) {
  return std::fabs(v) < 0x1.ffffffp127;
}

// Everything below is written without branches, so that it can be done for many points at a time.
struct Judged {
  bool finite, zero, inside;
};

template <bool Bounded, typename T>
SB_INLINE Judged judge(T fx, T fy, T fz, const Filter& filter) {
  Judged judged{};
  judged.finite = fits(fx) & fits(fy) & fits(fz);
  judged.zero = (fx == 0) & (fy == 0) & (fz == 0);
  judged.inside = true;
  if constexpr (Bounded) {
    const double x = fx;
    const double y = fy;
    const double z = fz;
    const double square = (x * x + y * y) + z * z;
    judged.inside = (x >= filter.min[0]) & (x <= filter.max[0]) & (y >= filter.min[1]) &
                    (y <= filter.max[1]) & (z >= filter.min[2]) & (z <= filter.max[2]) &
                    (square >= filter.min_square) & (square <= filter.max_square);
  }
  return judged;
}

template <bool Bounded, typename T>
SB_INLINE void select(const CoordinateBlock<T>& in,
                      std::uint32_t points,
                      const Filter& filter,
                      std::array<std::uint8_t, kBlockPoints>& keep,
                      Dropped& dropped) {
  std::uint64_t nonfinite = 0;
  std::uint64_t zero = 0;
  std::uint64_t region = 0;
  const bool keep_invalid = !filter.drop_invalid;
  for (std::uint32_t i = 0; i < points; ++i) {
    const Judged judged = judge<Bounded>(in.x[i], in.y[i], in.z[i], filter);
    const bool valid = judged.finite & !judged.zero;
    nonfinite += static_cast<std::uint64_t>(!judged.finite);
    zero += static_cast<std::uint64_t>(judged.zero);
    region += static_cast<std::uint64_t>(valid & !judged.inside);
    keep[i] = static_cast<std::uint8_t>((valid & judged.inside) | (!valid & keep_invalid));
  }
  if (!keep_invalid) {
    dropped.nonfinite += nonfinite;
    dropped.zero += zero;
  }
  dropped.region += region;
}

template <bool Bounded, typename T>
SB_INLINE void keys(const CoordinateBlock<T>& in,
                    std::uint32_t points,
                    const Filter& filter,
                    const Grid& grid,
                    KeyBlock& out,
                    Dropped& dropped) {
  std::uint64_t nonfinite = 0;
  std::uint64_t zero = 0;
  std::uint64_t region = 0;
  std::uint64_t extent = 0;
  for (std::uint32_t i = 0; i < points; ++i) {
    const Judged judged = judge<Bounded>(in.x[i], in.y[i], in.z[i], filter);
    const double x = kernels::quanta_of(in.x[i], grid.scale, grid.base_quanta[0]);
    const double y = kernels::quanta_of(in.y[i], grid.scale, grid.base_quanta[1]);
    const double z = kernels::quanta_of(in.z[i], grid.scale, grid.base_quanta[2]);
    const bool in_grid = kernels::in_window(x) & kernels::in_window(y) & kernels::in_window(z);
    const bool valid = judged.finite & !judged.zero;
    const bool kept = valid & judged.inside & in_grid;
    nonfinite += static_cast<std::uint64_t>(!judged.finite);
    zero += static_cast<std::uint64_t>(judged.zero);
    region += static_cast<std::uint64_t>(valid & !judged.inside);
    extent += static_cast<std::uint64_t>(valid & judged.inside & !in_grid);
    // What is not kept goes through the same steps as a harmless number.
    const std::uint64_t wx = kernels::window_quanta(kept ? x : 0.0);
    const std::uint64_t wy = kernels::window_quanta(kept ? y : 0.0);
    const std::uint64_t wz = kernels::window_quanta(kept ? z : 0.0);
    out.key[i] = kept ? kernels::key_of(wx, wy, wz) : kernels::kNoKey;
    out.offsets[i] = kernels::offsets_of(wx, wy, wz);
  }
  dropped.nonfinite += nonfinite;
  dropped.zero += zero;
  dropped.region += region;
  dropped.extent += extent;
}

// One function for each level, type and kind of filter: the body is inlined into each.
// NOLINTBEGIN(bugprone-macro-parentheses): an attribute cannot stand in them
#define SB_STAGES(attribute, name)                                           \
  template <bool Bounded, typename T>                                        \
  attribute void select_##name(const CoordinateBlock<T>& in,                 \
                               std::uint32_t points,                         \
                               const Filter& filter,                         \
                               std::array<std::uint8_t, kBlockPoints>& keep, \
                               Dropped& dropped) {                           \
    select<Bounded>(in, points, filter, keep, dropped);                      \
  }                                                                          \
  template <bool Bounded, typename T>                                        \
  attribute void keys_##name(const CoordinateBlock<T>& in,                   \
                             std::uint32_t points,                           \
                             const Filter& filter,                           \
                             const Grid& grid,                               \
                             KeyBlock& out,                                  \
                             Dropped& dropped) {                             \
    keys<Bounded>(in, points, filter, grid, out, dropped);                   \
  }
SB_STAGES(, baseline)
#if defined(__x86_64__)
SB_STAGES(SB_V3, v3)
SB_STAGES(SB_V4, v4)
#endif
#undef SB_STAGES
// NOLINTEND(bugprone-macro-parentheses)

template <bool Bounded, typename T, typename... Args>
void select_at(Level level, const CoordinateBlock<T>& in, Args&&... args) {
#if defined(__x86_64__)
  if (level == Level::kV4) return select_v4<Bounded>(in, args...);
  if (level == Level::kV3) return select_v3<Bounded>(in, args...);
#endif
  static_cast<void>(level);
  select_baseline<Bounded>(in, args...);
}

template <bool Bounded, typename T, typename... Args>
void keys_at(Level level, const CoordinateBlock<T>& in, Args&&... args) {
#if defined(__x86_64__)
  if (level == Level::kV4) return keys_v4<Bounded>(in, args...);
  if (level == Level::kV3) return keys_v3<Bounded>(in, args...);
#endif
  static_cast<void>(level);
  keys_baseline<Bounded>(in, args...);
}

template <typename T>
void select_any(Level level,
                const CoordinateBlock<T>& in,
                std::uint32_t points,
                const Filter& filter,
                std::array<std::uint8_t, kBlockPoints>& keep,
                Dropped& dropped) {
  if (filter.bounded)
    select_at<true>(level, in, points, filter, keep, dropped);
  else
    select_at<false>(level, in, points, filter, keep, dropped);
}

template <typename T>
void keys_any(Level level,
              const CoordinateBlock<T>& in,
              std::uint32_t points,
              const Filter& filter,
              const Grid& grid,
              KeyBlock& out,
              Dropped& dropped) {
  if (filter.bounded)
    keys_at<true>(level, in, points, filter, grid, out, dropped);
  else
    keys_at<false>(level, in, points, filter, grid, out, dropped);
}

}  // namespace

std::string_view name_of(Level level) {
  switch (level) {
    case Level::kBaseline:
      return "baseline";
    case Level::kV3:
      return "x86-64-v3";
    case Level::kV4:
      return "x86-64-v4";
  }
  return "unknown";
}

std::span<const Level> levels_here() {
  static constexpr std::array kAll{Level::kBaseline, Level::kV3, Level::kV4};
  static const std::size_t kCount = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return std::size_t{3};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
      return std::size_t{2};
#endif
    return std::size_t{1};
  }();
  return std::span(kAll).first(kCount);
}

void select_points(Level level,
                   const CoordinateBlock<float>& in,
                   std::uint32_t points,
                   const Filter& filter,
                   std::array<std::uint8_t, kBlockPoints>& keep,
                   Dropped& dropped) {
  select_any(level, in, points, filter, keep, dropped);
}
void select_points(Level level,
                   const CoordinateBlock<double>& in,
                   std::uint32_t points,
                   const Filter& filter,
                   std::array<std::uint8_t, kBlockPoints>& keep,
                   Dropped& dropped) {
  select_any(level, in, points, filter, keep, dropped);
}
void find_keys(Level level,
               const CoordinateBlock<float>& in,
               std::uint32_t points,
               const Filter& filter,
               const Grid& grid,
               KeyBlock& out,
               Dropped& dropped) {
  keys_any(level, in, points, filter, grid, out, dropped);
}
void find_keys(Level level,
               const CoordinateBlock<double>& in,
               std::uint32_t points,
               const Filter& filter,
               const Grid& grid,
               KeyBlock& out,
               Dropped& dropped) {
  keys_any(level, in, points, filter, grid, out, dropped);
}

}  // namespace simbridge::cloud
