#pragma once
// What: FrameArena, the only owner of payload bytes: one memfd mapping, large and sparse, cut into
// 2 MiB extents of 32 units. It hands out runs of units, knows which of them have memory
// ("touched"), and gives memory back to the kernel by punching holes.
// Owner: FrameStore.   Threads: any; one mutex, held for bit operations only, never while punching
// or populating (units on the way are marked as used meanwhile).
#include "frame/budget.h"
#include "simbridge/base/bytes.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/mutex.h"
#include "simbridge/base/result.h"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace simbridge::frame {

inline constexpr std::uint64_t kExtentBytes = 2ULL << 20;
inline constexpr std::uint32_t kUnitsPerExtent = kExtentBytes / kUnitBytes;
static_assert(kUnitsPerExtent == 32, "an extent's units are the bits of one 32-bit word");

struct ArenaOptions {
  Bytes address_space;
  milliseconds idle_return{};
};

class FrameArena {
 public:
  static Result<std::unique_ptr<FrameArena>> create(const ArenaOptions& options,
                                                    const Budget& budget,
                                                    const Clock& clock);
  ~FrameArena();
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;

  /// A run of units; where possible one that has memory already. Before untouched units would take
  /// the committed memory above the budget, idle memory elsewhere is punched.
  std::optional<std::uint32_t> take(std::uint32_t units) SB_EXCLUDES(mutex_);
  void give(std::uint32_t first, std::uint32_t units) SB_EXCLUDES(mutex_);

  [[nodiscard]] std::byte* at(std::uint32_t unit) const { return base_ + unit * kUnitBytes; }

  /// How much free memory may be kept warm.
  void set_warm_reserve(Bytes bytes) SB_EXCLUDES(mutex_);
  /// Punches free memory, now, until no more than the warm reserve is left and committed memory
  /// fits the budget. Returns what the kernel got.
  Bytes trim() SB_EXCLUDES(mutex_);

  struct Figures {
    Bytes committed;  // touched units, in use or free
    Bytes warm;       // touched and free
    bool huge_pages = false;
  };
  [[nodiscard]] Figures figures() const SB_EXCLUDES(mutex_);
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  struct Extent {
    std::uint32_t used = 0;     // a bit a unit
    std::uint32_t touched = 0;  // has, or may have, memory
    std::uint32_t freed_at_ms = 0;
  };
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t units = 0;
  };
  /// A few ranges at a time: giving memory back must not need memory.
  struct Ranges {
    std::array<Range, 64> items{};
    std::size_t count = 0;
    std::uint32_t units = 0;
    [[nodiscard]] bool full() const { return count == items.size(); }
    void add(Range range);
  };
  enum class Wish { kWarm, kAny };  // only units with memory, or any

  FrameArena(int fd,
             std::byte* base,
             std::uint64_t size,
             milliseconds idle_return,
             const Budget& budget,
             const Clock& clock);

  std::optional<std::uint32_t> find(std::uint32_t units) const SB_REQUIRES(mutex_);
  /// In one extent of those that have a bit here.
  std::optional<std::uint32_t> find_in(const std::vector<std::uint64_t>& extents,
                                       std::uint32_t units,
                                       Wish wish) const SB_REQUIRES(mutex_);
  std::optional<std::uint32_t> find_across(std::uint32_t units, Wish wish) const
      SB_REQUIRES(mutex_);
  /// to_be_written: not if it is taken out only in order to be punched.
  void mark_used(Range range, bool to_be_written) SB_REQUIRES(mutex_);
  /// with_memory: whether the freed units have memory still.
  void mark_free(Range range, bool with_memory) SB_REQUIRES(mutex_);
  void classify(std::uint32_t index) SB_REQUIRES(mutex_);
  /// Takes free units with memory out of circulation, the highest first, about so many.
  void collect_idle(std::uint32_t at_most, std::optional<std::uint32_t> min_age_ms, Ranges& out)
      SB_REQUIRES(mutex_);
  void collect_from(std::uint32_t index, Ranges& out) SB_REQUIRES(mutex_);
  struct Shed {
    std::uint32_t collected = 0;
    std::uint32_t returned = 0;  // units; fewer where the kernel refused
  };
  /// Collects and punches one batch, the mutex released meanwhile.
  Shed shed(std::uint32_t at_most, std::optional<std::uint32_t> min_age_ms) SB_EXCLUDES(mutex_);

  [[nodiscard]] std::uint32_t warm_target() const SB_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t now_ms() const;
  void memory_loop() SB_EXCLUDES(mutex_);
  void populate_one() SB_EXCLUDES(mutex_);
  void call_memory_thread() SB_REQUIRES(mutex_);

  const int fd_;
  std::byte* const base_;
  const std::uint64_t size_;
  const Budget& budget_;
  const Clock& clock_;
  const Monotonic start_;
  const milliseconds idle_return_;
  const bool huge_pages_;

  mutable Mutex mutex_;
  std::vector<Extent> extents_ SB_GUARDED_BY(mutex_);
  // A bit an extent. partial: some units used, some free. idle: none used, some touched.
  // fresh: none used, none touched. An extent is in one of them or (full) in none.
  std::vector<std::uint64_t> partial_ SB_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> idle_ SB_GUARDED_BY(mutex_);
  std::vector<std::uint64_t> fresh_ SB_GUARDED_BY(mutex_);
  std::uint32_t high_ SB_GUARDED_BY(mutex_) = 0;       // no extent from here on was ever used
  std::uint32_t committed_ SB_GUARDED_BY(mutex_) = 0;  // units
  std::uint32_t warm_ SB_GUARDED_BY(mutex_) = 0;       // units
  std::uint32_t warm_reserve_ SB_GUARDED_BY(mutex_) = 0;
  bool populate_failed_ SB_GUARDED_BY(mutex_) = false;
  bool stop_ SB_GUARDED_BY(mutex_) = false;
  bool called_ SB_GUARDED_BY(mutex_) = false;          // the memory thread has been woken already
  std::uint32_t in_flight_ SB_GUARDED_BY(mutex_) = 0;  // units being punched or populated
  std::condition_variable_any landed_;                 // in_flight_ fell
  std::condition_variable_any wake_;
  std::thread memory_thread_;
};

}  // namespace simbridge::frame
