#pragma once
// What: the whole daemon as one object: memory, sessions, threads, listeners, admin, in the order
// in which they need each other; and the way down again. Signals and the process are serve.cpp's
// business. Owner: serve().   Threads: one, the process's main thread.
#include "app/config.h"
#include "simbridge/base/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace simbridge::app {

struct ListeningAt {
  std::string websocket;  // "ws://127.0.0.1:8080/v1/connect"
  std::string grpc;       // "grpc://127.0.0.1:9090"
  std::string admin;      // "http://127.0.0.1:8090"
};

class Bridge {
 public:
  /// Everything runs and peers are served when it returns. The error is one sentence for the
  /// operator.
  static Result<std::unique_ptr<Bridge>> start(const Config& config);
  virtual ~Bridge() = default;  // stops what still runs, without a drain
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;

  [[nodiscard]] virtual ListeningAt listening_at() const = 0;
  /// Housekeeping; call about once a second.
  virtual void tick() = 0;
  /// Takes over the values of live knobs that differ. Says in the log what changed and what has to
  /// wait.
  virtual void reload(const Config& config) = 0;
  /// Readiness off, new peers refused, sessions told; returns at once.
  virtual void drain(const std::string& reason) = 0;
  /// No session is left, or the deadline and a little more is over.
  [[nodiscard]] virtual bool drained() const = 0;
  [[nodiscard]] virtual std::size_t sessions() const = 0;

 protected:
  Bridge() = default;
};

}  // namespace simbridge::app
