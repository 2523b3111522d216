#pragma once
// What: the inside of a ring: slots, the two ends, the producer's fence, the lists of those who
// look at it. docs/ring.md has the pictures and the argument.
// Owner: FrameRing.   Threads: as said at each member.
#include "frame/block.h"
#include "frame/eviction.h"
#include "frame/slabs.h"
#include "frame/swap_list.h"
#include "simbridge/base/mutex.h"
#include "simbridge/frame/ring.h"
#include "simbridge/frame/store.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace simbridge::frame {

/// One place of the ring. Everything but the handle stays readable after the frame was evicted,
/// until the slot is used again; whoever reads it looks at head afterwards (RingState::remembered).
struct Slot {
  std::atomic<Handle> handle;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> bytes_before;  // payload bytes published before this frame
  std::atomic<std::uint64_t> epoch;
};
static_assert(sizeof(Slot) == 32, "4096 slots are 128 KiB, touched a page at a time");

struct Evicted {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;           // payload
  std::uint64_t derived_frames = 0;  // of these: can be made again, so nobody lost them
  std::uint64_t derived_bytes = 0;
  Evicted& operator+=(const Evicted& other) {
    frames += other.frames;
    bytes += other.bytes;
    derived_frames += other.derived_frames;
    derived_bytes += other.derived_bytes;
    return *this;
  }
  [[nodiscard]] Evicted without_derived() const {
    return {.frames = frames - derived_frames, .bytes = bytes - derived_bytes};
  }
};

/// Free blocks at a producer's hand, so that publishing touches nothing shared but its own ring.
struct BlockCache {
  std::array<std::uint32_t, 16> free{};
  std::uint32_t count = 0;
  std::uint32_t batch = 1;  // grows, so that a channel with one frame holds few
};

/// So many first frames of a ring go into the shared slab, if they are small: a channel that sends
/// once must not cost a slab.
inline constexpr std::uint32_t kSharedFramesOfARing = 8;
inline constexpr std::uint64_t kLargestShared = 8ULL << 10;

/// Gives up the ring's reference, and `own` of the caller's with it. `recycle`: where a block that
/// came free may go.
void drop_ring(Block& block, std::uint32_t own, BlockCache* recycle);

// The order of the members keeps what different threads write on different cache lines.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the padding is the purpose
struct RingState {
  static constexpr std::uint64_t kMask = kRingCapacity - 1;
  static_assert((kRingCapacity & kMask) == 0, "positions wrap by a mask");
  static constexpr std::size_t kLivesKept = 17;
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  RingState(FrameStore::Impl& owner, std::uint64_t number, bool is_derived);
  ~RingState();
  RingState(const RingState&) = delete;
  RingState& operator=(const RingState&) = delete;

  [[nodiscard]] Slot& slot(std::uint64_t position) const { return slots[position & kMask]; }

  // ---- any thread, no lock
  struct WhichSlab {
    std::uint32_t slab = 0;
    bool shared = false;
    bool operator==(const WhichSlab&) const = default;
  };
  [[nodiscard]] std::optional<WhichSlab> slab_at(std::uint64_t position) const;
  /// A reference to the block at a kept position, or nothing. The caller drops it.
  [[nodiscard]] Block* reference(std::uint64_t position) const;
  /// Whether what was just read from the slot of this position was still that position's.
  [[nodiscard]] bool remembered(std::uint64_t position) const;
  /// Takes the oldest frame out if it stands before the limit. `recycle`: see free_block().
  bool evict_one(std::uint64_t limit, EvictReason reason, BlockCache* recycle, Evicted& evicted);
  /// Evicts what is beyond the depth, except what a reliable reader has not had.
  void evict_beyond_depth(BlockCache* recycle);
  /// The position of the slowest reliable reader, or kNobody.
  [[nodiscard]] std::uint64_t slowest_reliable() const;
  [[nodiscard]] std::uint64_t bytes_from(std::uint64_t position) const;
  /// All that was evicted so far. At rest exact; counting it there costs the publisher nothing.
  [[nodiscard]] Evicted gone() const;
  void raise_tail(std::uint64_t to);
  [[nodiscard]] bool produced() const;
  /// Reliable readers have not had as many frames as the ring may hold: no more for now.
  [[nodiscard]] bool full_of_held() const;
  /// The producer's: takes a frame's size into the sliding mean and returns it.
  std::uint64_t note_size(std::uint64_t bytes);
  /// Reliable readers moved: evicts what was kept for them only, tells who waits for room.
  void room_came();

  // ---- for the eviction: any thread
  [[nodiscard]] RingView view() const;
  /// Evicts from this ring for one step: until a slab is free or the tier has no more here.
  Evicted give(Tier tier, EvictReason reason);

  // ---- constant
  FrameStore::Impl& store;
  const std::uint64_t id;  // unique in the store; in every block, against handles grown old
  const bool derived;
  Slot* const slots;
  RingAccount* const account;

  // ---- written by the producer, read by all
  alignas(64) std::atomic<std::uint64_t> head{0};
  std::atomic<std::uint64_t> published_bytes{0};
  std::atomic<std::uint64_t> life_first_sequence{0};  // 0 = the life has no frame yet
  std::atomic<std::uint32_t> recent_frame_bytes{0};   // a sliding mean
  std::atomic<std::uint32_t> shared_frames{0};        // how many the shared slab took

  // ---- written by evictors
  alignas(64) std::atomic<std::uint64_t> tail{0};

  /// token << 1 | busy; 0 = no producer. publish() sets busy for its few stores, attach() waits for
  /// it to be clear: after that the old token opens nothing.
  alignas(64) std::atomic<std::uint64_t> fence{0};
  std::atomic<std::uint64_t> open_slab{0};

  std::atomic<std::uint32_t> depth;
  std::atomic<bool> latched{false};

  SwapList<const Watcher> watchers;
  SwapList<const Watcher> room_watcher;
  SwapList<ReliableCursor> reliable;

  /// Guards the changes of the lists above, the lives and attach(). Never taken by publish(),
  /// read() or an evictor.
  mutable Mutex control;
  struct LifeRecord {
    std::uint64_t epoch = 0;
    std::uint64_t first_position = 0;
    std::uint64_t end_position = 0;  // of closed lives
    std::uint64_t first_sequence = 0;
    std::uint64_t last_sequence = 0;
  };
  std::vector<LifeRecord> lives SB_GUARDED_BY(control);  // the last one is the current
  std::uint64_t next_token SB_GUARDED_BY(control) = 1;
  bool removed SB_GUARDED_BY(control) = false;
  std::size_t place_in_store = 0;  // guarded by the store's eviction mutex

  /// Sets the fence to this value once no publish is in progress.
  void set_fence(std::uint64_t value) SB_REQUIRES(control);
  [[nodiscard]] std::vector<Life> lives_now() const SB_REQUIRES(control);
};

}  // namespace simbridge::frame
