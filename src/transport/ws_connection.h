#pragma once
// What: one upgraded connection: its socket, timers and strand, between the codec and a session.
// Owner: keeps itself alive while the socket lives; the registry knows it. Threads: start, any.
#include "simbridge/base/clock.h"
#include "simbridge/metrics/instruments.h"
#include "transport/ws_door.h"
#include "transport/ws_registry.h"
#include "transport/ws_socket.h"

#include <cstddef>
#include <memory>
#include <span>

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming): Asio's name
}

namespace simbridge::transport::ws {

/// What handshakes and connections of a listener share; outlives them.
struct Surroundings {
  boost::asio::io_context& context;
  Door& door;
  metrics::TransportMetrics& metrics;
  std::shared_ptr<Registry> registry;
  milliseconds handshake_timeout{};
  milliseconds ping_interval{};
  milliseconds close_timeout{};
};

/// Reads the upgrade, answers it, and makes a connection of it or none.
void start_handshake(const Surroundings& around, Descriptor socket);

/// first: what came behind the upgrade.
void start_connection(const Surroundings& around,
                      Descriptor socket,
                      Door::Place place,
                      session::Encoding encoding,
                      std::span<const std::byte> first);

}  // namespace simbridge::transport::ws
