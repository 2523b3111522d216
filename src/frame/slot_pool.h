#pragma once
// What: the slots of rings: 128 KiB of address space each, memory only where a slot was used.
// Owner: FrameStore.   Threads: any.
#include "simbridge/base/mutex.h"

#include <cstddef>
#include <vector>

namespace simbridge::frame {

class SlotPool {
 public:
  SlotPool() = default;
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  /// Zeroed memory for one ring's slots.
  void* take() SB_EXCLUDES(mutex_);
  void give(void* slots) SB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<void*> chunks_ SB_GUARDED_BY(mutex_);  // few mappings: the kernel limits their number
  std::vector<void*> free_ SB_GUARDED_BY(mutex_);
};

}  // namespace simbridge::frame
