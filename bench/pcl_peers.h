#pragma once
// What: PCL's voxel grids as PCL's users call them, from raw records to a thinned cloud, conversion
// included.   Owner: decimation_bench.   Threads: one.
#include "simbridge/cloud/decimator.h"

#include <cstdint>

namespace simbridge::bench {

/// Points that come out; 0 where PCL's 32-bit numbers do not reach (it then returns its input).
std::uint64_t pcl_voxel_grid(const cloud::CloudView& view, double leaf);
/// VoxelGrid<PCLPointCloud2> over the coordinates of the raw records.
std::uint64_t pcl_voxel_grid_blob(const cloud::CloudView& view, double leaf);
/// The build of PCL that is measured.
const char* pcl_build();

}  // namespace simbridge::bench
