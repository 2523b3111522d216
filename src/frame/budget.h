#pragma once
// What: the byte budget and what is charged against it, in one word, so that "charged never exceeds
// the budget" is true at every instant and not just after a second look.
// Owner: FrameStore.   Threads: any.
#include <atomic>
#include <cstdint>

namespace simbridge::frame {

/// The smallest piece of the arena that is handed out, charged and returned.
inline constexpr std::uint64_t kUnitBytes = 64ULL << 10;

class Budget {
 public:
  /// Charges units if they fit.
  [[nodiscard]] bool try_charge(std::uint32_t units) {
    // seq_cst everywhere in this class: who frees something and then looks for waiters, and who
    // becomes a waiter and then tries again, cannot miss each other (WaitingList). What the charged
    // memory held before is ordered by the arena's mutex, not by this word.
    std::uint64_t word = word_.load(std::memory_order_seq_cst);
    do {
      const std::uint64_t charged = word & kChargedMask;
      if (charged + units > word >> 32U) return false;
    } while (!word_.compare_exchange_weak(
        word, word + units, std::memory_order_seq_cst, std::memory_order_seq_cst));
    return true;
  }
  void uncharge(std::uint32_t units) { word_.fetch_sub(units, std::memory_order_seq_cst); }

  /// From here on nothing more is charged beyond it; what is charged already stays charged.
  void set(std::uint32_t units) {
    std::uint64_t word = word_.load(std::memory_order_seq_cst);
    while (!word_.compare_exchange_weak(word,
                                        std::uint64_t{units} << 32U | (word & kChargedMask),
                                        std::memory_order_seq_cst,
                                        std::memory_order_seq_cst)) {
    }
  }
  [[nodiscard]] std::uint32_t budget_units() const {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_seq_cst) >> 32U);
  }
  [[nodiscard]] std::uint32_t charged_units() const {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_seq_cst) & kChargedMask);
  }
  [[nodiscard]] bool exceeded() const {
    const std::uint64_t word = word_.load(std::memory_order_seq_cst);
    return (word & kChargedMask) > word >> 32U;
  }

 private:
  static constexpr std::uint64_t kChargedMask = 0xFFFFFFFF;
  std::atomic<std::uint64_t> word_{0};  // budget << 32 | charged, both in units
};

}  // namespace simbridge::frame
