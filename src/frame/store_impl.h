#pragma once
// What: the inside of the store: what all rings share.
// Owner: FrameStore.   Threads: any; see each member.
#include "frame/arena.h"
#include "frame/block_pool.h"
#include "frame/budget.h"
#include "frame/eviction.h"
#include "frame/ring_state.h"
#include "frame/slabs.h"
#include "frame/slot_pool.h"
#include "simbridge/base/mutex.h"
#include "simbridge/frame/ring.h"
#include "simbridge/frame/store.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace simbridge::frame {

/// Watchers that wait for something to come free, told once each.
class WaitingList {
 public:
  void add(std::shared_ptr<const Watcher> watcher) SB_EXCLUDES(mutex_);
  /// One load when nobody waits.
  void signal_all() SB_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t size() const {
    // relaxed: a figure.
    return count_.load(std::memory_order_relaxed);
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<const Watcher>> waiting_ SB_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> count_{0};
};

/// An amount with a limit that may move.
class Share {
 public:
  /// Takes bytes if they fit, or if nothing else is out and `first_is_free`.
  bool take(std::uint64_t bytes, std::uint64_t limit, bool first_is_free);
  // seq_cst: pairs with the waiter's second look after it was put into the waiting list.
  void give(std::uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_seq_cst); }
  /// What take() would say, without taking. seq_cst: as in give().
  [[nodiscard]] bool fits(std::uint64_t bytes, std::uint64_t limit) const {
    return held_.load(std::memory_order_seq_cst) + bytes <= limit;
  }
  [[nodiscard]] std::uint64_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> held_{0};
};

struct FrameStore::Impl {
  Impl(const StoreOptions& options,
       std::unique_ptr<Budget> made_budget,
       std::unique_ptr<FrameArena> made_arena);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Room for one frame of this ring; evicts where it must. Nothing: there is no room now.
  std::optional<Place> place(RingState& ring, std::uint64_t bytes);
  /// A free block; evicts old small frames when there are as many blocks as may be.
  Block* take_block(BlockCache& cache);
  void return_blocks(BlockCache& cache);
  /// The frame's memory and its block are free; the block goes into `recycle` while there is room.
  void free_block(Block& block, BlockCache* recycle);
  void release_place(std::uint32_t slab);
  struct Losses {
    Evicted evicted, shrunk;
    std::uint64_t rings = 0;  // that there are
  };
  /// Summed up from the rings, each of which knows by its tail what it has lost.
  [[nodiscard]] Losses losses() SB_EXCLUDES(eviction);

  [[nodiscard]] std::uint64_t ingest_limit() const;
  [[nodiscard]] std::uint64_t frame_limit() const { return ingest_limit() / 2; }
  [[nodiscard]] std::uint64_t pin_limit() const;

  /// Steps that freed nothing, in a row, before a choice gives up: others were faster.
  static constexpr unsigned kBarrenSteps = 256;
  /// From now on; evicts nothing.
  void set_budget(Bytes bytes);
  /// Charges the units, evicting up to this tier as need be.
  bool charge(std::uint32_t units, Tier last) SB_EXCLUDES(eviction);
  /// Charged units as a run in the arena, or nothing and nothing charged.
  std::optional<std::uint32_t> obtain(std::uint32_t units, Tier last) SB_EXCLUDES(eviction);
  /// One victim gives once. False: nobody has anything to give.
  bool evict_step(Need need, Tier last, EvictReason reason, Evicted& evicted) SB_REQUIRES(eviction);
  bool evict_for_blocks() SB_EXCLUDES(eviction);

  struct Victim {
    RingState* ring = nullptr;
    Candidate best;
    /// Looks at one more ring.
    void consider(RingState& other, Need need, Tier last);
  };
  Victim choose_victim(Need need, Tier last) SB_REQUIRES(eviction);
  void list_largest() SB_REQUIRES(eviction);

  /// In the slab that takes the first frames of small channels.
  std::optional<Place> shared_place(std::uint64_t bytes, Tier last);

  const std::unique_ptr<Budget> budget_owned;  // made before the arena, which looks at it
  Budget& budget;
  std::atomic<std::uint64_t> budget_bytes{0};  // as it was set
  std::atomic<double> ingest_share;
  std::atomic<double> pin_share;
  std::unique_ptr<FrameArena> arena;
  Slabs slabs;
  BlockPool blocks{*this};
  SlotPool slots;
  std::atomic<std::uint64_t> shared_slab{0};  // open; takes the first frames of small channels

  Share ingest;
  Share pins;
  WaitingList pin_waiters;
  WaitingList room_waiters;

  // Figures; relaxed everywhere, nothing hangs on their order.
  std::atomic<std::uint64_t> pinned{0};  // may be below zero for an instant; see stats()
  std::atomic<std::uint64_t> reserve_failures{0};

  /// One shrink at a time. Taken before `eviction`.
  Mutex resizing;
  /// The slow path: one choice of victims at a time. Before it: resizing. After it: the arena's and
  /// the pools' mutexes. Never held while punching, receiving or sending.
  Mutex eviction;
  std::vector<std::shared_ptr<FrameRing>> rings SB_GUARDED_BY(eviction);
  std::uint64_t next_ring SB_GUARDED_BY(eviction) = 1;
  Evicted shrunk SB_GUARDED_BY(eviction);           // by lowered budgets
  Evicted left_by_removed SB_GUARDED_BY(eviction);  // what rings had lost that are no more
  Evicted evicted_so_far SB_GUARDED_BY(eviction);   // as told last: it never falls
  std::uint32_t depth SB_GUARDED_BY(eviction);

  /// The rings with the largest charges, as of a few choices ago: with ten thousand rings, looking
  /// at all of them for every slab would cost more than the frames. Empty = to be made anew.
  struct Largest {
    std::array<RingState*, 64> rings{};
    std::size_t count = 0;
    std::uint64_t below = 0;  // no ring that is left out had more units than this
    unsigned choices_left = 0;
  };
  Largest largest SB_GUARDED_BY(eviction);
};

}  // namespace simbridge::frame
