#include "simbridge/transport/websocket_listener.h"

#include "simbridge/session/hub.h"
#include "transport/ws_accept.h"
#include "transport/ws_door.h"

#include <utility>

namespace simbridge::transport {
namespace {

class HubDoor final : public ws::Door {
 public:
  explicit HubDoor(session::Hub& hub) : hub_(hub) {}

  std::expected<Place, session::Refusal> admit() override {
    auto admission = hub_.admit();
    if (!admission) return std::unexpected(std::move(admission.error()));
    return Place([&hub = hub_, admission = std::move(*admission)](
                     session::PeerInfo info,
                     session::Peer& peer,
                     std::move_only_function<void() const> waker,
                     StrandRole role) mutable {
      return hub.open(
          std::move(admission), std::move(info), peer, std::move(waker), std::move(role));
    });
  }

 private:
  session::Hub& hub_;
};

class Listener final : public WebSocketListener {
 public:
  explicit Listener(session::Hub& hub) : door_(hub) {}

  Result<void> listen(const WebSocketOptions& options,
                      IoPool& pool,
                      metrics::TransportMetrics& metrics) {
    auto made = ws::listen(options, pool, door_, metrics);
    if (!made) return std::unexpected(std::move(made.error()));
    inner_ = std::move(*made);
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return inner_->port(); }
  [[nodiscard]] std::size_t connections() const override { return inner_->connections(); }
  void stop() override { inner_->stop(); }

 private:
  HubDoor door_;  // before what uses it
  std::unique_ptr<WebSocketListener> inner_;
};

}  // namespace

Result<std::unique_ptr<WebSocketListener>> make_websocket_listener(
    const WebSocketOptions& options,
    IoPool& pool,
    session::Hub& hub,
    metrics::TransportMetrics& metrics) {
  auto listener = std::make_unique<Listener>(hub);
  if (auto listening = listener->listen(options, pool, metrics); !listening) {
    return std::unexpected(std::move(listening.error()));
  }
  return listener;
}

}  // namespace simbridge::transport
