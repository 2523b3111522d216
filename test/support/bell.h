#pragma once
// What: a sleeper that others wake, as a session's strand is in the product.
// Threads: ring() any, wait() one.
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace simbridge::test {

/// What a session's strand is in the product: somebody who sleeps until posted to.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    woken_.notify_one();
  }
  /// False when nobody rang for 20 s: a wake-up was lost.
  bool wait() {
    std::unique_lock lock(mutex_);
    const bool heard = woken_.wait_until(
        lock, std::chrono::system_clock::now() + std::chrono::seconds(20), [&] { return rung_; });
    rung_ = false;
    return heard;
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  bool rung_ = false;
};

}  // namespace simbridge::test
