#include "simbridge/admin/server.h"

#include "admin/routes.h"
#include "simbridge/base/log.h"
#include "simbridge/metrics/instruments.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

namespace simbridge::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

/// What a connection needs of its server; the server outlives every handler that runs.
struct Shared {
  ServerOptions options;
  Snapshots snapshots;
  metrics::AdminMetrics& metrics;
};

metrics::StatusClass class_of(int status) {
  if (status < 400) return metrics::StatusClass::k2xx;
  return status < 500 ? metrics::StatusClass::k4xx : metrics::StatusClass::k5xx;
}

/// One client: reads a request, answers it, and again. Lives by the handlers that are under way.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Shared& shared, std::function<void(Connection*)> gone)
      : stream_(std::move(socket)), shared_(shared), gone_(std::move(gone)) {
    shared_.metrics.connections.add(1);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    shared_.metrics.connections.add(-1);
    gone_(this);
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.max_header_bytes));
    parser_->body_limit(shared_.options.max_body_bytes);
    stream_.expires_after(shared_.options.timeout);
    http::async_read(
        stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
          self->on_read(error);
        });
  }

  void close() {
    error_code ignored;
    stream_.socket().close(ignored);  // pending handlers come back with an error and let go
  }

 private:
  void on_read(error_code error) {
    using metrics::AdminRefusal;
    if (error == http::error::header_limit) {
      refuse(AdminRefusal::kTooLarge, 431, "the request's headers are too large\n");
    } else if (error == http::error::body_limit) {
      refuse(AdminRefusal::kTooLarge, 413, "the request's body is too large\n");
    } else if (error == beast::error::timeout) {
      // Between two requests this is the everyday end of a keep-alive connection. The stream has
      // closed the socket with the time-out, so nothing more can be said.
      // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it was reading
      if (parser_->got_some() || !answered_) shared_.metrics.refused[AdminRefusal::kTimeout].add();
    } else if (error &&
               error.category() == http::make_error_code(http::error::end_of_stream).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      refuse(AdminRefusal::kMalformed,
             400,
             fmt::format("not an HTTP/1.1 request: {}\n", error.message()));
    } else if (error) {
      close();  // gone, or done
    } else {
      respond();
    }
  }

  void respond() {
    const auto start = std::chrono::steady_clock::now();
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has just read a request
    const http::request<http::string_body>& request = parser_->get();
    Answer made = answer(request.method_string(), request.target(), shared_.snapshots);
    shared_.metrics.request_time.observe(std::chrono::steady_clock::now() - start);
    write(std::move(made), request.keep_alive(), request.method() == http::verb::head);
  }

  void refuse(metrics::AdminRefusal cause, int status, std::string why) {
    shared_.metrics.refused[cause].add();
    write({.status = status, .type = kText, .body = std::move(why)}, false, false);
  }

  void write(Answer made, bool keep_alive, bool head_only) {
    shared_.metrics.requests[class_of(made.status)].add();
    response_.emplace();
    response_->version(11);
    response_->result(static_cast<unsigned>(made.status));
    response_->set(http::field::server, "simbridge");
    response_->set(http::field::content_type, made.type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (made.allow_header) response_->set(http::field::allow, "GET, HEAD");
    response_->keep_alive(keep_alive);
    response_->content_length(made.body.size());
    if (!head_only) response_->body() = std::move(made.body);
    stream_.expires_after(shared_.options.timeout);
    http::async_write(
        stream_, *response_, [self = shared_from_this()](error_code error, std::size_t) {
          self->on_written(error);
        });
  }

  void on_written(error_code error) {
    if (error == beast::error::timeout)
      shared_.metrics.refused[metrics::AdminRefusal::kTimeout].add();
    if (error) return close();
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has just been written
    const bool keep_alive = response_->keep_alive();
    response_.reset();
    answered_ = true;
    if (keep_alive) return read();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(kLinger);
    discard(kDiscarded);
  }

  /// Closing with unread bytes resets the connection, and the reset may overtake the answer.
  void discard(std::size_t left) {
    if (left == 0) return;
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this(), left](error_code error, std::size_t bytes) {
                              if (!error) self->discard(left - std::min(left, bytes));
                            });
  }

  static constexpr std::chrono::seconds kLinger{1};
  static constexpr std::size_t kDiscarded = std::size_t{1} << 20U;

  beast::tcp_stream stream_;
  Shared& shared_;
  std::function<void(Connection*)> gone_;
  beast::flat_buffer buffer_{std::size_t{128} * 1024};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool answered_ = false;
};

class HttpServer final : public Server {
 public:
  HttpServer(ServerOptions options, Snapshots snapshots, metrics::AdminMetrics& metrics)
      : shared_{std::move(options), std::move(snapshots), metrics} {}

  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
      for (Connection* connection : connections_) connection->close();
    });
    thread_.join();  // run() ends when the last handler has
  }

  Result<void> listen() {
    error_code error;
    // Which step failed is told in the words of the WebSocket listener.
    const char* step = "socket for";
    const auto address = asio::ip::make_address(shared_.options.bind, error);
    const tcp::endpoint endpoint(address, shared_.options.port);
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) step = "bind";
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) step = "listen on";
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) {
      return fail(ErrorCode::kSystem,
                  fmt::format("{} {} port {}: {}",
                              step,
                              shared_.options.bind,
                              shared_.options.port,
                              error.message()));
    }
    accept();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "sb-admin");
      io_.run();
    });
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return port_; }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) {
        // Most likely no descriptor is left: the pending connection stays in the kernel's queue,
        // and asking again at once would spin.
        shared_.metrics.refused[metrics::AdminRefusal::kAccept].add();
        log(LogLevel::kWarning,
            "admin_accept",
            "the admin server cannot accept: {}",
            error.message());
        retry_.expires_after(std::chrono::milliseconds(100));
        retry_.async_wait([this](error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      serve(std::move(socket));
      accept();
    });
  }

  void serve(tcp::socket socket) {
    if (connections_.size() >= shared_.options.max_connections) {
      shared_.metrics.refused[metrics::AdminRefusal::kConnections].add();
      // One try: it fits the empty send buffer of a fresh connection.
      error_code ignored;
      socket.non_blocking(true, ignored);
      static constexpr std::string_view kBusy =
          "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: "
          "1\r\nContent-Length: 21\r\n\r\n"
          "too many connections\n";
      socket.write_some(asio::buffer(kBusy), ignored);
      return;
    }
    const auto connection = std::make_shared<Connection>(
        std::move(socket), shared_, [this](Connection* gone) { connections_.erase(gone); });
    connections_.insert(connection.get());
    connection->read();
  }

  // io_ comes last among what handlers touch, so that those left in it at the end still find the
  // rest alive.
  Shared shared_;
  std::unordered_set<Connection*> connections_;  // admin thread only
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer retry_{io_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options,
                                              Snapshots snapshots,
                                              metrics::AdminMetrics& metrics) {
  auto server = std::make_unique<HttpServer>(std::move(options), std::move(snapshots), metrics);
  if (Result<void> listening = server->listen(); !listening)
    return std::unexpected(listening.error());
  return server;
}

}  // namespace simbridge::admin
