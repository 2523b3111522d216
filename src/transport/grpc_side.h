#pragma once
// What: the calls beside Connect: GetInfo, health, reflection, and what nobody knows. None holds a
// session.   Owner: their calls.   Threads: the call's queue.
#include "simbridge/transport/grpc_listener.h"
#include "transport/grpc_call.h"
#include "transport/grpc_roster.h"

#include <atomic>
#include <cstddef>
#include <memory>

namespace simbridge::transport::rpc {

/// What they share; outlives them.
struct Side {
  const InfoSource& info;
  std::size_t most = 0;              // at once
  std::atomic<std::size_t> open{0};  // relaxed: a bound, nothing hangs on it
};

std::unique_ptr<Logic> make_info(Side& side, Call& call);
std::unique_ptr<Logic> make_health_check(Side& side, Call& call, Roster& roster);
std::unique_ptr<Logic> make_health_watch(Side& side, Call& call, Roster& roster);
std::unique_ptr<Logic> make_reflection(Side& side, Call& call);
/// Ends at once.
std::unique_ptr<Logic> make_refusal(Call& call, Ending ending);

}  // namespace simbridge::transport::rpc
