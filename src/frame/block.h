#pragma once
// What: a frame's book entry, counted and type-stable: its memory is never given to anything else
// while the store lives, so that a reader may look at it through a handle that has grown old.
// Owner: BlockPool.   Threads: `state` any; the other fields are written by whoever owns the block
// alone (references 0: the reservation) and constant while references are above 0.
#include "simbridge/frame/frame.h"
#include "simbridge/frame/store.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace simbridge::frame {

/// In a block's state: generation << 32 | the ring's reference | readers' references.
inline constexpr std::uint64_t kRingReference = 1ULL << 31U;
inline constexpr std::uint64_t kReferenceMask = 0xFFFFFFFF;
inline constexpr std::uint32_t kNoBlock = 0xFFFFFFFF;

/// In a slot: generation << 32 | block index. Generation 0 is an empty slot, its low bits say why:
/// an EvictReason, kNone for a slot that was never used.
using Handle = std::uint64_t;
constexpr std::uint32_t generation_of(Handle handle) {
  return static_cast<std::uint32_t>(handle >> 32U);
}
constexpr std::uint32_t index_of(Handle handle) {
  return static_cast<std::uint32_t>(handle & 0xFFFFFFFF);
}
constexpr bool is_empty(Handle handle) {
  return generation_of(handle) == 0;
}
constexpr Handle empty_handle(EvictReason reason) {
  return static_cast<Handle>(reason);
}
constexpr EvictReason reason_of(Handle empty) {
  return static_cast<EvictReason>(empty & 3U);
}

struct alignas(64) Block {
  std::atomic<std::uint64_t> state{0};
  FrameStore::Impl* store = nullptr;
  std::byte* bytes = nullptr;  // head, then data
  std::uint64_t data_bytes = 0;
  std::uint32_t head_bytes = 0;
  std::uint32_t slab = 0;              // its first unit
  std::uint32_t index = 0;             // constant
  std::uint32_t next_free = kNoBlock;  // while in a free list
  std::uint64_t ring = 0;
  FrameInfo info;

  [[nodiscard]] std::uint64_t bytes_total() const { return head_bytes + data_bytes; }

  /// Takes a reference unless the block is free or of another generation. Never counts up from 0:
  /// "count first, undo if stale" could bring a free block to 0 a second time.
  [[nodiscard]] bool try_reference(std::uint32_t generation) {
    // relaxed: the value is only a guess for the exchange below.
    std::uint64_t now = state.load(std::memory_order_relaxed);
    do {
      if (now >> 32U != generation || (now & kReferenceMask) == 0) return false;
      // acquire: pairs with the release store in publish_state(), through the chain of other
      // readers' exchanges; makes the plain fields and the payload visible.
    } while (!state.compare_exchange_weak(
        now, now + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
  /// A further reference by somebody who has one.
  // relaxed: the holder's own reference keeps everything visible and alive.
  void add_reference() { state.fetch_add(1, std::memory_order_relaxed); }

  /// Makes the block live with the ring's reference alone; returns the handle for the slot.
  Handle publish_state() {
    // relaxed: the block is ours alone, nobody changes a state without references.
    std::uint32_t generation =
        static_cast<std::uint32_t>(state.load(std::memory_order_relaxed) >> 32U) + 1;
    if (generation == 0) generation = 1;  // 0 would read as an empty slot
    // release: pairs with the acquire in try_reference().
    state.store(std::uint64_t{generation} << 32U | kRingReference, std::memory_order_release);
    return Handle{generation} << 32U | index;
  }
};

/// Gives up a reader's reference. Whoever was last frees the frame's memory and the block.
void drop_reader(Block& block);

}  // namespace simbridge::frame
