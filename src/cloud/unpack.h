#pragma once
// What: coordinates out of any layout into blocks that the stages read.
// Owner: nobody, pure functions.   Threads: any.
#include "cloud/layout.h"
#include "cloud/stages.h"

#include <cstdint>
#include <span>

namespace simbridge::cloud {

[[nodiscard]] bool has_float_coordinates(const Layout& layout);

/// Points first … first + points - 1. The float form only where has_float_coordinates().
void unpack(const Layout& layout,
            std::uint32_t first,
            std::uint32_t points,
            CoordinateBlock<float>& out);
void unpack(const Layout& layout,
            std::uint32_t first,
            std::uint32_t points,
            CoordinateBlock<double>& out);
/// The points of these numbers, at most kBlockPoints. The float form keeps a NaN's bits.
void unpack(const Layout& layout,
            std::span<const std::uint32_t> points,
            CoordinateBlock<float>& out);
void unpack(const Layout& layout,
            std::span<const std::uint32_t> points,
            CoordinateBlock<double>& out);

}  // namespace simbridge::cloud
