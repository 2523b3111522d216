#pragma once
// What: one connection of a peer, whatever it runs over: messages in a queue each way. Owner: who
// connected it.   Threads: one at a time; nothing is taken or read outside of its calls, so a
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
#include <string_view>

namespace simbridge::client {

struct LineOptions {
  std::string subprotocols = "simbridge.v1";  // WebSocket: as in the header; empty = none asked for
  std::string agent = "simbridge-client";
  milliseconds timeout{5000};  // of resolving, connecting and the handshake together
  std::uint64_t max_message_bytes = 1U << 30;  // a larger one ends the connection
};

/// Why there is no connection. Where the other side answered HTTP, its status and wish stand here.
struct ConnectFailure {
  Error error;
  int http_status = 0;
  milliseconds retry_after{0};
};

struct LineMessage {
  bool text = false;
  std::string data;
};

/// How the connection ended, in WebSocket's codes on every road. 1006 = without a word.
struct LineClosed {
  std::uint16_t code = 1006;
  std::string reason;
  bool pointless = false;  // it would end the same way again
  milliseconds retry_after{0};
};

class Line {
 public:
  /// By the address's scheme.
  static std::expected<std::unique_ptr<Line>, ConnectFailure> connect(const Url& url,
                                                                      const LineOptions& options);
  virtual ~Line() = default;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Queues one message: head, then length bytes of body from offset. The body is shared, not
  /// copied.
  virtual void send(std::string head,
                    std::shared_ptr<const std::string> body,
                    std::size_t offset,
                    std::size_t length) = 0;
  void send_binary(std::string message) { send(std::move(message), nullptr, 0, 0); }
  /// WebSocket only.
  virtual void send_text(std::string message) = 0;
  /// Bytes that wait in our queue; the kernel's are not among them.
  [[nodiscard]] virtual std::size_t queued_bytes() const = 0;

  /// Runs until something happened (a message, a write, the end) or the deadline; false = deadline.
  virtual bool run_until(Monotonic deadline) = 0;
  /// Runs until the condition holds; false = deadline, or closed while it does not hold.
  virtual bool run_until(Monotonic deadline, const std::function<bool()>& condition) = 0;
  [[nodiscard]] virtual std::optional<LineMessage> take() = 0;

  /// A peer that stops reading, on purpose.
  virtual void pause_reading(bool paused) = 0;
  /// When the other side last gave a sign of life.
  [[nodiscard]] virtual Monotonic last_heard() const = 0;

  /// Empty while open.
  [[nodiscard]] virtual const std::optional<LineClosed>& closed() const = 0;
  /// Sends what is queued, then the close, and waits for the answer; gives up at the deadline.
  virtual void close(std::uint16_t code, std::string_view reason, Monotonic deadline) = 0;
  /// The connection breaks, as by a killed process. Nothing is said.
  virtual void abort() = 0;

 protected:
  Line() = default;
};

}  // namespace simbridge::client
