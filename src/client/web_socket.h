#pragma once
// What: one WebSocket connection of a peer, on Beast's client stream. It is deliberately not the
// daemon's own codec: whenever a command or a test talks to the daemon, two implementations meet.
// Owner: who connected it.   Threads: one at a time; nothing happens outside of its calls, so a
// caller that stays away is a peer that does not read.
#include "client/line.h"
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

class WebSocket final : public Line {
 public:
  static std::expected<std::unique_ptr<WebSocket>, ConnectFailure> connect(
      const Url& url, const LineOptions& options);
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;
  ~WebSocket() override;

  void send(std::string head,
            std::shared_ptr<const std::string> body,
            std::size_t offset,
            std::size_t length) override;
  void send_text(std::string message) override;
  [[nodiscard]] std::size_t queued_bytes() const override;
  bool run_until(Monotonic deadline) override;
  bool run_until(Monotonic deadline, const std::function<bool()>& condition) override;
  [[nodiscard]] std::optional<LineMessage> take() override;
  void pause_reading(bool paused) override;
  /// When the last byte arrived, control frames included.
  [[nodiscard]] Monotonic last_heard() const override;
  [[nodiscard]] std::string subprotocol() const;
  [[nodiscard]] const std::optional<LineClosed>& closed() const override;
  void close(std::uint16_t code, std::string_view reason, Monotonic deadline) override;
  void abort() override;

 private:
  struct Impl;
  explicit WebSocket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::client
