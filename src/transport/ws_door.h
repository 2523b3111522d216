#pragma once
// What: how a connection comes to its session; the hub in the daemon, something smaller in tests.
// Owner: whoever makes the listener; outlives it.   Threads: any.
#include "simbridge/session/hub.h"
#include "simbridge/session/peer.h"
#include "simbridge/session/session.h"
#include "transport/ws_upgrade.h"

#include <expected>
#include <functional>
#include <memory>

namespace simbridge::transport::ws {

class Door {
 public:
  /// A place that was granted: opens the session once. Destroyed unused, it gives the place back.
  using Place = std::move_only_function<std::shared_ptr<session::Session>(
      session::PeerInfo info,
      session::Peer& peer,
      std::move_only_function<void() const> waker,
      StrandRole role)>;

  virtual ~Door() = default;
  /// What a peer must ask for.
  [[nodiscard]] virtual UpgradeRules rules() const { return {}; }
  [[nodiscard]] virtual std::expected<Place, session::Refusal> admit() = 0;

 protected:
  Door() = default;
  Door(const Door&) = default;
  Door& operator=(const Door&) = default;
};

}  // namespace simbridge::transport::ws
