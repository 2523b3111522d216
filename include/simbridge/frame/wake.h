#pragma once
// What: how a publisher tells a session that one of its many rings has something new, without a
// lock, a queue or an allocation: a bit per watched ring, and one post per burst. Owner: the
// session (shared with the rings that may still be about to set a bit). Threads: signal() any;
// add_slot(), drain() the session's strand only.
#include "simbridge/base/check.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace simbridge::frame {

class WakeQueue {
 public:
  /// wake() must be callable from any thread at any time, must not throw or block; it posts drain()
  /// to the session's strand (through a weak reference: the session may be gone).
  explicit WakeQueue(std::move_only_function<void() const> wake) : wake_(std::move(wake)) {}
  ~WakeQueue() = default;
  WakeQueue(const WakeQueue&) = delete;
  WakeQueue& operator=(const WakeQueue&) = delete;

  /// Sets the bit of one slot, and wakes the session unless it is already about to look.
  void signal(std::atomic<std::uint64_t>& word, std::uint64_t mask) const {
    // seq_cst on both: pairs with drain(), which clears pending_ first and reads the words after.
    // Either the session sees the bit, or it has not cleared pending_ yet and this exchange is
    // ordered before that.
    word.fetch_or(mask, std::memory_order_seq_cst);
    if (!pending_.exchange(true, std::memory_order_seq_cst)) wake_();
  }
  /// Wakes without a slot: for credit, tickets and timers.
  void signal() const {
    if (!pending_.exchange(true, std::memory_order_seq_cst)) wake_();
  }

  struct Slot {
    std::uint32_t index = 0;
    std::atomic<std::uint64_t>* word = nullptr;  // lives as long as the queue
    std::uint64_t mask = 0;
  };

  /// Slots are reused; a late bit for the slot's earlier user is a harmless extra look.
  Slot add_slot() {
    std::uint32_t index = next_;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (next_ % kSlotsPerChunk == 0) chunks_.push_back(std::make_unique<Chunk>());
      ++next_;
    }
    auto& word = (*chunks_[index / kSlotsPerChunk])[(index % kSlotsPerChunk) / 64];
    return Slot{index, &word, std::uint64_t{1} << (index % 64)};
  }
  void remove_slot(const Slot& slot) { free_.push_back(slot.index); }

  /// Calls look(index) for every slot that was signalled. First thing a woken session does.
  template <typename Look>
  void drain(Look&& look) {
    pending_.store(false, std::memory_order_seq_cst);  // before the words are read: see signal()
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      for (std::size_t w = 0; w < kWordsPerChunk; ++w) {
        auto& word = (*chunks_[c])[w];
        if (word.load(std::memory_order_seq_cst) == 0) continue;
        std::uint64_t bits = word.exchange(0, std::memory_order_seq_cst);
        while (bits != 0) {
          const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(bits));
          bits &= bits - 1;
          look(static_cast<std::uint32_t>(c * kSlotsPerChunk + w * 64 + bit));
        }
      }
    }
  }

 private:
  static constexpr std::size_t kWordsPerChunk = 8;
  static constexpr std::size_t kSlotsPerChunk = kWordsPerChunk * 64;
  using Chunk = std::array<std::atomic<std::uint64_t>, kWordsPerChunk>;

  std::move_only_function<void() const> wake_;
  mutable std::atomic<bool> pending_{false};
  std::vector<std::unique_ptr<Chunk>> chunks_;  // chunks never move: rings hold pointers into them
  std::vector<std::uint32_t> free_;
  std::uint32_t next_ = 0;
};

/// A ring's watcher: one (queue, slot). Shared between the session and the ring's list of watchers.
struct Watcher {
  std::shared_ptr<WakeQueue> queue;
  WakeQueue::Slot slot;
  void signal() const { queue->signal(*slot.word, slot.mask); }
};

}  // namespace simbridge::frame
