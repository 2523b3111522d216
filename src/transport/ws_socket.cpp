#include "transport/ws_socket.h"

#include <fmt/core.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

namespace simbridge::transport::ws {
namespace {

constexpr int kNotSentLowat = 256 << 10;

void set_int(int descriptor, int level, int option, int value) {
  // May fail on a connection that is gone already; the next read tells.
  static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
}

Transfer outcome(ssize_t moved) {
  if (moved > 0) return {Transfer::State::kMoved, static_cast<std::size_t>(moved)};
  if (moved == 0) return {Transfer::State::kEnd, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK) return {Transfer::State::kWouldBlock, 0};
  return {Transfer::State::kBroken, 0};
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int Descriptor::release() {
  return std::exchange(number_, -1);
}

Transfer read_into(int descriptor, std::span<const iovec> buffers) {
  ssize_t moved = 0;
  do {
    moved = ::readv(descriptor, buffers.data(), static_cast<int>(buffers.size()));
  } while (moved < 0 && errno == EINTR);
  return outcome(moved);
}

Transfer write_from(int descriptor, std::span<const iovec> buffers) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(buffers.data());  // sendmsg() only reads it
  message.msg_iovlen = buffers.size();
  ssize_t moved = 0;
  do {
    moved = ::sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (moved < 0 && errno == EINTR);
  return outcome(moved);
}

void set_options(int descriptor, milliseconds ping_interval) {
  set_int(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_int(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kNotSentLowat);
  // Twice the three intervals after which we give up ourselves: the kernel counts a peer that reads
  // nothing as silent too, and ours is the rule that any byte received is life.
  const auto timeout = std::min<milliseconds::rep>(6 * ping_interval.count(), 3'600'000);
  set_int(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout));
}

void set_socket_bytes(int descriptor, std::uint64_t bytes_each_way) {
  const auto bytes = static_cast<int>(
      std::min<std::uint64_t>(bytes_each_way, std::numeric_limits<int>::max() / 2));
  if (bytes == 0) return;
  set_int(descriptor, SOL_SOCKET, SO_SNDBUF, bytes);
  set_int(descriptor, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes);
}

void set_reset(int descriptor) {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &hard, sizeof hard));
}

void send_no_more(int descriptor) {
  static_cast<void>(::shutdown(descriptor, SHUT_WR));
}

std::string peer_address(int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "gone";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(address.sin6_port));
  }
  const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(address.sin_port));
}

}  // namespace simbridge::transport::ws
