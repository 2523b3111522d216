#include "servers.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <fmt/core.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <list>
#include <utility>  // before Asio: Boost 1.74 forgets it

namespace simbridge::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;

void raw_sink(int listening) {
  constexpr std::size_t kArena = 64U << 20U;
  constexpr std::size_t kRead = 256U << 10U;
  const int memory = ::memfd_create("bench", 0);
  if (::ftruncate(memory, kArena) != 0) return;
  auto* arena =
      static_cast<char*>(::mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  for (;;) {
    const int fd = ::accept(listening, nullptr, nullptr);
    if (fd < 0) return;
    std::size_t at = 0;
    for (;;) {
      const auto got = ::recv(fd, arena + at, kRead, 0);
      if (got <= 0) break;
      at = (at + kRead) % kArena;
    }
    ::close(fd);
  }
}

class BeastSession : public std::enable_shared_from_this<BeastSession> {
 public:
  explicit BeastSession(asio::ip::tcp::socket socket) : stream_(std::move(socket)) {
    stream_.read_message_max(0);
    stream_.binary(true);
  }
  void run() {
    stream_.async_accept([self = shared_from_this()](beast::error_code ec) {
      if (!ec) self->read();
    });
  }

 private:
  void read() {
    stream_.async_read(buffer_, [self = shared_from_this()](beast::error_code ec, std::size_t) {
      if (ec) return;
      self->buffer_.consume(self->buffer_.size());
      self->read();
    });
  }
  websocket::stream<asio::ip::tcp::socket, false> stream_;
  beast::flat_buffer buffer_;
};

void beast_sink(int listening) {
  asio::io_context context(1);
  asio::ip::tcp::acceptor acceptor(context);
  acceptor.assign(asio::ip::tcp::v4(), listening);
  std::function<void()> accept = [&] {
    acceptor.async_accept([&](beast::error_code ec, asio::ip::tcp::socket socket) {
      if (!ec) std::make_shared<BeastSession>(std::move(socket))->run();
      accept();
    });
  };
  accept();
  context.run();
}

void wire(int listening) {
  for (;;) {
    const int out = ::accept(listening, nullptr, nullptr);  // the reader connects first
    const int in = ::accept(listening, nullptr, nullptr);
    const int on = 1;  // or Nagle's algorithm is what is measured
    ::setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::vector<char> bytes(256U << 10U);
    for (;;) {
      const auto got = ::recv(in, bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      for (std::ptrdiff_t put = 0; put < got;) {
        const auto step =
            ::send(out, bytes.data() + put, static_cast<std::size_t>(got - put), MSG_NOSIGNAL);
        if (step <= 0) break;
        put += step;
      }
    }
    ::close(in);
    ::close(out);
  }
}

}  // namespace

std::unique_ptr<Child> start_bridge(const std::string& binary, bool grpc) {
  return Child::run({binary,
                     "serve",
                     "--set",
                     "websocket.port=0",
                     "--set",
                     "grpc.port=0",
                     "--set",
                     "admin.port=0",
                     "--set",
                     "log.level=warning",
                     "--set",
                     fmt::format("frame.budget_bytes={}", kBridgeBudget),
                     "--set",
                     "session.accept_rate=100000",
                     "--set",
                     "session.max_sessions=20000"},
                    grpc ? "grpc://127.0.0.1:" : "ws://127.0.0.1:");
}
std::unique_ptr<Child> start_raw_sink() {
  return Child::fork_server(raw_sink);
}
std::unique_ptr<Child> start_beast_sink() {
  return Child::fork_server(beast_sink);
}
std::unique_ptr<Child> start_wire() {
  return Child::fork_server(wire);
}

std::unique_ptr<Child> start_nats() {
  std::string binary;
  for (const char* path : {"/usr/sbin/nats-server", "/usr/bin/nats-server"}) {
    if (std::filesystem::exists(path)) binary = path;
  }
  if (binary.empty()) return nullptr;
  const auto config = std::filesystem::temp_directory_path() /
                      ("simbridge-bench-nats-" + std::to_string(::getpid()));
  std::ofstream(config) << "listen: 127.0.0.1:-1\nmax_payload: 8388608\nmax_pending: "
                           "1073741824\nwrite_deadline: \"60s\"\n";
  auto child =
      Child::run({binary, "-c", config.string()}, "Listening for client connections on 127.0.0.1:");
  std::filesystem::remove(config);
  return child;
}

}  // namespace simbridge::bench
