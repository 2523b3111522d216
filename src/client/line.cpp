#include "client/line.h"

#include "client/grpc_line.h"
#include "client/web_socket.h"

#include <utility>

namespace simbridge::client {

std::expected<std::unique_ptr<Line>, ConnectFailure> Line::connect(const Url& url,
                                                                   const LineOptions& options) {
  if (url.scheme == Url::Scheme::kGrpc) return connect_grpc(url, options);
  auto socket = WebSocket::connect(url, options);
  if (!socket) return std::unexpected(std::move(socket.error()));
  return std::move(*socket);
}

}  // namespace simbridge::client
