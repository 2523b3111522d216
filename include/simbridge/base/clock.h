#pragma once
// What: the time, as something that tests can hold still.   Owner: app (SystemClock) or a test.
// Threads: any.
#include <chrono>
#include <cstdint>

namespace simbridge {

using Monotonic = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Two clocks: monotonic for every decision, wall for what is written into messages and logs.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Monotonic now() const = 0;
  /// Nanoseconds since 1970. May jump; never used to decide.
  [[nodiscard]] virtual std::int64_t wall_ns() const = 0;

 protected:
  Clock() = default;
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Monotonic now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::int64_t wall_ns() const override {
    return std::chrono::duration_cast<nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace simbridge
