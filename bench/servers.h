#pragma once
// What: the servers that are measured: the bridge, and its peers.   Owner: a benchmark.   Threads:
// one.
#include "process.h"

#include <memory>
#include <string>

namespace simbridge::bench {

/// Of the bridge that is measured. Once that much has passed, memory is used again and no longer
/// asked for.
inline constexpr std::size_t kBridgeBudget = std::size_t{256} << 20U;
/// Its port is that of the WebSocket listener, or of gRPC's.
std::unique_ptr<Child> start_bridge(const std::string& binary, bool grpc = false);
/// Reads 256 KiB at a time into a cycling 64 MiB memfd mapping: the physical limit of ingest.
std::unique_ptr<Child> start_raw_sink();
/// Boost.Beast's stream with async_read and a flat_buffer.
std::unique_ptr<Child> start_beast_sink();
/// Copies bytes from each connection to the one that came after it: the wire with one hop in
/// between.
std::unique_ptr<Child> start_wire();
/// nullptr where nats-server is not installed.
std::unique_ptr<Child> start_nats();

}  // namespace simbridge::bench
