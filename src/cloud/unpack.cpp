#include "cloud/unpack.h"

#include "cloud/values.h"

#include <algorithm>

namespace simbridge::cloud {
namespace {

template <typename Raw, bool Swap, typename T>
void gather_run(const std::array<const std::byte*, 3>& from,
                const std::array<std::uint64_t, 3>& step,
                std::uint32_t points,
                std::uint32_t to,
                CoordinateBlock<T>& out) {
  const std::byte* x = from[0];
  const std::byte* y = from[1];
  const std::byte* z = from[2];
  for (std::uint32_t i = to; i < to + points; ++i) {
    out.x[i] = static_cast<T>(load<Raw>(x, Swap));
    out.y[i] = static_cast<T>(load<Raw>(y, Swap));
    out.z[i] = static_cast<T>(load<Raw>(z, Swap));
    x += step[0];
    y += step[1];
    z += step[2];
  }
}

template <typename Raw, bool Swap, typename T>
void gather(const Layout& layout,
            std::uint32_t first,
            std::uint32_t points,
            CoordinateBlock<T>& out) {
  const std::array step{layout.axes[0].step, layout.axes[1].step, layout.axes[2].step};
  std::uint32_t done = 0;
  while (done < points) {  // row by row
    const std::uint32_t left_in_row = layout.width - (first + done) % layout.width;
    const std::uint32_t run = std::min(points - done, left_in_row);
    gather_run<Raw, Swap>({layout.at(layout.axes[0], first + done),
                           layout.at(layout.axes[1], first + done),
                           layout.at(layout.axes[2], first + done)},
                          step,
                          run,
                          done,
                          out);
    done += run;
  }
}

template <typename Raw, typename T>
void gather_any(const Layout& layout,
                std::uint32_t first,
                std::uint32_t points,
                CoordinateBlock<T>& out) {
  if (layout.swap)
    gather<Raw, true>(layout, first, points, out);
  else
    gather<Raw, false>(layout, first, points, out);
}

template <typename Raw, typename T>
void gather_picked(const Layout& layout,
                   std::span<const std::uint32_t> points,
                   CoordinateBlock<T>& out) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    out.x[i] = static_cast<T>(load<Raw>(layout.at(layout.axes[0], points[i]), layout.swap));
    out.y[i] = static_cast<T>(load<Raw>(layout.at(layout.axes[1], points[i]), layout.swap));
    out.z[i] = static_cast<T>(load<Raw>(layout.at(layout.axes[2], points[i]), layout.swap));
  }
}

}  // namespace

bool has_float_coordinates(const Layout& layout) {
  return layout.axes[0].type == Type::kFloat32;
}

void unpack(const Layout& layout,
            std::uint32_t first,
            std::uint32_t points,
            CoordinateBlock<float>& out) {
  gather_any<float>(layout, first, points, out);
}

void unpack(const Layout& layout,
            std::uint32_t first,
            std::uint32_t points,
            CoordinateBlock<double>& out) {
  with_coordinate_type(layout.axes[0].type,
                       [&]<typename Raw>() { gather_any<Raw>(layout, first, points, out); });
}

void unpack(const Layout& layout,
            std::span<const std::uint32_t> points,
            CoordinateBlock<float>& out) {
  gather_picked<float>(layout, points, out);
}

void unpack(const Layout& layout,
            std::span<const std::uint32_t> points,
            CoordinateBlock<double>& out) {
  with_coordinate_type(layout.axes[0].type,
                       [&]<typename Raw>() { gather_picked<Raw>(layout, points, out); });
}

}  // namespace simbridge::cloud
