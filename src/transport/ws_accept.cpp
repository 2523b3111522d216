#include "transport/ws_accept.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"
#include "simbridge/base/mutex.h"
#include "transport/io_pool_impl.h"
#include "transport/ws_connection.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <fmt/core.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <utility>

namespace simbridge::transport::ws {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using metrics::AcceptError;
using Strand = asio::strand<asio::io_context::executor_type>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         Strand>;

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
constexpr int kAcceptsATurn = 64;
constexpr milliseconds kBackOff{100};      // with a full table, until somebody may have left
constexpr milliseconds kStopWait{10'000};  // connections end at once; longer is a defect

struct Bound {
  Descriptor socket;
  std::uint16_t port = 0;
};

Result<Bound> bind_and_listen(const WebSocketOptions& options) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (::inet_pton(AF_INET, options.bind.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(options.port);
    size = sizeof v4;
  } else if (::inet_pton(AF_INET6, options.bind.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(options.port);
    size = sizeof v6;
  } else {
    return fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not a numeric IPv4 or IPv6 address", options.bind));
  }
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  const auto system = [&](const char* what) {
    return fail(ErrorCode::kSystem,
                fmt::format("{} {} port {}: {}", what, options.bind, options.port, errno_text()));
  };
  Bound bound;
  bound.socket = Descriptor(
      ::socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!bound.socket.valid()) return system("socket for");
  const int on = 1;
  static_cast<void>(::setsockopt(bound.socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  if (::bind(bound.socket.number(), address, size) != 0) return system("bind");
  if (::listen(bound.socket.number(), kBacklog) != 0) return system("listen on");
  if (::getsockname(bound.socket.number(), address, &size) != 0) return system("getsockname of");
  bound.port = ntohs(storage.ss_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
  return bound;
}

// Kept alive by its pending waits, so that none of them can outlive it.
class Acceptor final : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(const WebSocketOptions& options,
           IoPool& pool,
           Door& door,
           metrics::TransportMetrics& metrics,
           Descriptor socket)
      : max_handshakes_(options.max_handshakes),
        around_{.context = context_of(pool),
                .door = door,
                .metrics = metrics,
                .registry = std::make_shared<Registry>(metrics.connections),
                .handshake_timeout = options.handshake_timeout,
                .ping_interval = options.ping_interval,
                .close_timeout = options.close_timeout},
        strand_(asio::make_strand(around_.context)),
        socket_(strand_, socket.release()),
        timer_(strand_) {}

  void start() {
    asio::post(strand_, [self = shared_from_this()] { self->wait(); });
  }

  // Returns when nothing is listened to or connected any more.
  void stop() {
    asio::post(strand_, [self = shared_from_this()] { self->close(); });
    {
      std::unique_lock lock(mutex_.native());
      const bool closed = changed_.wait_for(lock, kStopWait, [this] { return is_closed(); });
      SB_CHECK(closed, "the pool runs until its listeners have stopped");
    }
    around_.registry->stop_all();
    SB_CHECK(around_.registry->wait_empty(std::chrono::steady_clock::now() + kStopWait),
             "connections end when the listener stops");
  }

  [[nodiscard]] std::size_t connections() const { return around_.registry->count(); }

 private:
  void wait() {
    socket_.async_wait(socket_.wait_read, [self = shared_from_this()](const error_code& ec) {
      if (!ec) self->accept();
    });
  }

  void accept() {
    for (int i = 0; i < kAcceptsATurn; ++i) {
      Descriptor socket(
          ::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket.valid()) {
        around_.metrics.accepted.add();
        start_handshake(around_, std::move(socket));
        // Slow handshakes cannot keep others out: the oldest makes room.
        if (const auto oldest = around_.registry->take_handshake_beyond(max_handshakes_))
          oldest->stop();
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return back_off();
      }
      // Of one connection that died while it waited; the next may be well.
      around_.metrics.accept_errors[AcceptError::kOther].add();
    }
    wait();
  }

  // The peer stays in the backlog meanwhile; asked again at once, accept() would only fail again.
  void back_off() {
    around_.metrics.accept_errors[AcceptError::kDescriptors].add();
    log(LogLevel::kWarning,
        "accept_descriptors",
        "accept: {}; new peers wait (raise the limit of open files)",
        errno_text());
    timer_.expires_after(kBackOff);
    timer_.async_wait([self = shared_from_this()](const error_code& ec) {
      if (!ec) self->accept();
    });
  }

  void close() {
    error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  // wait_for() calls it with the lock held, which the analysis cannot see.
  [[nodiscard]] bool is_closed() const SB_NO_ANALYSIS { return closed_; }

  std::size_t max_handshakes_;
  Surroundings around_;
  Strand strand_;
  asio::posix::basic_stream_descriptor<Strand> socket_;
  Timer timer_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool closed_ SB_GUARDED_BY(mutex_) = false;
};

class ListenerImpl final : public WebSocketListener {
 public:
  ListenerImpl(std::shared_ptr<Acceptor> acceptor, std::uint16_t port)
      : acceptor_(std::move(acceptor)), port_(port) {}
  // NOLINTNEXTLINE(bugprone-exception-escape): without memory for one post there is no way on
  ~ListenerImpl() override { ListenerImpl::stop(); }
  ListenerImpl(const ListenerImpl&) = delete;
  ListenerImpl& operator=(const ListenerImpl&) = delete;

  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::size_t connections() const override { return acceptor_->connections(); }
  void stop() override {
    if (!std::exchange(stopped_, true)) acceptor_->stop();
  }

 private:
  std::shared_ptr<Acceptor> acceptor_;
  std::uint16_t port_;
  bool stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<WebSocketListener>> listen(const WebSocketOptions& options,
                                                  IoPool& pool,
                                                  Door& door,
                                                  metrics::TransportMetrics& metrics) {
  auto bound = bind_and_listen(options);
  if (!bound) return std::unexpected(std::move(bound.error()));
  auto acceptor =
      std::make_shared<Acceptor>(options, pool, door, metrics, std::move(bound->socket));
  acceptor->start();
  return std::make_unique<ListenerImpl>(std::move(acceptor), bound->port);
}

}  // namespace simbridge::transport::ws
