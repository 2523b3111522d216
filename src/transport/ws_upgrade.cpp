#include "transport/ws_upgrade.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/detail/base64.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/websocket/detail/hybi13.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace simbridge::transport::ws {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using metrics::HandshakeCause;

constexpr std::size_t kKeyChars = 24;  // base64 of 16 bytes
constexpr std::size_t kKeyBytes = 16;

bool is_key(std::string_view key) {
  if (key.size() != kKeyChars) return false;
  std::array<unsigned char, kKeyChars> out{};
  const auto [written, read] = beast::detail::base64::decode(out.data(), key.data(), key.size());
  // decode() stops at the first '=': 22 characters stand for 16 bytes.
  return written == kKeyBytes && read >= kKeyChars - 2 && key.ends_with("==");
}

// One field may come several times, each with a list; first to last (RFC 6455 11.3.4).
template <typename Fields, typename Visit>
void each_token(const Fields& fields, http::field name, Visit visit) {
  const auto [begin, end] = fields.equal_range(name);
  for (auto it = begin; it != end; ++it) {
    for (const auto& token : http::token_list(it->value())) {
      if (!visit(std::string_view(token.data(), token.size()))) return;
    }
  }
}

template <typename Fields>
bool has_token(const Fields& fields, http::field name, std::string_view wanted) {
  bool found = false;
  each_token(fields, name, [&](std::string_view token) {
    found = beast::iequals(token, wanted);
    return !found;
  });
  return found;
}

std::string_view reason_of(unsigned status) {
  const auto reason = http::obsolete_reason(http::int_to_status(status));
  return {reason.data(), reason.size()};
}

}  // namespace

struct UpgradeReader::Parser {
  http::request_parser<http::empty_body> request;
};

std::string http_response(const HttpRefusal& refusal) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nServer: simbridge\r\n{}{}Content-Type: text/plain; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}\n",
      refusal.status,
      reason_of(refusal.status),
      refusal.field.value_or(""),
      refusal.field ? "\r\n" : "",
      refusal.text.size() + 1,
      refusal.text);
}

UpgradeReader::UpgradeReader(const UpgradeRules& rules)
    : rules_(rules), chosen_{{}, session::Encoding::kFlat}, parser_(std::make_unique<Parser>()) {
  parser_->request.header_limit(kMaxRequestBytes);
}
UpgradeReader::~UpgradeReader() = default;

UpgradeReader::State UpgradeReader::refuse(HttpRefusal refusal) {
  refusal_ = std::move(refusal);
  parser_.reset();
  return State::kRefused;
}

UpgradeReader::State UpgradeReader::feed(std::span<const std::byte> bytes) {
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  fed_ += bytes.size();
  beast::error_code ec;
  while (!bytes_.empty() && !parser_->request.is_header_done()) {
    const std::size_t used = parser_->request.put(boost::asio::buffer(bytes_), ec);
    bytes_.erase(0, used);
    if (ec || used == 0) break;
  }
  if (ec == http::error::need_more) ec = {};
  if (ec == http::error::header_limit ||
      (!parser_->request.is_header_done() && fed_ > kMaxRequestBytes)) {
    return refuse({.status = 431,
                   .text = fmt::format("The request is longer than {} bytes.", kMaxRequestBytes),
                   .cause = HandshakeCause::kTooLarge});
  }
  if (ec) {
    return refuse({.text = "This is not an HTTP request: " + ec.message() + ".",
                   .cause = HandshakeCause::kMalformed});
  }
  return parser_->request.is_header_done() ? judge() : State::kMore;
}

UpgradeReader::State UpgradeReader::judge() {
  const auto& parser = parser_->request;
  const auto& request = parser.get();
  const auto target = request.target().substr(0, request.target().find('?'));
  if (!rules_.path.empty() && target != rules_.path) {
    return refuse(
        {.status = 404,
         .text = fmt::format("There is nothing here; WebSocket peers connect to {}.", rules_.path),
         .cause = HandshakeCause::kPath});
  }
  if (request.method() != http::verb::get || request.version() < 11 ||
      !has_token(request, http::field::upgrade, "websocket") ||
      !has_token(request, http::field::connection, "upgrade")) {
    return refuse({.status = 426,
                   .text = "This address speaks WebSocket only (RFC 6455).",
                   .field = "Upgrade: websocket",
                   .cause = HandshakeCause::kNotUpgrade});
  }
  if (request[http::field::sec_websocket_version] != "13") {
    return refuse({.status = 426,
                   .text = "Sec-WebSocket-Version is not 13.",
                   .field = "Sec-WebSocket-Version: 13",
                   .cause = HandshakeCause::kVersion});
  }
  const auto key = request[http::field::sec_websocket_key];
  if (!is_key({key.data(), key.size()}) || request.count(http::field::sec_websocket_key) != 1) {
    return refuse({.text = "Sec-WebSocket-Key is not the base64 form of 16 bytes.",
                   .cause = HandshakeCause::kMalformed});
  }
  if (request.count(http::field::host) != 1 || parser.chunked() ||
      parser.content_length().value_or(0) != 0) {
    return refuse({.text = "An upgrade has one Host field and no body.",
                   .cause = HandshakeCause::kMalformed});
  }
  bool known = rules_.subprotocols.empty();
  each_token(request, http::field::sec_websocket_protocol, [&](std::string_view name) {
    for (const auto& subprotocol : rules_.subprotocols) {
      if (known || subprotocol.name != name) continue;
      known = true;
      chosen_ = subprotocol;
    }
    return !known;
  });
  if (!known) {
    std::string names;
    for (const auto& subprotocol : rules_.subprotocols)
      names.append(names.empty() ? "" : " or ").append(subprotocol.name);
    return refuse({.text = fmt::format("None of the offered subprotocols is known; offer {} in "
                                       "Sec-WebSocket-Protocol.",
                                       names),
                   .cause = HandshakeCause::kSubprotocol});
  }
  key_.assign(key.data(), key.size());
  parser_.reset();
  return State::kAsked;
}

// Beast has no public function for the answer alone; this is the one its own stream uses.
std::string UpgradeReader::acceptance() const {
  beast::websocket::detail::sec_ws_accept_type accept;
  beast::websocket::detail::make_sec_ws_accept(accept,
                                               beast::string_view(key_.data(), key_.size()));
  return fmt::format(
      "HTTP/1.1 101 Switching Protocols\r\nServer: simbridge\r\nUpgrade: websocket\r\n"
      "Connection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n{}{}{}\r\n",
      std::string_view(accept.data(), accept.size()),
      chosen_.name.empty() ? "" : "Sec-WebSocket-Protocol: ",
      chosen_.name,
      chosen_.name.empty() ? "" : "\r\n");
}

std::span<const std::byte> UpgradeReader::rest() const {
  return std::as_bytes(std::span(bytes_));
}

}  // namespace simbridge::transport::ws
