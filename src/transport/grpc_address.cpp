#include "transport/grpc_address.h"

#include "transport/ws_socket.h"

#include <fmt/core.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>

namespace simbridge::transport::rpc {

Result<std::string> listen_address(const std::string& bind, std::uint16_t port) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (::inet_pton(AF_INET, bind.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, bind.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    size = sizeof v6;
  } else {
    return fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not a numeric IPv4 or IPv6 address", bind));
  }
  // A bind of our own tells what is wrong; the address is given back for gRPC to take.
  const ws::Descriptor probe(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  const int on = 1;
  if (probe.valid())
    static_cast<void>(::setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  if (!probe.valid() ||
      ::bind(probe.number(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    return fail(ErrorCode::kSystem, fmt::format("bind {} port {}: {}", bind, port, errno_text()));
  }
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", bind, port)
                                       : fmt::format("{}:{}", bind, port);
}

std::string plain_address(std::string_view uri) {
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (uri.starts_with(scheme)) uri.remove_prefix(scheme.size());
  }
  std::string address;
  for (std::size_t i = 0; i < uri.size(); ++i) {
    unsigned code = 0;
    if (uri[i] == '%' && i + 2 < uri.size() &&
        std::from_chars(uri.data() + i + 1, uri.data() + i + 3, code, 16).ptr ==
            uri.data() + i + 3) {
      address.push_back(static_cast<char>(code));
      i += 2;
    } else {
      address.push_back(uri[i]);
    }
  }
  return address;
}

}  // namespace simbridge::transport::rpc
