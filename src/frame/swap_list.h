#pragma once
// What: a list that is read on every publish and changed seldom: readers take no lock and never
// wait, changes make a new immutable vector and swap it in.
// Owner: a ring.   Threads: visit() any; add(), remove() under the owner's lock (SB_REQUIRES
// there).
//
// When may an old vector be deleted? A reader announces itself (readers_ + 1), loads the pointer,
// walks, and leaves (readers_ - 1). A change swaps the pointer and then looks at readers_. These
// four are seq_cst, so they stand in one order. If the change finds readers_ = 0, then every reader
// that came before it has left, and one that comes later loads the pointer after the swap and finds
// the new vector: nobody is in an old one, and all retired vectors go. If it finds readers, the old
// vector stays retired and goes with a later change or with the list. A reader's walk happens
// before the deletion: its leaving is a release that the look at readers_ (an acquire) reads, be it
// through later readers' read-modify-writes, which carry the release on.
#include "simbridge/base/check.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace simbridge::frame {

template <typename T>
class SwapList {
 public:
  using Items = std::vector<std::shared_ptr<T>>;

  SwapList() = default;
  SwapList(const SwapList&) = delete;
  SwapList& operator=(const SwapList&) = delete;
  ~SwapList() {
    // relaxed: the owner is being destroyed, nobody visits any more.
    SB_CHECK(readers_.load(std::memory_order_relaxed) == 0,
             "nobody walks a list that is destroyed");
  }

  /// Any thread. Calls look(item) for each; the list stays as it is meanwhile.
  template <typename Look>
  void visit(Look&& look) const {
    // seq_cst: in one order with swap() and with the head of the ring. Whoever was added before the
    // caller's earlier seq_cst store is seen here; whoever is added later sees that store.
    if (items_.load(std::memory_order_seq_cst) == nullptr) return;
    readers_.fetch_add(1, std::memory_order_seq_cst);  // partner: the look at readers_ in swap()
    if (const Items* items = items_.load(std::memory_order_seq_cst)) {  // partner: the exchange
      for (const auto& item : *items) look(*item);
    }
    readers_.fetch_sub(1, std::memory_order_seq_cst);  // partner: the look at readers_ in swap()
  }
  [[nodiscard]] bool empty() const {
    // seq_cst: as in visit().
    return items_.load(std::memory_order_seq_cst) == nullptr;
  }

  void add(std::shared_ptr<T> item) {
    Items next = copy();
    next.push_back(std::move(item));
    swap(std::move(next));
  }
  void remove(const T* item) {
    Items next = copy();
    std::erase_if(next, [item](const auto& other) { return other.get() == item; });
    swap(std::move(next));
  }
  void set_only(std::shared_ptr<T> item) {
    Items next;
    if (item != nullptr) next.push_back(std::move(item));
    swap(std::move(next));
  }

 private:
  [[nodiscard]] Items copy() const { return current_ == nullptr ? Items() : *current_; }
  void swap(Items items) {
    std::unique_ptr<const Items> next;
    if (!items.empty()) next = std::make_unique<const Items>(std::move(items));
    items_.exchange(next.get(), std::memory_order_seq_cst);  // partner: the load in visit()
    if (current_ != nullptr) retired_.push_back(std::move(current_));
    current_ = std::move(next);
    // partner: readers_ in visit(); see above.
    if (readers_.load(std::memory_order_seq_cst) == 0) retired_.clear();
  }

  std::atomic<const Items*> items_{nullptr};  // null when empty: publishing to nobody costs nothing
  mutable std::atomic<std::uint32_t> readers_{0};
  std::unique_ptr<const Items> current_;  // what items_ points to
  std::vector<std::unique_ptr<const Items>> retired_;
};

}  // namespace simbridge::frame
