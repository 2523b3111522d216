#pragma once
// What: when to try the next connection, and when to give up. Grows, with jitter, so that peers of
// a bridge that restarts do not come back together. Owner: Sender, Watcher.   Threads: one at a
// time.
#include "simbridge/base/clock.h"

#include <algorithm>
#include <random>

namespace simbridge::client {

struct Reconnect {
  bool enabled = true;                // false: the first connection is the only one
  bool wait_when_told = false;        // "later" (503, 429) as first answer is waited out too
  milliseconds connect_for{0};        // how long the first connection is tried; 0 = once
  milliseconds give_up_after{60000};  // without a connection, later on; 0 = never
};

class Backoff {
 public:
  explicit Backoff(const Reconnect& options) : options_(options) { start(); }

  /// Somebody is there, and asks us to come later: from now on we wait as for one we knew.
  void told_to_wait() {
    if (options_.wait_when_told) first_ = false;
  }
  /// The connection is there (welcomed).
  void succeeded() {
    delay_ = kDelayMin;
    first_ = false;
  }
  /// It broke; wait is what the bridge asked for.
  void lost(milliseconds wait) {
    start();
    next_ = since_ + jittered(std::max(wait, kDelayMin));
  }
  /// An attempt failed. false: it was the last.
  [[nodiscard]] bool failed(milliseconds wait) {
    const auto now = std::chrono::steady_clock::now();
    const auto patience = first_ ? options_.connect_for : options_.give_up_after;
    const bool for_ever = !first_ && patience == milliseconds(0);
    next_ = now + jittered(std::max(wait, delay_));
    // Asked for more than our patience, we try once more when it ends.
    if (!for_ever) next_ = std::min(next_, since_ + patience);
    delay_ = std::min(delay_ * 2, kDelayMax);
    return for_ever || now - since_ < patience;
  }
  [[nodiscard]] Monotonic next() const { return next_; }

 private:
  static constexpr milliseconds kDelayMin{50};
  static constexpr milliseconds kDelayMax{3000};

  void start() {
    since_ = std::chrono::steady_clock::now();
    next_ = since_;
  }
  milliseconds jittered(milliseconds delay) {
    return delay + milliseconds(random_() % (static_cast<std::uint64_t>(delay.count()) / 4 + 1));
  }

  Reconnect options_;
  bool first_ = true;
  milliseconds delay_ = kDelayMin;
  Monotonic since_;
  Monotonic next_;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace simbridge::client
