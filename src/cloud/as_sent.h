#pragma once
// What: results in the sender's own layout: whole records (or, with soa, every field's values) of
// the points that remain, and new coordinates written into them.   Owner: nobody.   Threads: any.
#include "cloud/layout.h"
#include "cloud/stages.h"

#include <cstdint>
#include <span>

namespace simbridge::cloud {

/// Lays out and fills out.data, .fields, .point_step, .big_endian, .soa for these points.
void write_as_sent(const CloudView& cloud,
                   const Layout& layout,
                   std::span<const std::uint32_t> points,
                   DecimatedCloud& out);
/// Overwrites the coordinates of `count` results from `first` on. Integers are rounded half to
/// even.
void put_coordinates(const Layout& layout,
                     const CoordinateBlock<double>& coordinates,
                     std::uint32_t first,
                     std::uint32_t count,
                     DecimatedCloud& out);

}  // namespace simbridge::cloud
