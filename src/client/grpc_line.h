#pragma once
// What: Bridge.Connect as a peer has it, on gRPC's generic client. Owner, threads: as Line.
#include "client/line.h"

#include <expected>
#include <memory>

namespace simbridge::client {

std::expected<std::unique_ptr<Line>, ConnectFailure> connect_grpc(const Url& url,
                                                                  const LineOptions& options);

}  // namespace simbridge::client
