#pragma once
// What: the server of the gRPC road: its queues, who answers which method, its size, its end.
// Owner: the listener, or a test with a door of its own.   Threads: any; the destructor not from
// its own.
#include "simbridge/base/result.h"
#include "simbridge/transport/grpc_listener.h"
#include "transport/grpc_door.h"

#include <memory>

namespace simbridge::transport::rpc {

/// door outlives the listener. pollers: as resize() takes them.
Result<std::unique_ptr<GrpcListener>> listen(const GrpcOptions& options,
                                             unsigned pollers,
                                             Door& door,
                                             InfoSource info,
                                             metrics::GrpcMetrics& metrics);

}  // namespace simbridge::transport::rpc
