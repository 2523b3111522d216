#pragma once
// What: all rings under one byte budget, and the arena below them: a memfd cut into 2 MiB extents
// and slabs. Owner: app, one per process; it outlives every session, ring user and FrameRef.
// Threads: every function, any thread. Only the slow path (something must be evicted) takes the
// eviction mutex.
#include "simbridge/base/bytes.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/frame/frame.h"
#include "simbridge/frame/ring.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simbridge::frame {

struct StoreOptions {
  Bytes address_space;  // sparse reservation; 0 = twice the machine's memory, at least 64 GiB
  Bytes budget{1ULL << 30};
  Bytes warm_reserve{64ULL << 20};  // populated ahead in the background: never above the budget,
                                    // and never more than is in use (or 8 MiB)
  double ingest_share = 0.25;       // of the budget, for unfinished frames
  double pin_share = 0.25;          // of the budget, for frames being written to consumers
  std::uint32_t depth = 1024;       // of a new ring; capacity is kRingCapacity
  milliseconds idle_return{5000};   // free memory beyond the warm reserve goes back after this
};

inline constexpr std::uint32_t kRingCapacity = 4096;

struct StoreStats {
  Bytes budget, charged, committed, pinned, warm, ingest_held, pins_held;
  std::uint64_t rings = 0;
  // Without derived frames: those can be made again.
  std::uint64_t evicted_frames = 0, evicted_bytes = 0;  // reason kEvicted
  std::uint64_t shrunk_frames = 0, shrunk_bytes = 0;    // reason kShrink
  std::uint64_t reserve_failures = 0;
  bool huge_pages = false;
};

/// What a lowered budget did before it returned.
struct ShrinkReport {
  std::uint64_t frames = 0;  // evicted
  Bytes bytes;               // their payload
  Bytes still_pinned;        // evicted, but readers hold them yet
  Bytes returned;            // given back to the kernel
};

/// The right to hold one large frame while it is written to a peer. Comes home when destroyed.
class [[nodiscard]] PinTicket {
 public:
  PinTicket() = default;
  PinTicket(PinTicket&&) noexcept;
  PinTicket& operator=(PinTicket&&) noexcept;
  PinTicket(const PinTicket&) = delete;
  PinTicket& operator=(const PinTicket&) = delete;
  ~PinTicket();
  explicit operator bool() const { return store_ != nullptr; }

 private:
  friend class FrameStore;
  FrameStore* store_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class FrameStore {
 public:
  /// Fails with a sentence where the kernel refuses the mapping.
  static Result<std::unique_ptr<FrameStore>> create(const StoreOptions& options,
                                                    const Clock& clock);
  ~FrameStore();  // checks that every frame, ticket and reservation is home
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // ---- rings
  std::shared_ptr<FrameRing> add_ring(bool latched, bool derived = false);
  /// Evicts all its frames and takes it out of the books; readers that hold it see everything gone.
  void remove_ring(const std::shared_ptr<FrameRing>& ring);

  // ---- budgets, live; each returns when it holds
  ShrinkReport set_budget(Bytes budget);
  void set_depth(std::uint32_t frames);  // of all rings but derived ones, and of new ones
  void set_warm_reserve(Bytes bytes);
  void set_pin_share(double share);
  [[nodiscard]] Bytes budget() const;
  /// Half of the ingest share: the largest frame that can be admitted.
  [[nodiscard]] Bytes max_frame_bytes() const;
  [[nodiscard]] Bytes ingest_share() const;
  [[nodiscard]] Bytes pin_budget() const;

  // ---- pins
  /// Empty when pins are used up (a first ticket is always given); then the watcher is signalled
  /// once when a ticket comes home.
  PinTicket try_pin(Bytes bytes, const std::shared_ptr<const Watcher>& when_free);
  [[nodiscard]] std::uint64_t pin_waiters() const;

  /// Signalled once when a reservation that failed with kNoRoom might succeed. Room that came
  /// between the failure and this call tells nobody: try once more after it.
  void notify_room(std::shared_ptr<const Watcher> watcher);
  [[nodiscard]] std::uint64_t room_waiters() const;

  [[nodiscard]] StoreStats stats() const;
  /// The arena's memfd, for processes that map it read-only.
  [[nodiscard]] int arena_fd() const;
  [[nodiscard]] std::uint64_t arena_bytes() const;

  struct Impl;  // private
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  explicit FrameStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::frame
