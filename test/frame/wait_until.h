#pragma once
// What: waits for an event with a deadline, by looking often.   Threads: any.
#include <chrono>
#include <thread>

namespace simbridge::test {

template <typename Condition>
bool wait_until(Condition&& condition,
                std::chrono::milliseconds at_most = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace simbridge::test
