#pragma once
// What: a session's and its subscriptions' figures, written by its strand and read by the admin
// page. Owner: shared by the session and the hub.   Threads: written by the strand, read by any;
// relaxed: at rest exact.
#include "simbridge/frame/ring.h"
#include "simbridge/wire/messages.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace simbridge::session {

/// One (subscription, channel). promised = delivered + skipped + lost + waiting, at rest with
/// waiting = 0.
struct ReadingBooks {
  std::uint64_t session = 0;
  std::uint32_t subscription = 0;
  std::string channel;
  std::shared_ptr<const frame::FrameRing> ring;
  std::atomic<std::uint64_t> start{0};      // first promised position
  std::atomic<std::uint64_t> cursor{0};     // next position to look at
  std::atomic<std::uint64_t> in_flight{0};  // taken, not yet handed to the transport in full
  std::atomic<std::uint64_t> delivered{0}, skipped{0};
  std::array<std::atomic<std::uint64_t>, wire::kGapReasons> lost{};

  [[nodiscard]] std::uint64_t lost_total() const {
    std::uint64_t sum = 0;
    for (const auto& count : lost) sum += count.load(std::memory_order_relaxed);
    return sum;
  }
};

struct SessionBooks {
  std::uint64_t id = 0;
  std::string name, agent;  // set before the hub lists it, constant afterwards
  std::string transport, address;
  std::int64_t opened_ns = 0;  // monotonic
  std::atomic<std::uint64_t> channels{0}, subscriptions{0}, frames_in{0}, bytes_in{0},
      frames_out{0}, bytes_out{0}, outbox_bytes{0};
  std::atomic<std::uint64_t> seen_version{0};  // of the hub's log of changes
};

inline void bump(std::atomic<std::uint64_t>& figure, std::uint64_t by = 1) {
  // One writer: a plain load and store is enough, and cheaper than a locked add.
  figure.store(figure.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace simbridge::session
