#pragma once
// What: a consumer that knows what it has: its subscriptions, the frames and gaps of each channel,
// and after a broken connection it goes on from its last positions.
// Owner: who made it.   Threads: one at a time; it works only while step() runs.
#include "client/link.h"
#include "client/part_assembler.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/client/peer.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::v1 {
class Channels;
class Frame;
class Reject;
class SubscriptionState;
}  // namespace simbridge::v1

namespace simbridge::client {

/// A frame as it came, and what is known about it. Views live during the callback.
struct WatchedFrame {
  std::string_view channel;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::uint64_t points_in = 0;
  std::uint64_t points_out = 0;
  std::string_view decimator;
  double leaf = 0;
  std::string_view data;
  double age_ms = 0;                   // since the first bridge received it, by wall clocks
  std::string_view file;               // that it was written to; empty = none
  const v1::Frame* message = nullptr;  // all of it
};

struct WatchedGap {
  std::string_view channel;
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t frames = 0;
  std::string reason;
};

struct WatchedDrain {
  std::string_view reason;
  std::uint32_t deadline_ms = 0;
  std::uint32_t retry_after_ms = 0;
};

/// Each may be empty.
struct WatchCallbacks {
  std::function<void(const WatchedFrame&)> frame;
  std::function<void(const WatchedGap&)> gap;
  std::function<void(std::string_view level, std::string_view code, std::string_view detail)>
      status;
  std::function<void(const WatchedDrain&)> drain;
};

/// The bridge's own books of one subscription, as of its last word about it.
struct WatchCounters {
  std::uint64_t promised = 0;
  std::uint64_t delivered = 0;
  std::uint64_t skipped = 0;
  std::uint64_t lost = 0;
};

struct Watched {
  SubscribeOptions options;
  std::map<std::string, SubscribeFrom, std::less<>> positions;  // by channel name
  std::uint64_t received = 0;                                   // frames, over all connections
  std::uint64_t received_session = 0;  // over this one: with surplus, what its counters agree with
  std::uint64_t surplus = 0;           // came after the last frame that was wanted
  std::uint64_t lost = 0;              // Σ Gap.frames, over all connections
  std::uint64_t gaps = 0;              // Gap messages
  WatchCounters counters;
  bool ended = false;
};

class Watcher {
 public:
  /// Subscriptions are numbered from 1 in their order.
  Watcher(LinkOptions options,
          std::vector<SubscribeOptions> subscriptions,
          WatchCallbacks callbacks);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// So many frames are wanted, all subscriptions together. What comes after them was under way
  /// when we had enough: it is not told, and counted apart.
  void want(std::uint64_t frames) { wanted_ = frames; }

  /// See Link::step. A subscription that is refused is an error too (kRefused).
  Result<void> step(Monotonic deadline);

  /// Ends all subscriptions and takes what still comes, until the bridge's last word about each.
  Result<void> unsubscribe(Monotonic deadline);
  void goodbye(std::string_view reason, Monotonic deadline);

  [[nodiscard]] const std::vector<Watched>& subscriptions() const { return watched_; }
  [[nodiscard]] std::uint64_t reconnects() const { return link_.reconnects(); }
  [[nodiscard]] bool connected() const { return link_.welcome().has_value(); }
  [[nodiscard]] bool ever_connected() const { return link_.ever_connected(); }
  [[nodiscard]] bool draining() const { return link_.draining(); }

 private:
  /// As the bridge last told of a channel.
  struct Announced {
    std::string name;
    std::uint64_t epoch = 0;
    std::uint64_t last_sequence = 0;
  };

  void subscribe_all();
  Result<void> handle(const v1::ServerMessage& message);
  void on_channels(const v1::Channels& channels);
  void on_frame(const v1::Frame& frame);
  void on_gap(const v1::ServerMessage& message);
  void on_part(const v1::ServerMessage& message);
  void on_state(const v1::SubscriptionState& state);
  void note_start(Watched& watched, std::uint32_t channel);
  Result<void> on_reject(const v1::Reject& reject);
  void give_credit(Watched& watched, std::uint32_t channel);
  void move_to(Watched& watched,
               const std::string& channel,
               std::uint64_t epoch,
               std::uint64_t last);
  void status(std::string_view level, std::string_view code, std::string_view detail) const;
  [[nodiscard]] Watched* find(std::uint32_t subscription);
  [[nodiscard]] const std::string& name_of(std::uint32_t channel);

  WatchCallbacks callbacks_;
  Link link_;
  std::vector<Watched> watched_;
  std::map<std::uint32_t, Announced> channels_;                            // of this boot's numbers
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> owed_;  // credit not yet given
  PartAssembler parts_;
  std::uint64_t wanted_ = std::numeric_limits<std::uint64_t>::max();
  bool leaving_ = false;
};

}  // namespace simbridge::client
