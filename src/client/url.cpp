#include "client/url.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace simbridge::client {
namespace {

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool has_space_or_control(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
}

}  // namespace

std::string Url::authority() const {
  return host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Url> parse_url(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(ErrorCode::kInvalid, fmt::format("address \"{}\": {}", text, why));
  };
  if (has_space_or_control(text)) return bad("spaces and control characters are not allowed");
  const auto colon = text.find("://");
  if (colon == std::string_view::npos)
    return bad("write it as ws://host:port, grpc://host:port or http://host:port");
  const auto scheme = text.substr(0, colon);
  Url url;
  if (scheme == "ws") {
    url.scheme = Url::Scheme::kWebSocket;
  } else if (scheme == "http") {
    url.scheme = Url::Scheme::kHttp;
  } else if (scheme == "grpc") {
    url.scheme = Url::Scheme::kGrpc;
  } else if (scheme == "ws+flat") {
    return bad(fmt::format("this version does not speak {}:// yet; use ws://", scheme));
  } else if (scheme == "wss" || scheme == "https" || scheme == "grpcs") {
    return bad("this version has no TLS; use ws://, grpc:// or http://");
  } else {
    return bad(fmt::format("unknown scheme \"{}\"; ws://, grpc:// and http:// are known", scheme));
  }

  auto rest = text.substr(colon + 3);
  const auto slash = rest.find('/');
  if (slash != std::string_view::npos) url.path = rest.substr(slash);
  auto authority = rest.substr(0, slash);
  if (authority.contains('@')) return bad("user names in it are not supported; use --token");
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto bracket = authority.find(']');
    if (bracket == std::string_view::npos) return bad("the bracket of the IPv6 address is open");
    url.host = authority.substr(1, bracket - 1);
    auto after = authority.substr(bracket + 1);
    if (!after.empty() && !after.starts_with(':')) return bad("after ] stands :port");
    if (!after.empty()) port = after.substr(1);
  } else {
    const auto port_at = authority.rfind(':');
    url.host = authority.substr(0, port_at);
    if (port_at != std::string_view::npos) port = authority.substr(port_at + 1);
    if (url.host.contains(':')) return bad("an IPv6 address stands in brackets: [::1]:8080");
  }
  if (url.host.empty()) return bad("the host is missing");
  const bool web_socket = url.scheme == Url::Scheme::kWebSocket;
  const bool grpc = url.scheme == Url::Scheme::kGrpc;
  if (port.empty()) port = web_socket ? "8080" : grpc ? "9090" : "8090";
  if (!is_port(port)) return bad("the port is a number from 1 to 65535");
  url.port = port;
  if (grpc && !url.path.empty() && url.path != "/") return bad("a grpc:// address has no path");
  if (url.path.empty() || url.path == "/") url.path = web_socket ? "/v1/connect" : "/";
  return url;
}

}  // namespace simbridge::client
