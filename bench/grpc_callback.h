#pragma once
// What: the peer of the gRPC rows: a sink on gRPC's callback API that parses each message, as its
// documentation shows it. A program of its own, because gRPC does not survive a fork.
// Owner: nobody.   Threads: serve_callback() never returns.
namespace simbridge::bench {

inline constexpr const char* kServeCallback = "--serve-grpc-callback";
void serve_callback();

}  // namespace simbridge::bench
