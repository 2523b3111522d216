#pragma once
// What: the CPU's decimator with what tests turn: the level of instructions, and limits so low that
// the rare roads are taken.   Owner: who made it.   Threads: one.
#include "cloud/stages.h"
#include "cloud/voxel_map.h"
#include "simbridge/cloud/decimator.h"

#include <memory>

namespace simbridge::cloud {

struct CpuTuning {
  Level level = levels_here().back();
  VoxelTuning voxel;
};
/// How often the rare roads were taken.
struct CpuRoads {
  std::uint64_t exact = 0, sorted = 0, wide = 0;
};

class CpuDecimator : public Decimator {
 public:
  [[nodiscard]] virtual const CpuRoads& roads() const = 0;
};
std::unique_ptr<CpuDecimator> make_cpu_decimator(const CpuTuning& tuning);

/// What an implementation may rely on: kInvalid with a sentence for a request that contradicts
/// itself.
Result<void> check_request(const Request& request);
[[nodiscard]] bool is_voxel(Sampling sampling);
[[nodiscard]] Filter filter_of(const Request& request);

}  // namespace simbridge::cloud
