#include "simbridge/transport/grpc_listener.h"

#include "simbridge/session/hub.h"
#include "simbridge/transport/io_pool.h"
#include "transport/grpc_door.h"
#include "transport/grpc_server.h"

#include <utility>

namespace simbridge::transport {
namespace {

class HubDoor final : public rpc::Door {
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

class Listener final : public GrpcListener, private IoPool::Follower {
 public:
  Listener(IoPool& pool, session::Hub& hub) : pool_(pool), door_(hub) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() override { stop(); }

  Result<void> listen(const GrpcOptions& options, InfoSource info, metrics::GrpcMetrics& metrics) {
    auto made = rpc::listen(options, pool_.threads(), door_, std::move(info), metrics);
    if (!made) return std::unexpected(std::move(made.error()));
    inner_ = std::move(*made);
    pool_.attach(*this);
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return inner_->port(); }
  [[nodiscard]] std::size_t streams() const override { return inner_->streams(); }
  [[nodiscard]] unsigned queues() const override { return inner_->queues(); }
  [[nodiscard]] unsigned pollers() const override { return inner_->pollers(); }
  void resize(unsigned pollers) override { inner_->resize(pollers); }
  void drain() override { inner_->drain(); }
  void stop() override {
    pool_.detach(*this);
    if (inner_) inner_->stop();
  }

 private:
  IoPool& pool_;
  HubDoor door_;  // before what uses it
  std::unique_ptr<GrpcListener> inner_;
};

}  // namespace

Result<std::unique_ptr<GrpcListener>> make_grpc_listener(const GrpcOptions& options,
                                                         IoPool& pool,
                                                         session::Hub& hub,
                                                         InfoSource info,
                                                         metrics::GrpcMetrics& metrics) {
  auto listener = std::make_unique<Listener>(pool, hub);
  if (auto listening = listener->listen(options, std::move(info), metrics); !listening)
    return std::unexpected(std::move(listening.error()));
  return listener;
}

}  // namespace simbridge::transport
