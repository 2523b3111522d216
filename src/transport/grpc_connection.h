#pragma once
// What: Bridge.Connect: one call between gRPC and a session. Owner: its call.   Threads: the call's
// queue.
#include "simbridge/base/clock.h"
#include "simbridge/metrics/instruments.h"
#include "transport/grpc_call.h"
#include "transport/grpc_door.h"
#include "transport/grpc_outgoing.h"
#include "transport/grpc_roster.h"

#include <memory>

namespace simbridge::transport::rpc {

/// What the calls of a listener share; outlives them.
struct Surroundings {
  Door& door;
  metrics::GrpcMetrics& metrics;
  std::shared_ptr<Lent> lent;
  milliseconds close_timeout{};
};

/// A place at the door was had before.
std::unique_ptr<Logic> make_connection(const Surroundings& around,
                                       Call& call,
                                       Roster& roster,
                                       Door::Place place);

}  // namespace simbridge::transport::rpc
