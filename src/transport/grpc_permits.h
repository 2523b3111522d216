#pragma once
// What: how many pollers may handle events at one time; the others wait for their turn. Waiting for
// events takes no permit.   Owner: the server.   Threads: any.
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/metrics.h"

#include <atomic>
#include <condition_variable>

namespace simbridge::transport::rpc {

class Permits {
 public:
  Permits(int permits, metrics::Gauge& gauge) : free_(permits), gauge_(gauge), all_(permits) {
    gauge_.set(static_cast<std::uint64_t>(permits));
  }

  void acquire() SB_NO_ANALYSIS {
    if (try_acquire()) return;
    std::unique_lock lock(mutex_.native());
    // seq_cst here and in release(): either this thread sees the permit that comes back, or who
    // gives it back sees that somebody waits.
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    back_.wait(lock, [this] { return try_acquire(); });
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
  }

  void release() {
    free_.fetch_add(1, std::memory_order_seq_cst);
    if (waiting_.load(std::memory_order_seq_cst) == 0) return;
    const MutexLock lock(mutex_);
    back_.notify_one();
  }

  /// At once; who is through with more than there are now goes on to his end.
  void set(int permits) {
    const MutexLock lock(mutex_);
    free_.fetch_add(permits - all_, std::memory_order_seq_cst);
    all_ = permits;
    gauge_.set(static_cast<std::uint64_t>(permits));
    back_.notify_all();
  }

  [[nodiscard]] int all() const {
    const MutexLock lock(mutex_);
    return all_;
  }

 private:
  bool try_acquire() {
    int free = free_.load(std::memory_order_seq_cst);
    while (free > 0) {
      if (free_.compare_exchange_weak(free, free - 1, std::memory_order_seq_cst)) return true;
    }
    return false;
  }

  std::atomic<int> free_;  // below 0 while more run than there are permits now
  std::atomic<int> waiting_{0};
  metrics::Gauge& gauge_;
  mutable Mutex mutex_;
  std::condition_variable back_;
  int all_ SB_GUARDED_BY(mutex_);
};

/// A permit for as long as it lives.
class [[nodiscard]] Turn {
 public:
  explicit Turn(Permits& permits) : permits_(permits) { permits_.acquire(); }
  ~Turn() { permits_.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Permits& permits_;
};

}  // namespace simbridge::transport::rpc
