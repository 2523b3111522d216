#pragma once
// What: the values of flat blocks: intensity, colour, ring and time out of whatever the sensor has,
// and the sums of those that a centroid averages.   Owner: one decimator's scratch.   Threads: one.
#include "cloud/buffer.h"
#include "cloud/flat_plan.h"
#include "cloud/layout.h"
#include "cloud/voxel_map.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace simbridge::cloud {

/// How a field becomes nanoseconds after stamp.
struct TimeRule {
  std::int64_t num = 1, den = 1;
  bool absolute = false;
  std::int64_t stamp_ns = 0;
};
std::int32_t time_of(std::int64_t value, const TimeRule& rule);
std::int32_t time_of(std::uint64_t value, const TimeRule& rule);
std::int32_t time_of(double value, const TimeRule& rule);

/// A number as the float32 nearest to it.
float intensity_of(const Layout& layout, const Column& column, std::uint32_t point);
/// R, G, B, A in this order.
std::array<std::uint8_t, 4> colour_of(const Layout& layout,
                                      const Column& column,
                                      bool has_alpha,
                                      std::uint32_t point);

/// Writes a block of any kind but kXyz for these points into to.
void write_block(const CloudView& cloud,
                 const Layout& layout,
                 const FlatBlock& block,
                 std::span<const std::uint32_t> points,
                 std::byte* to);

/// Intensity and colour, summed per cell. Wide: the road of clouds with very many points in a cell.
class AttributeSums {
 public:
  void begin(const CloudView& cloud,
             const Layout& layout,
             std::span<const FlatBlock> blocks,
             bool wide);
  [[nodiscard]] bool wanted() const { return intensity_ != nullptr || colour_ != nullptr; }
  /// Cells up to `cells` exist now; adds the points of a block to theirs.
  void add(const Layout& layout,
           std::uint32_t cells,
           std::uint32_t first_point,
           std::uint32_t points,
           const CellIds& ids);
  /// points_of(id): how many points cell id has. Cells 1 … cells.
  template <typename Count>
  void write_intensity(std::uint32_t cells, Count points_of, std::byte* to) const;
  template <typename Count>
  void write_colour(std::uint32_t cells, Count points_of, std::byte* to) const;
  [[nodiscard]] std::uint64_t bytes() const;
  void release();

 private:
  __extension__ using Wide = __int128;
  template <typename T>
  static void extend(Buffer<T>& buffer, std::size_t& used, std::size_t count) {
    buffer.grow(count, used);
    for (; used < count; ++used) buffer[used] = T{};
  }

  const Column* intensity_ = nullptr;
  const Column* colour_ = nullptr;
  bool has_alpha_ = false;
  bool wide_ = false;
  std::size_t used_intensity_ = 0, used_colour_ = 0;
  Buffer<std::int64_t> narrow_intensity_;
  Buffer<Wide> wide_intensity_;
  Buffer<std::array<std::uint32_t, 4>> narrow_colour_;
  Buffer<std::array<std::uint64_t, 4>> wide_colour_;
};

template <typename Count>
void AttributeSums::write_intensity(std::uint32_t cells, Count points_of, std::byte* to) const {
  for (std::uint32_t id = 1; id <= cells; ++id, to += sizeof(float)) {
    const float mean = wide_ ? kernels::mean_of_fixed(wide_intensity_[id], points_of(id))
                             : kernels::mean_of_fixed(narrow_intensity_[id], points_of(id));
    std::memcpy(to, &mean, sizeof mean);
  }
}

template <typename Count>
void AttributeSums::write_colour(std::uint32_t cells, Count points_of, std::byte* to) const {
  for (std::uint32_t id = 1; id <= cells; ++id) {
    for (std::size_t channel = 0; channel < 4; ++channel) {
      const std::uint64_t sum = wide_ ? wide_colour_[id][channel] : narrow_colour_[id][channel];
      *to++ = static_cast<std::byte>(kernels::rounded_mean(sum, points_of(id)));
    }
  }
}

}  // namespace simbridge::cloud
