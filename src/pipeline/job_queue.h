#pragma once
// What: frames that wait for a thread: a bounded queue for many writers and many readers, without a
// lock, so that a session that asks never waits for another or for a worker.
// Owner: the pipeline.   Threads: push(), pop() any.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace simbridge::pipeline {

/// Each cell carries a turn: cell i takes its n-th value at turn n * Capacity + i, and gives it
/// away at that plus one. Who moves an end by compare-exchange owns the cell until he stores its
/// next turn.
template <typename Job, std::size_t Capacity>
class JobQueue {
  static_assert((Capacity & (Capacity - 1)) == 0, "turns wrap by a mask");

 public:
  JobQueue() {
    for (std::size_t i = 0; i < Capacity; ++i)
      cells_[i].turn.store(i, std::memory_order_relaxed);  // before any other thread sees it
  }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;
  ~JobQueue() = default;

  /// false: full.
  bool push(Job job) {
    // relaxed, both ends: the turn of the cell decides, and carries the order.
    std::uint64_t place = in_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[place & kMask];
      // acquire: pairs with the release in pop(): the cell's last job was moved out.
      const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == place) {
        if (in_.compare_exchange_weak(
                place, place + 1, std::memory_order_relaxed, std::memory_order_relaxed)) {
          cell.job = std::move(job);
          // release: pairs with the acquire in pop().
          cell.turn.store(place + 1, std::memory_order_release);
          return true;
        }
      } else if (turn < place) {
        return false;
      } else {
        place = in_.load(std::memory_order_relaxed);
      }
    }
  }

  /// Nothing: empty, or the next one is just being written; see empty().
  std::optional<Job> pop() {
    std::uint64_t place = out_.load(std::memory_order_relaxed);  // as in push()
    for (;;) {
      Cell& cell = cells_[place & kMask];
      // acquire: pairs with the release in push(): the job is there.
      const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == place + 1) {
        if (out_.compare_exchange_weak(
                place, place + 1, std::memory_order_relaxed, std::memory_order_relaxed)) {
          std::optional<Job> job(std::move(cell.job));
          cell.job = Job{};
          // release: pairs with the acquire in push().
          cell.turn.store(place + Capacity, std::memory_order_release);
          return job;
        }
      } else if (turn <= place) {
        return std::nullopt;
      } else {
        place = out_.load(std::memory_order_relaxed);
      }
    }
  }

  /// Of a moment: what is being written counts as there.
  [[nodiscard]] std::size_t size() const {
    const std::uint64_t out = out_.load(std::memory_order_relaxed);  // first: it never passes in_
    const std::uint64_t in = in_.load(std::memory_order_relaxed);
    return in > out ? static_cast<std::size_t>(in - out) : 0;
  }

 private:
  static constexpr std::uint64_t kMask = Capacity - 1;
  struct Cell {
    std::atomic<std::uint64_t> turn{0};
    Job job{};
  };
  alignas(64) std::atomic<std::uint64_t> in_{0};
  alignas(64) std::atomic<std::uint64_t> out_{0};
  alignas(64) std::array<Cell, Capacity> cells_;
};

}  // namespace simbridge::pipeline
