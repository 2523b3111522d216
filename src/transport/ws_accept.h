#pragma once
// What: the listening socket of the WebSocket road: accepts, starts handshakes, survives a full
// descriptor table. Owner: the listener, or a test with a door of its own.   Threads: any; the
// destructor not from the pool's threads.
#include "simbridge/base/result.h"
#include "simbridge/transport/websocket_listener.h"
#include "transport/ws_door.h"

#include <memory>

namespace simbridge::transport::ws {

/// door outlives the listener.
Result<std::unique_ptr<WebSocketListener>> listen(const WebSocketOptions& options,
                                                  IoPool& pool,
                                                  Door& door,
                                                  metrics::TransportMetrics& metrics);

}  // namespace simbridge::transport::ws
