#pragma once
// What: a clock that moves only when told.   Threads: advance() from one, reads from any.
#include "simbridge/base/clock.h"

#include <atomic>

namespace simbridge::test {

class ManualClock final : public Clock {
 public:
  [[nodiscard]] Monotonic now() const override {
    return Monotonic(nanoseconds(ns_.load(std::memory_order_relaxed)));
  }
  [[nodiscard]] std::int64_t wall_ns() const override {
    return kWallStart + ns_.load(std::memory_order_relaxed);
  }
  void advance(nanoseconds by) { ns_.fetch_add(by.count(), std::memory_order_relaxed); }

 private:
  static constexpr std::int64_t kWallStart = 1'700'000'000'000'000'000;
  std::atomic<std::int64_t> ns_{1'000'000'000'000};
};

}  // namespace simbridge::test
