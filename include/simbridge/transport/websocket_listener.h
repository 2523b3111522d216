#pragma once
// What: the WebSocket road in and out: listens, upgrades, and moves messages between sockets and
// sessions. It judges no message. Owner: app; Hub, IoPool, Clock and metrics outlive it. Threads:
// any; stop() and the destructor not from the pool's threads.
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace simbridge::metrics {
struct TransportMetrics;
}
namespace simbridge::session {
class Hub;
}

namespace simbridge::transport {

class IoPool;

struct WebSocketOptions {
  std::string bind = "127.0.0.1";  // numeric IPv4 or IPv6
  std::uint16_t port = 8080;       // 0: the kernel chooses
  milliseconds handshake_timeout{10'000};
  milliseconds ping_interval{10'000};  // given up after three of them without a byte
  milliseconds close_timeout{5'000};   // for the closing handshake; then the connection is reset
  std::size_t max_handshakes = 1024;   // at once; beyond it the oldest is dropped
};

class WebSocketListener {
 public:
  virtual ~WebSocketListener() = default;
  WebSocketListener(const WebSocketListener&) = delete;
  WebSocketListener& operator=(const WebSocketListener&) = delete;

  /// The port that was bound.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// TCP connections, handshakes included.
  [[nodiscard]] virtual std::size_t connections() const = 0;
  /// Stops listening, ends what is left (1001, then reset), returns when all sessions were told.
  /// The polite way is Hub::drain() before; the pool must still run. Also done by the destructor.
  virtual void stop() = 0;

 protected:
  WebSocketListener() = default;
};

/// Listens when it returns. Fails with one sentence for the operator (address in use, not numeric).
Result<std::unique_ptr<WebSocketListener>> make_websocket_listener(
    const WebSocketOptions& options,
    IoPool& pool,
    session::Hub& hub,
    metrics::TransportMetrics& metrics);

}  // namespace simbridge::transport
