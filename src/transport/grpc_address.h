#pragma once
// What: where a gRPC server listens, and why it cannot: gRPC itself does not say. Owner: nobody,
// functions.   Threads: any.
#include "simbridge/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace simbridge::transport::rpc {

/// "127.0.0.1:9090", "[::1]:9090". An error where bind is not numeric, or the kernel refuses it.
[[nodiscard]] Result<std::string> listen_address(const std::string& bind, std::uint16_t port);

/// A peer as gRPC names it, as people do: "ipv6:%5B::1%5D:50412" is "[::1]:50412".
[[nodiscard]] std::string plain_address(std::string_view uri);

}  // namespace simbridge::transport::rpc
