// The server over real sockets, spoken to by bytes written by hand.
#include "simbridge/admin/server.h"

#include "admin/snapshots.h"
#include "simbridge/metrics/instruments.h"

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace simbridge::admin {
namespace {

using std::chrono::steady_clock;

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    REQUIRE(fd_ >= 0);
    if (receive_buffer > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Client& operator=(Client&&) = delete;
  ~Client() {
    if (fd_ >= 0) close(fd_);
  }

  void send(std::string_view bytes) const {
    CHECK(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0);
  }

  /// Everything until the end of the connection, or of patience.
  [[nodiscard]] std::string read_all() const {
    std::string all;
    char buffer[4096];
    while (readable()) {
      const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(n));
    }
    return all + "<still open>";
  }
  /// Until the text has come.
  [[nodiscard]] std::string read_until(std::string_view text) const {
    std::string all;
    char c = 0;
    while (all.find(text) == std::string::npos && readable() && recv(fd_, &c, 1, 0) == 1) all += c;
    return all;
  }

 private:
  [[nodiscard]] bool readable() const {
    pollfd one{fd_, POLLIN, 0};
    return poll(&one, 1, 10'000) == 1;
  }
  int fd_;
};

struct Fixture {
  explicit Fixture(ServerOptions options = {}, Snapshots snapshots = example_snapshots())
      : metrics(registry) {
    auto started = Server::start(std::move(options), std::move(snapshots), metrics);
    REQUIRE(started);
    server = *std::move(started);
  }
  [[nodiscard]] std::string get(const std::string& path) const {
    const Client client(server->port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return client.read_all();
  }
  metrics::Registry registry;
  metrics::AdminMetrics metrics;
  std::unique_ptr<Server> server;
};

template <typename Condition>
bool soon(Condition&& condition) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("a page comes with its type and length, and the port is told", "[admin][server]") {
  const Fixture f;
  REQUIRE(f.server->port() != 0);
  const std::string answer = f.get("/healthz");
  CHECK_THAT(answer,
             Catch::StartsWith("HTTP/1.1 200 OK\r\n") &&
                 Catch::Contains("Content-Type: text/plain; charset=utf-8\r\n") &&
                 Catch::Contains("Content-Length: 3\r\n") &&
                 Catch::Contains("Cache-Control: no-store\r\n") && Catch::EndsWith("\r\n\r\nok\n"));
  CHECK_THAT(f.get("/metrics"),
             Catch::Contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  CHECK_THAT(f.get("/api/v1/limits"), Catch::Contains("Content-Type: application/json\r\n"));
  CHECK_THAT(f.get("/nothing"), Catch::StartsWith("HTTP/1.1 404 Not Found\r\n"));
  CHECK(f.metrics.requests[metrics::StatusClass::k2xx].value() == 3);
  CHECK(f.metrics.requests[metrics::StatusClass::k4xx].value() == 1);
}

TEST_CASE("HEAD has the length of the page and no body, POST is not allowed", "[admin][server]") {
  const Fixture f;
  const Client head(f.server->port());
  head.send("HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK_THAT(head.read_all(),
             Catch::Contains("Content-Length: 3\r\n") && Catch::EndsWith("\r\n\r\n"));
  const Client post(f.server->port());
  post.send(
      "POST /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
  CHECK_THAT(post.read_all(),
             Catch::StartsWith("HTTP/1.1 405 ") && Catch::Contains("Allow: GET, HEAD\r\n"));
}

TEST_CASE("one connection carries many requests, also sent at once", "[admin][server]") {
  const Fixture f;
  const Client client(f.server->port());
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(request + request);
  CHECK_THAT(client.read_until("ok\n"), Catch::EndsWith("ok\n"));
  CHECK_THAT(client.read_until("ok\n"), Catch::EndsWith("ok\n"));
  client.send("GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK_THAT(client.read_all(), Catch::EndsWith("ready\n"));
}

TEST_CASE("headers and bodies above their limits, and what is no HTTP, are refused and counted",
          "[admin][server]") {
  using metrics::AdminRefusal;
  const Fixture f;
  const Client header(f.server->port());
  header.send("GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + std::string(9000, 'x') + "\r\n\r\n");
  CHECK_THAT(header.read_all(), Catch::StartsWith("HTTP/1.1 431 "));
  const Client body(f.server->port());
  body.send("POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n");
  CHECK_THAT(body.read_all(), Catch::StartsWith("HTTP/1.1 413 "));
  const Client chunked(f.server->port());
  chunked.send("POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" +
               std::string(0x20000, 'y'));
  CHECK_THAT(chunked.read_all(), Catch::StartsWith("HTTP/1.1 413 "));
  CHECK(f.metrics.refused[AdminRefusal::kTooLarge].value() == 3);
  const Client garbage(f.server->port());
  garbage.send("\x16\x03\x01\x02garbage\r\n\r\n");
  CHECK_THAT(garbage.read_all(), Catch::StartsWith("HTTP/1.1 400 "));
  CHECK(f.metrics.refused[AdminRefusal::kMalformed].value() == 1);
  CHECK_THAT(f.get("/healthz"), Catch::EndsWith("ok\n"));
}

TEST_CASE("a client that sends its request byte by byte is ended, others are served meanwhile",
          "[admin][server]") {
  const Fixture f({.timeout = milliseconds(300)});
  const Client slow(f.server->port());
  slow.send("GET /hea");
  CHECK_THAT(f.get("/healthz"), Catch::EndsWith("ok\n"));
  CHECK(slow.read_all().empty());  // closed, no answer
  CHECK(soon([&] { return f.metrics.refused[metrics::AdminRefusal::kTimeout].value() == 1; }));
  CHECK(soon([&] { return f.metrics.connections.value() == 0; }));
}

TEST_CASE("a client that does not read its answer is ended, others are served meanwhile",
          "[admin][server]") {
  Snapshots snapshots = example_snapshots();
  snapshots.metrics = [] {
    return std::string(std::size_t{32} << 20U, 'm');
  };
  const Fixture f({.timeout = milliseconds(300)}, std::move(snapshots));
  const Client slow(f.server->port(), 4096);
  slow.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK_THAT(f.get("/healthz"), Catch::EndsWith("ok\n"));
  CHECK(soon([&] { return f.metrics.refused[metrics::AdminRefusal::kTimeout].value() == 1; }));
  CHECK(soon([&] { return f.metrics.connections.value() == 0; }));
}

TEST_CASE("the connection above the limit is told to come back, and there is room again after",
          "[admin][server]") {
  const Fixture f({.max_connections = 2});
  std::vector<Client> held;
  for (int i = 0; i < 2; ++i) {
    held.emplace_back(f.server->port());
    held.back().send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK_THAT(held.back().read_until("ok\n"), Catch::EndsWith("ok\n"));
  }
  CHECK_THAT(f.get("/healthz"),
             Catch::StartsWith("HTTP/1.1 503 ") && Catch::EndsWith("too many connections\n"));
  CHECK(f.metrics.refused[metrics::AdminRefusal::kConnections].value() == 1);
  held.clear();
  CHECK(soon([&] { return f.metrics.connections.value() == 0; }));
  CHECK_THAT(f.get("/healthz"), Catch::EndsWith("ok\n"));
}

TEST_CASE("a port that is taken is said with address and reason", "[admin][server]") {
  const Fixture f;
  metrics::AdminMetrics& metrics = const_cast<metrics::AdminMetrics&>(f.metrics);
  const auto second = Server::start({.port = f.server->port()}, example_snapshots(), metrics);
  REQUIRE_FALSE(second);
  CHECK_THAT(second.error().detail,
             Catch::Contains("127.0.0.1 port " + std::to_string(f.server->port()) +
                             ": Address already in use"));
}

TEST_CASE("the server stops with clients connected, idle and half-way", "[admin][server]") {
  auto f = std::make_unique<Fixture>();
  const Client idle(f->server->port());
  idle.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK_THAT(idle.read_until("ok\n"), Catch::EndsWith("ok\n"));
  const Client half(f->server->port());
  half.send("GET /");
  REQUIRE(soon([&] { return f->metrics.connections.value() == 2; }));
  f->server.reset();
  CHECK(f->metrics.connections.value() == 0);
  CHECK(idle.read_all().empty());
}

}  // namespace
}  // namespace simbridge::admin
