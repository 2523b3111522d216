#pragma once
// What: a TCP peer whose every byte the test writes, with deadlines on what it waits for.
// Owner: a test.   Threads: one.
#include "transport/ws_peer.h"

#include <fmt/core.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace simbridge::test {

inline std::string upgrade_request(
    std::string_view path = "/v1/connect",
    std::string_view fields = "Sec-WebSocket-Protocol: simbridge.v1\r\n",
    std::string_view version = "13") {
  return fmt::format(
      "GET {} HTTP/1.1\r\nHost: bridge\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: {}\r\n{}\r\n",
      path,
      version,
      fields);
}

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_bytes = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes != 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// The kernel sends RST, as when the process was killed with data unread.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }

  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  enum class End { kOpen, kEnd, kReset };
  /// Some bytes; empty at the deadline or the end.
  std::string read_some(std::chrono::milliseconds most = std::chrono::seconds(10)) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(most.count())) <= 0) return {};
    std::array<char, 65536> bytes{};
    const auto n = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (n == 0) end = End::kEnd;
    if (n < 0 && errno == ECONNRESET) end = End::kReset;
    return n > 0 ? std::string(bytes.data(), static_cast<std::size_t>(n)) : std::string();
  }
  /// Up to and with the text; what came behind it stays for the next call.
  std::string read_until(std::string_view text) {
    for (;;) {
      if (const auto at = unread_.find(text); at != std::string::npos) {
        std::string result = unread_.substr(0, at + text.size());
        unread_.erase(0, result.size());
        return result;
      }
      const std::string more = read_some();
      if (more.empty()) return std::exchange(unread_, {});
      unread_ += more;
    }
  }
  /// Everything until the peer ends the connection, or nothing came for so long.
  std::string read_to_end(std::chrono::milliseconds most = std::chrono::seconds(10)) {
    std::string all = std::exchange(unread_, {});
    for (;;) {
      const std::string more = read_some(most);
      if (more.empty()) return all;
      all += more;
    }
  }
  /// At least so many bytes.
  std::string read_bytes(std::size_t count) {
    while (unread_.size() < count) {
      const std::string more = read_some();
      if (more.empty()) break;
      unread_ += more;
    }
    std::string result = unread_.substr(0, std::min(count, unread_.size()));
    unread_.erase(0, result.size());
    return result;
  }

  /// Upgrades as a good peer does; the head of the answer.
  std::string upgrade() {
    send(upgrade_request());
    return read_until("\r\n\r\n");
  }

  End end = End::kOpen;

 private:
  int socket_;
  bool connected_ = false;
  std::string unread_;
};

inline std::string binary(std::string payload) {
  return bytes_of({.payload = std::move(payload)});
}

}  // namespace simbridge::test
