#pragma once
// What: one WebSocket connection of a peer, on Beast's client stream. It is deliberately not the
// daemon's own codec: whenever a command or a test talks to the daemon, two implementations meet.
// Owner: who connected it.   Threads: one at a time; nothing happens outside of its calls, so a
// caller that stays away is a peer that does not read.
#include "client/url.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace simbridge::client {

struct WebSocketOptions {
  std::string subprotocols = "simbridge.v1";  // as in the header; empty = none asked for
  std::string agent = "simbridge-client";
  milliseconds timeout{5000};  // of resolving, connecting and the handshake together
  std::uint64_t max_message_bytes = 1U << 30;  // a larger one ends the connection with 1009
};

/// Why there is no connection. Where the other side answered HTTP, its status and wish stand here.
struct ConnectFailure {
  Error error;
  int http_status = 0;
  milliseconds retry_after{0};
};

struct WebSocketMessage {
  bool text = false;
  std::string data;
};

/// How the connection ended. 1006 = without a close frame.
struct WebSocketClosed {
  std::uint16_t code = 1006;
  std::string reason;
};

class WebSocket {
 public:
  static std::expected<std::unique_ptr<WebSocket>, ConnectFailure> connect(
      const Url& url, const WebSocketOptions& options);
  ~WebSocket();
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  /// Queues one message: head, then length bytes of body from offset. The body is shared, not
  /// copied.
  void send(std::string head,
            std::shared_ptr<const std::string> body,
            std::size_t offset,
            std::size_t length);
  void send_binary(std::string message);
  void send_text(std::string message);
  /// Bytes that wait in our queue; the kernel's are not among them.
  [[nodiscard]] std::size_t queued_bytes() const;

  /// Runs until something happened (a message, a write, the end) or the deadline; false = deadline.
  bool run_until(Monotonic deadline);
  /// Runs until the condition holds; false = deadline, or closed while it does not hold.
  bool run_until(Monotonic deadline, const std::function<bool()>& condition);
  [[nodiscard]] std::optional<WebSocketMessage> take();

  /// A peer that stops reading, on purpose.
  void pause_reading(bool paused);
  /// When the last byte arrived, control frames included.
  [[nodiscard]] Monotonic last_heard() const;
  [[nodiscard]] std::string subprotocol() const;

  /// Empty while open.
  [[nodiscard]] const std::optional<WebSocketClosed>& closed() const;
  /// Sends what is queued, then the close, and waits for the answer; gives up at the deadline.
  void close(std::uint16_t code, std::string_view reason, Monotonic deadline);
  /// The connection breaks, as by a killed process. Nothing is said.
  void abort();

 private:
  struct Impl;
  explicit WebSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::client
