#pragma once
// What: the gRPC road in and out: simbridge.v1.Bridge, the health protocol, reflection. It moves
// messages between calls and sessions, and judges none. Owner: app; Hub, IoPool, Clock and metrics
// outlive it. Threads: any; stop() and the destructor not from its own threads.
#include "simbridge/base/clock.h"
#include "simbridge/base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace simbridge::metrics {
struct GrpcMetrics;
}
namespace simbridge::session {
class Hub;
}
namespace simbridge::wire {
struct Info;
}

namespace simbridge::transport {

class IoPool;

struct GrpcOptions {
  std::string bind = "127.0.0.1";  // numeric IPv4 or IPv6
  std::uint16_t port = 9090;       // 0: the kernel chooses
  unsigned queues = 0;  // completion queues made at start; 0: a CPU of the host each, at most 64
  std::uint64_t max_message_bytes = 64ULL << 20;  // that a session sends
  std::uint64_t memory_bytes = 256ULL << 20;      // that gRPC may use for what it reads
  milliseconds ping_interval{10'000};  // given up after two more of them without an answer
  milliseconds handshake_timeout{10'000};
  milliseconds close_timeout{5'000};  // for the last words of a call; then it is broken off
  std::size_t max_side_calls = 1024;  // at once, of all but Connect
};

class GrpcListener {
 public:
  virtual ~GrpcListener() = default;
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  /// The port that was bound.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Calls of Connect that are open.
  [[nodiscard]] virtual std::size_t streams() const = 0;

  /// As many queues take new calls, and as many pollers may work at one time. Queues above it keep
  /// their poller until their last call ends. Done by IoPool::resize() for its pool.
  virtual void resize(unsigned pollers) = 0;
  [[nodiscard]] virtual unsigned queues() const = 0;
  /// Pollers that run now.
  [[nodiscard]] virtual unsigned pollers() const = 0;

  /// Health is NOT_SERVING from here on. The sessions are told by Hub::drain().
  virtual void drain() = 0;
  /// Stops listening, ends what is left (UNAVAILABLE, then broken off), returns when all sessions
  /// were told and gRPC reads no frame any more. Also done by the destructor.
  virtual void stop() = 0;

 protected:
  GrpcListener() = default;
};

/// What GetInfo answers; called in any of the listener's threads.
using InfoSource = std::function<wire::Info()>;

/// Listens when it returns. Fails with one sentence for the operator (address in use, not numeric).
Result<std::unique_ptr<GrpcListener>> make_grpc_listener(const GrpcOptions& options,
                                                         IoPool& pool,
                                                         session::Hub& hub,
                                                         InfoSource info,
                                                         metrics::GrpcMetrics& metrics);

}  // namespace simbridge::transport
