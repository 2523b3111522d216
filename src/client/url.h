#pragma once
// What: the addresses that the commands take: ws:// and grpc:// for the protocol, http:// for the
// admin side. Owner: nobody, values.   Threads: any.
#include "simbridge/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace simbridge::client {

struct Url {
  enum class Scheme { kWebSocket, kGrpc, kHttp };
  Scheme scheme = Scheme::kWebSocket;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string path;  // begins with '/'; "/v1/connect" where a ws:// address names none

  /// One that sessions go to.
  [[nodiscard]] bool is_bridge() const { return scheme != Scheme::kHttp; }

  /// As a Host header wants it.
  [[nodiscard]] std::string authority() const;
};

/// A sentence in the error says what is wrong and what is allowed.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

}  // namespace simbridge::client
