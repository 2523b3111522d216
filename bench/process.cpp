#include "process.h"

#include "simbridge/v1/bridge.pb.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace simbridge::bench {
namespace {

constexpr char kKey = 0x5a;

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

int listen_on_loopback(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd, 128) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    give_up("listen");
  }
  port = ntohs(address.sin_port);
  return fd;
}

void varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void append_ws_head(std::string& out, std::size_t payload) {
  out.push_back(static_cast<char>(0x82));
  if (payload < 126) {
    out.push_back(static_cast<char>(0x80 | payload));
  } else if (payload < 65536) {
    out.push_back(static_cast<char>(0x80 | 126));
    out.push_back(static_cast<char>(payload >> 8));
    out.push_back(static_cast<char>(payload));
  } else {
    out.push_back(static_cast<char>(0x80 | 127));
    for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(payload >> shift));
  }
  out.append(4, kKey);
}

void send_message(const Socket& socket, const v1::ClientMessage& message) {
  const std::string bytes = message.SerializeAsString();
  socket.write_all(masked_frame(bytes));
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::unique_ptr<Child> Child::fork_server(const std::function<void(int)>& serve) {
  std::uint16_t port = 0;
  const int listening = listen_on_loopback(port);
  (void)std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(listening);
    ::_exit(0);
  }
  ::close(listening);
  return std::unique_ptr<Child>(new Child(pid, port, -1));
}

std::unique_ptr<Child> Child::run(const std::vector<std::string>& command, const std::string& key) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) give_up("pipe");
  const pid_t pid = ::fork();
  if (pid < 0) give_up("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], 1);
    ::dup2(ends[1], 2);
    std::vector<char*> arguments;
    for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  std::uint16_t port = 0;
  const double until = now_seconds() + 10;
  while (now_seconds() < until) {
    pollfd poller{ends[0], POLLIN, 0};
    std::array<char, 4096> some{};
    if (::poll(&poller, 1, 200) <= 0) continue;
    const auto got = ::read(ends[0], some.data(), some.size());
    if (got <= 0) break;
    text.append(some.data(), static_cast<std::size_t>(got));
    const auto found = text.find(key);
    if (found == std::string::npos || text.find('\n', found) == std::string::npos) continue;
    port = static_cast<std::uint16_t>(std::strtoul(text.c_str() + found + key.size(), nullptr, 10));
    break;
  }
  auto child = std::unique_ptr<Child>(new Child(pid, port, ends[0]));
  if (text.find(key) == std::string::npos)
    throw std::runtime_error(command[0] + " did not start: " + text);
  // What it still prints must not fill the pipe.
  ::fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
  return child;
}

Child::~Child() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  if (pipe_ >= 0) ::close(pipe_);
}

double Child::cpu_seconds() const {
  double sum = 0;
  std::error_code ignored;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", ignored)) {
    double ns = 0;
    std::ifstream(task.path() / "schedstat") >> ns;
    sum += ns;
  }
  return sum * 1e-9;
}

double Child::rss_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

Socket::Socket(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    give_up("connect");
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

void Socket::write_all(std::span<const char> bytes) const {
  while (!bytes.empty()) {
    const auto put = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put <= 0) give_up("send");
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

std::ptrdiff_t Socket::read_some(std::span<char> bytes, int wait_ms) const {
  pollfd poller{fd_, POLLIN, 0};
  if (::poll(&poller, 1, wait_ms) <= 0) return -1;
  return ::recv(fd_, bytes.data(), bytes.size(), 0);
}

std::string masked_data(std::size_t bytes) {
  std::string data(bytes, '\0');
  std::uint32_t state = 1;
  for (auto& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>((state >> 24) ^ static_cast<std::uint32_t>(kKey));
  }
  return data;
}

std::string masked_frame(std::span<const char> payload) {
  std::string out;
  append_ws_head(out, payload.size());
  for (const char byte : payload) out.push_back(static_cast<char>(byte ^ kKey));
  return out;
}

void append_frame(std::string& out, std::uint64_t sequence, std::string_view data) {
  thread_local std::string head, opaque, inner;
  opaque.assign("\xa2\x06", 2);
  varint(opaque, data.size());
  inner.assign("\x08\x01\x18", 3);
  varint(inner, sequence);
  inner.append("\xb2\x06", 2);
  varint(inner, opaque.size() + data.size());
  head.assign(1, '\x7a');
  varint(head, inner.size() + opaque.size() + data.size());
  head += inner;
  head += opaque;
  append_ws_head(out, head.size() + data.size());
  for (const char byte : head) out.push_back(static_cast<char>(byte ^ kKey));
  out += data;
}

void upgrade(const Socket& socket, const std::string& path_protocol) {
  socket.write_all("GET " + path_protocol.substr(0, path_protocol.find(' ')) +
                   " HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" +
                   (path_protocol.find(' ') == std::string::npos
                        ? std::string()
                        : "Sec-WebSocket-Protocol: " +
                              path_protocol.substr(path_protocol.find(' ') + 1) + "\r\n") +
                   "\r\n");
  std::string answer;
  std::array<char, 1> one{};
  while (answer.find("\r\n\r\n") == std::string::npos) {
    if (socket.read_some(one, 5000) <= 0) throw std::runtime_error("no upgrade: " + answer);
    answer.push_back(one[0]);
  }
  if (answer.find(" 101 ") == std::string::npos) throw std::runtime_error("refused: " + answer);
}

Socket open_session(std::uint16_t port) {
  Socket socket(port);
  upgrade(socket, "/v1/connect simbridge.v1");
  v1::ClientMessage hello;
  hello.mutable_hello()->set_name("bench");
  send_message(socket, hello);
  return socket;
}

void advertise(const Socket& socket, bool backpressure) {
  v1::ClientMessage message;
  message.mutable_advertise()->set_channel(1);
  message.mutable_advertise()->set_name("bench");
  message.mutable_advertise()->set_policy(backpressure ? v1::POLICY_BACKPRESSURE
                                                       : v1::POLICY_DROP_OLDEST);
  send_message(socket, message);
}

void subscribe(const Socket& socket, bool reliable) {
  v1::ClientMessage message;
  message.mutable_subscribe()->set_id(1);
  message.mutable_subscribe()->set_channel("bench");
  message.mutable_subscribe()->set_reliable(reliable);
  message.mutable_subscribe()->set_queue_frames(4096);
  message.mutable_subscribe()->set_queue_bytes(1ULL << 30);
  send_message(socket, message);
}

}  // namespace simbridge::bench
