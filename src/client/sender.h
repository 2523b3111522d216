#pragma once
// What: a producer that loses nothing: it keeps every frame until it is acknowledged, keeps to the
// window, and after a broken connection advertises the same epoch and sends what is newer than what
// the bridge has. Frames are refused finally, to be retried (go back n), or acknowledged.
// Owner: who made it.   Threads: one at a time; it works only while step() runs.
#include "client/frame_encoder.h"
#include "client/link.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/client/peer.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::v1 {
class Ack;
class Advertised;
class Reject;
class ServerMessage;
}  // namespace simbridge::v1

namespace simbridge::client {

struct SenderCounters {
  std::uint64_t sent = 0;           // distinct frames
  std::uint64_t sent_bytes = 0;     // of their payload data
  std::uint64_t acknowledged = 0;   // without those that were finally refused
  std::uint64_t rejected = 0;       // finally
  std::uint64_t retransmitted = 0;  // sent again, for a retry or after a broken connection
};

class Sender {
 public:
  explicit Sender(LinkOptions options);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Before the first step(). acknowledged: the last sequence of an earlier life of this epoch.
  /// The channel's number is the answer (options.channel is ignored).
  std::uint32_t add_channel(AdvertiseOptions options, std::uint64_t acknowledged = 0);

  /// Works until something happened or the deadline, 100 ms at most. An error is the end: nobody
  /// there for too long (kUnavailable), or a refusal that no retry heals (kRefused).
  Result<void> step(Monotonic deadline);

  /// May a frame with so many payload bytes be handed in now?
  [[nodiscard]] bool ready(std::uint32_t channel, std::uint64_t data_bytes) const;
  /// The number that the next frame of the channel must bear.
  [[nodiscard]] std::uint64_t next_sequence(std::uint32_t channel) const;
  /// Takes the frame; only after ready().
  void send(EncodedFrame frame);

  [[nodiscard]] bool all_acknowledged() const;
  [[nodiscard]] std::uint64_t unacknowledged() const;
  /// All up to this one are done with: in the ring, refused, or duplicates.
  [[nodiscard]] std::uint64_t acknowledged(std::uint32_t channel) const;
  [[nodiscard]] std::uint64_t epoch(std::uint32_t channel) const;
  [[nodiscard]] const SenderCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint64_t reconnects() const { return link_.reconnects(); }
  [[nodiscard]] bool connected() const { return link_.welcome().has_value(); }
  [[nodiscard]] bool ever_connected() const { return link_.ever_connected(); }

  /// Says Goodbye, if there is somebody to say it to, and closes.
  void goodbye(std::string_view reason, Monotonic deadline);

 private:
  struct Pending {
    EncodedFrame frame;
    bool sent = false;      // at least once
    bool rejected = false;  // finally; its Ack is still to come
  };
  struct Channel {
    AdvertiseOptions options;
    std::uint64_t acknowledged = 0;
    std::uint64_t next_sequence = 1;
    std::deque<Pending> pending;
    std::size_t in_flight = 0;  // so many of pending were sent over this connection
    std::uint64_t in_flight_bytes = 0;
    std::uint64_t window_bytes = 0;
    bool advertised = false;
    Monotonic hold_until;  // after a Reject that asks for a retry
    milliseconds hold{0};
  };

  void forget_connection();
  void pump();
  void pump(Channel& channel);
  void transmit(Channel& channel, std::uint64_t max_message_bytes);
  [[nodiscard]] bool may_send(const Channel& channel, std::uint64_t data_bytes) const;
  [[nodiscard]] Monotonic next_deadline(Monotonic deadline) const;
  Result<void> handle(const v1::ServerMessage& message);
  Result<void> on_advertised(const v1::Advertised& advertised);
  void on_ack(const v1::Ack& ack);
  Result<void> on_reject(const v1::Reject& reject);
  Result<void> on_channel_reject(Channel& channel, const v1::Reject& reject);
  void on_frame_reject(Channel& channel, const v1::Reject& reject);
  void acknowledge(Channel& channel, std::uint64_t sequence);
  void go_back_to(Channel& channel, std::uint64_t sequence);
  void advertise(const Channel& channel);
  [[nodiscard]] Channel* find(std::uint32_t number);

  Link link_;
  std::vector<Channel> channels_;  // number - 1
  std::uint64_t transfer_ = 0;
  SenderCounters counters_;
  bool started_ = false;
};

}  // namespace simbridge::client
