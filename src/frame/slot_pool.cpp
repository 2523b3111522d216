#include "frame/slot_pool.h"

#include "frame/ring_state.h"
#include "simbridge/base/check.h"

#include <sys/mman.h>

namespace simbridge::frame {
namespace {
constexpr std::size_t kRingBytes = sizeof(Slot) * kRingCapacity;
constexpr std::size_t kRingsInAChunk = 64;
}  // namespace

SlotPool::~SlotPool() {
  const MutexLock lock(mutex_);
  SB_CHECK(free_.size() == chunks_.size() * kRingsInAChunk, "every ring is gone before the store");
  for (void* chunk : chunks_) ::munmap(chunk, kRingBytes * kRingsInAChunk);
}

void* SlotPool::take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    void* chunk = ::mmap(nullptr,
                         kRingBytes * kRingsInAChunk,
                         PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1,
                         0);
    SB_CHECK(chunk != MAP_FAILED, "8 MiB of address space for slots can be had");
    // A huge page would make every ring cost its whole 128 KiB.
    ::madvise(chunk, kRingBytes * kRingsInAChunk, MADV_NOHUGEPAGE);
    chunks_.push_back(chunk);
    for (std::size_t i = kRingsInAChunk; i-- > 0;)
      free_.push_back(static_cast<std::byte*>(chunk) + i * kRingBytes);
  }
  void* slots = free_.back();
  free_.pop_back();
  return slots;
}

void SlotPool::give(void* slots) {
  ::madvise(slots, kRingBytes, MADV_DONTNEED);  // reads as zeros: unused slots
  const MutexLock lock(mutex_);
  free_.push_back(slots);
}

}  // namespace simbridge::frame
