#pragma once
// What: a peer of the bridge for tests and for programs in C++: connect, advertise, send frames,
// subscribe, take the next message; and any bytes at all, for those who want to be impolite.
// It keeps nothing and repairs nothing; `send` and `watch` are built on Sender and Watcher instead.
// Owner: who connected it.   Threads: one at a time. It reads only while one of its calls waits.
//
//   auto peer = Peer::connect({.url = "ws://127.0.0.1:8080"});
//   auto channel = (*peer)->advertise({.channel = 1, .name = "lidar/points", .epoch = 7});
//   (*peer)->send_opaque({.channel = 1, .sequence = 1}, payload);
//   auto message = (*peer)->next(1s);   // include simbridge/v1/bridge.pb.h to read it
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"
#include "simbridge/client/point_cloud.h"
#include "simbridge/client/quality.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::v1 {
class ClientMessage;
class ServerMessage;
}  // namespace simbridge::v1

namespace simbridge::client {

struct PeerOptions {
  std::string url;  // ws://host:port[/path] or grpc://host:port
  std::string name = "peer";
  std::string agent = "simbridge-client";
  std::string peer_key;  // empty = none
  std::string token;
  std::uint64_t max_message_bytes = 0;       // told to the bridge; 0 = its own limit
  std::string subprotocol = "simbridge.v1";  // as in the header; empty = none
  milliseconds timeout{5000};                // of the connection and of the Welcome
  bool hello = true;                         // false: connected only, the caller says Hello himself
};

struct WelcomeInfo {
  std::string bridge;
  std::string version;
  std::uint64_t boot_id = 0;
  std::uint64_t session = 0;
  std::uint64_t max_message_bytes = 0;
  std::uint64_t max_frame_bytes = 0;
  std::uint32_t ping_interval_ms = 0;
};

enum class SendPolicy { kDefault, kDropOldest, kBackpressure };

struct AdvertiseOptions {
  std::uint32_t channel = 1;
  std::string name;
  std::uint64_t epoch = 0;
  std::string frame_id;
  std::string schema;
  std::string encoding;
  SendPolicy policy = SendPolicy::kDefault;
  bool latched = false;
};

struct AdvertisedInfo {
  std::uint32_t id = 0;
  std::uint64_t last_sequence = 0;
  std::uint64_t window_bytes = 0;
  std::uint64_t epoch = 0;
};

enum class HistoryMode { kNone, kLast, kAllKept, kFrom };

struct SubscribeFrom {
  std::string channel;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;

  friend bool operator==(const SubscribeFrom&, const SubscribeFrom&) = default;
};

struct SubscribeOptions {
  std::uint32_t id = 1;
  std::string channel;  // name or glob
  HistoryMode history = HistoryMode::kNone;
  std::vector<SubscribeFrom> from;
  double max_hz = 0;
  Quality quality;
  bool reliable = false;
  std::uint32_t credit = 0;
  std::uint32_t max_age_ms = 0;
  std::uint32_t queue_frames = 0;
  std::uint64_t queue_bytes = 0;
};

/// The part of a frame's header that a producer chooses.
struct FrameHeader {
  std::uint32_t channel = 1;
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  std::int64_t stamp_ns = 0;
  std::string frame_id;
  bool checksum = false;
};

/// How the connection ended: the close code, 1006 where none was sent.
struct PeerClosed {
  std::uint16_t code = 1006;
  std::string reason;
};

class Peer {
 public:
  /// kUnavailable: nobody there; kRefused: HTTP said no, or the bridge sent a Reject instead of a
  /// Welcome (both quoted); kTimeout: no Welcome in time.
  [[nodiscard]] static Result<std::unique_ptr<Peer>> connect(const PeerOptions& options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] const WelcomeInfo& welcome() const;

  // What is sent is queued and leaves while a call of this peer waits, flush() included.
  void send(const v1::ClientMessage& message);
  /// One message, whatever it holds; text over WebSocket only.
  void send_bytes(std::string_view bytes, bool text = false);
  void send_opaque(const FrameHeader& header, std::string_view data);
  void send_cloud(const FrameHeader& header, const PointCloudData& cloud);
  /// Waits until everything queued was handed to the kernel.
  bool flush(milliseconds timeout);

  /// Advertises, and waits for the answer. A Reject is kRefused, with its code's name in the
  /// detail.
  Result<AdvertisedInfo> advertise(const AdvertiseOptions& options,
                                   milliseconds timeout = milliseconds(5000));
  void subscribe(const SubscribeOptions& options);
  void unsubscribe(std::uint32_t id);
  void credit(std::uint32_t subscription, std::uint32_t channel, std::uint32_t frames);

  /// The next message, in order. kTimeout; kUnavailable once closed and all was taken; kInvalid for
  /// bytes that are no ServerMessage.
  [[nodiscard]] Result<std::unique_ptr<v1::ServerMessage>> next(milliseconds timeout);
  /// The first message that is wanted; those before it stay, in order, for next().
  [[nodiscard]] Result<std::unique_ptr<v1::ServerMessage>> await(
      const std::function<bool(const v1::ServerMessage&)>& wanted, milliseconds timeout);
  /// The next message as it came, without parsing; text tells which kind it was.
  [[nodiscard]] Result<std::string> next_bytes(milliseconds timeout, bool* text = nullptr);

  /// A peer that stops reading, on purpose; messages then wait in the kernel and at the bridge.
  void pause_reading(bool paused);
  /// Lets the connection work for a while although nothing is expected (pings are answered).
  void idle(milliseconds time);

  /// Waits until the bridge closes; empty if it does not within the time.
  [[nodiscard]] std::optional<PeerClosed> wait_closed(milliseconds timeout);
  void goodbye(std::string_view reason);
  void close(std::uint16_t code = 1000, milliseconds timeout = milliseconds(2000));
  /// The connection breaks, as by a killed process.
  void abort();

 private:
  struct Impl;
  explicit Peer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::client
