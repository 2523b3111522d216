#pragma once
// What: slabs, the pieces of the arena that frames are packed into, and the word through which a
// ring fills one without a lock.
// Owner: FrameStore.   Threads: any.
#include "frame/arena.h"
#include "frame/budget.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

namespace simbridge::frame {

inline constexpr std::uint64_t kFrameAlignment = 64;
inline constexpr std::uint64_t kLargestPacked = 128ULL << 10;  // above: a run of units of its own

/// What a ring's slabs cost. Outlives the ring while a slab of it does (pinned frames).
class RingAccount {
 public:
  // relaxed: a figure to choose victims by; nothing hangs on its order.
  [[nodiscard]] std::uint64_t charged_units() const {
    return charged_units_.load(std::memory_order_relaxed);
  }
  void charge(std::uint32_t units) { charged_units_.fetch_add(units, std::memory_order_relaxed); }
  void uncharge(std::uint32_t units) { charged_units_.fetch_sub(units, std::memory_order_relaxed); }
  // relaxed: whoever adds has one already.
  void add_user() { users_.fetch_add(1, std::memory_order_relaxed); }
  void drop_user() {
    // acq_rel: the last one sees what the others did before it deletes.
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~RingAccount() = default;
  std::atomic<std::uint64_t> charged_units_{0};
  std::atomic<std::uint32_t> users_{1};
};

enum class SlabClass : std::uint8_t { kSmall, kMedium, kLarge };
constexpr std::uint32_t units_of(SlabClass size) {
  constexpr std::uint32_t kUnits[] = {1, 4, 32};
  return kUnits[static_cast<std::size_t>(size)];
}
/// The smallest class in which about eight frames like the recent ones fit, and no more than a
/// sixteenth of the budget; nothing if this frame does not belong into it and stands alone.
[[nodiscard]] std::optional<SlabClass> choose_class(std::uint64_t frame_bytes,
                                                    std::uint64_t recent_bytes,
                                                    std::uint32_t budget_units);

/// An open slab as one word: where it is, how far it is filled and how many frames it took. Filling
/// is one compare-exchange; closing is one exchange with 0, by anybody, and whoever closes accounts
/// for the frames that the word counted. So a slab can be taken away from a producer in the middle
/// of a reservation, and never under it.
struct OpenSlab {
  std::uint32_t slab = 0;    // first unit, 28 bits
  SlabClass size{};          // 2 bits
  std::uint32_t next = 0;    // filled so far, in frame alignments, 17 bits
  std::uint32_t frames = 0;  // 17 bits

  [[nodiscard]] std::uint64_t pack() const {
    return std::uint64_t{slab} << 36U | std::uint64_t{static_cast<std::uint8_t>(size)} << 34U |
           std::uint64_t{next} << 17U | frames;
  }
  static OpenSlab unpack(std::uint64_t word) {
    return {
        .slab = static_cast<std::uint32_t>(word >> 36U),
        .size = static_cast<SlabClass>(word >> 34U & 3U),
        .next = static_cast<std::uint32_t>(word >> 17U & kField),
        .frames = static_cast<std::uint32_t>(word & kField),
    };
  }

 private:
  static constexpr std::uint64_t kField = (1U << 17U) - 1;
};

struct Place {
  std::uint32_t slab = 0;
  std::byte* bytes = nullptr;
};

class Slabs {
 public:
  Slabs(FrameArena& arena, Budget& budget);
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  /// Room in an open slab (0 = none open), or nothing. No lock.
  std::optional<Place> fill(std::atomic<std::uint64_t>& open, std::uint64_t bytes) const;
  /// Makes charged units a slab, open with its first frame in it; closes what was open before.
  Place open(std::atomic<std::uint64_t>& open,
             std::uint32_t first,
             SlabClass size,
             std::uint64_t bytes,
             RingAccount* account);
  void close(std::atomic<std::uint64_t>& open);
  /// Makes charged units a slab with one frame.
  Place alone(std::uint32_t first, std::uint32_t units, RingAccount* account);
  /// One frame of the slab is gone; the last one frees it. True when it did.
  bool frame_gone(std::uint32_t slab);
  /// Of a slab that the caller keeps alive by a frame in it.
  [[nodiscard]] bool is_shared(std::uint32_t slab) const { return table_[slab].account == nullptr; }

 private:
  struct Slab {
    std::atomic<std::uint32_t> live;  // frames; while open: kOpen less the frames that went
    std::uint32_t units;
    RingAccount* account;
  };
  static constexpr std::uint32_t kOpen = 1U << 30U;

  void begin(std::uint32_t first, std::uint32_t units, std::uint32_t live, RingAccount* account);
  bool lower(std::uint32_t first, std::uint32_t by);

  FrameArena& arena_;
  Budget& budget_;
  Slab* table_;  // one entry a unit of the arena, memory only where it was used
  std::uint64_t table_bytes_;
};

}  // namespace simbridge::frame
