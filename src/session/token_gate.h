#pragma once
// What: who may touch a channel's producing state: the session that advertised it last. A takeover
// makes the earlier session's token worthless, and waits only for a step that is just being made
// (no lock is held while a frame arrives).   Owner: the Channel.   Threads: any.
#include <atomic>
#include <cstdint>
#include <thread>

namespace simbridge::session {

class TokenGate {
 public:
  /// false: the token is not (or no longer) the valid one. Between enter() and leave() the state is
  /// the caller's.
  [[nodiscard]] bool enter(std::uint64_t token) {
    std::uint64_t expected = token << 1U;
    // acquire: pairs with the release in leave() and take(), so that the state of the last step is
    // seen.
    return token != 0 &&
           state_.compare_exchange_strong(
               expected, expected | 1U, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void leave(std::uint64_t token) {
    state_.store(token << 1U,
                 std::memory_order_release);  // pairs with the acquire in enter() and take()
  }
  /// Makes token the valid one, and everybody else's worthless. Callers are serialised by the hub's
  /// mutex.
  void take(std::uint64_t token) {
    for (;;) {
      std::uint64_t seen = state_.load(std::memory_order_relaxed);
      if ((seen & 1U) == 0 &&
          state_.compare_exchange_weak(
              seen, token << 1U, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return;
      }
      std::this_thread::yield();  // the step in progress takes about a microsecond
    }
  }

 private:
  std::atomic<std::uint64_t> state_{0};
};

/// enter() and leave() as a scope; ask it whether it got in.
class GateStep {
 public:
  GateStep(TokenGate& gate, std::uint64_t token)
      : gate_(gate), token_(token), in_(gate.enter(token)) {}
  ~GateStep() {
    if (in_) gate_.leave(token_);
  }
  GateStep(const GateStep&) = delete;
  GateStep& operator=(const GateStep&) = delete;
  explicit operator bool() const { return in_; }

 private:
  TokenGate& gate_;
  std::uint64_t token_;
  bool in_;
};

}  // namespace simbridge::session
