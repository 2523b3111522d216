#include "client/web_socket.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <fmt/core.h>

#include <array>
#include <charconv>
#include <deque>
#include <utility>

namespace simbridge::client {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using Tcp = net::ip::tcp;

// Beyond this, received messages wait in the kernel: a slow caller is a slow reader.
constexpr std::size_t kInboxBytesMax = 4U << 20;
// Beast masks into a buffer of this size and writes it out each time it is full.
constexpr std::size_t kWriteBufferBytes = 64U << 10;
constexpr std::size_t kKeptBufferBytes = 4U << 20;

struct Outgoing {
  bool text = false;
  std::string head;
  std::shared_ptr<const std::string> body;
  std::size_t offset = 0;
  std::size_t length = 0;

  [[nodiscard]] std::size_t size() const { return head.size() + length; }
};

ConnectFailure unreachable(const Url& url, std::string_view why) {
  return {.error = {.code = ErrorCode::kUnavailable,
                    .detail = fmt::format("{}: {}", url.authority(), why)}};
}

}  // namespace

struct WebSocket::Impl {
  net::io_context io{1};
  // Keeps run_one_until waiting for the deadline where nothing is outstanding (paused, or closed).
  net::executor_work_guard<net::io_context::executor_type> work{io.get_executor()};
  websocket::stream<Tcp::socket, false> stream{io};
  beast::flat_buffer buffer;
  std::deque<LineMessage> inbox;
  std::size_t inbox_bytes = 0;
  std::deque<Outgoing> outbox;
  std::size_t outbox_bytes = 0;
  bool reading = false;
  bool writing = false;
  bool paused = false;
  std::uint64_t events = 0;
  Monotonic last_heard = std::chrono::steady_clock::now();
  std::optional<LineClosed> closed;
  std::string subprotocol;

  void read_on();
  void write_on();
  void end(const beast::error_code& error);
  bool run_until(Monotonic deadline, const std::function<bool()>& condition);
  std::optional<ConnectFailure> connect(const Url& url, const LineOptions& options);
  std::optional<ConnectFailure> handshake(const Url& url,
                                          const LineOptions& options,
                                          Monotonic deadline);
};

void WebSocket::Impl::read_on() {
  if (reading || paused || closed || inbox_bytes >= kInboxBytesMax) return;
  reading = true;
  const auto limit = stream.read_size_hint(buffer);
  stream.async_read_some(
      buffer, limit, [this](const beast::error_code& error, std::size_t /*bytes*/) {
        reading = false;
        if (error) return end(error);
        last_heard = std::chrono::steady_clock::now();
        if (stream.is_message_done()) {
          const auto data = buffer.cdata();
          inbox.push_back(
              {.text = stream.got_text(),
               .data = std::string(static_cast<const char*>(data.data()), data.size())});
          inbox_bytes += data.size();
          buffer.consume(buffer.size());
          if (buffer.capacity() > kKeptBufferBytes) buffer.shrink_to_fit();
          ++events;
        }
        read_on();
      });
}

void WebSocket::Impl::write_on() {
  if (writing || closed || outbox.empty()) return;
  writing = true;
  const auto& next = outbox.front();
  stream.text(next.text);
  const char* body = next.body ? next.body->data() + next.offset : nullptr;
  const std::array<net::const_buffer, 2> parts{net::buffer(next.head),
                                               net::const_buffer(body, next.length)};
  stream.async_write(parts, [this](const beast::error_code& error, std::size_t /*bytes*/) {
    writing = false;
    if (error) return end(error);
    outbox_bytes -= outbox.front().size();
    outbox.pop_front();
    ++events;
    write_on();
  });
}

void WebSocket::Impl::end(const beast::error_code& error) {
  if (closed) return;
  ++events;
  if (error == websocket::error::closed) {
    const auto& reason = stream.reason();
    // A close frame without a code is 1005 for its reader (RFC 6455 §7.1.5).
    const auto code = reason.code == websocket::close_code::none
                          ? websocket::close_code::no_status
                          : static_cast<websocket::close_code>(reason.code);
    closed = {.code = static_cast<std::uint16_t>(code),
              .reason = std::string(reason.reason.data(), reason.reason.size())};
  } else {
    closed = {.code = 1006, .reason = error.message()};
  }
}

bool WebSocket::Impl::run_until(Monotonic deadline, const std::function<bool()>& condition) {
  // What is ready counts even when the deadline has passed: a process that was stopped for a while
  // must not take its own absence for the other side's.
  io.poll();
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    // One handler at least, then all that are ready: a burst costs one wake-up.
    io.run_one_until(deadline);
    io.poll();
  }
  return true;
}

std::optional<ConnectFailure> WebSocket::Impl::connect(const Url& url, const LineOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  bool done = false;
  beast::error_code outcome;
  const auto wait = [&] {
    return run_until(deadline, [&] { return done; });
  };

  Tcp::resolver resolver{io};
  Tcp::resolver::results_type found;
  resolver.async_resolve(url.host, url.port, [&](const auto& error, auto results) {
    outcome = error;
    found = std::move(results);
    done = true;
  });
  if (!wait()) {
    resolver.cancel();
    run_until(deadline + std::chrono::seconds(1), [&] { return done; });
    return unreachable(url, "its name was not resolved in time");
  }
  if (outcome) return unreachable(url, outcome.message());

  done = false;
  auto& socket = stream.next_layer();
  net::async_connect(socket, found, [&](const auto& error, const auto& /*endpoint*/) {
    outcome = error;
    done = true;
  });
  if (!wait()) {
    beast::error_code ignored;
    socket.close(ignored);
    run_until(deadline + std::chrono::seconds(1), [&] { return done; });
    return unreachable(url, "no connection in time");
  }
  if (outcome) return unreachable(url, outcome.message());
  beast::error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  return handshake(url, options, deadline);
}

std::optional<ConnectFailure> WebSocket::Impl::handshake(const Url& url,
                                                         const LineOptions& options,
                                                         Monotonic deadline) {
  namespace http = boost::beast::http;
  stream.auto_fragment(false);
  stream.binary(true);
  stream.read_message_max(options.max_message_bytes);
  stream.write_buffer_bytes(kWriteBufferBytes);
  stream.set_option(websocket::stream_base::decorator([&options](websocket::request_type& request) {
    request.set(http::field::user_agent, options.agent);
    if (!options.subprotocols.empty())
      request.set(http::field::sec_websocket_protocol, options.subprotocols);
  }));
  stream.control_callback([this](websocket::frame_type /*kind*/, auto /*payload*/) {
    last_heard = std::chrono::steady_clock::now();
  });
  bool done = false;
  beast::error_code outcome;
  websocket::response_type response;
  stream.async_handshake(response, url.authority(), url.path, [&](const auto& error) {
    outcome = error;
    done = true;
  });
  if (!run_until(deadline, [&] { return done; })) {
    beast::error_code ignored;
    stream.next_layer().close(ignored);
    run_until(deadline + std::chrono::seconds(1), [&] { return done; });
    return unreachable(url, "connected, but no answer to the WebSocket handshake in time");
  }
  if (outcome == websocket::error::upgrade_declined) {
    ConnectFailure failure;
    failure.http_status = static_cast<int>(response.result_int());
    const std::string_view reason(response.reason().data(), response.reason().size());
    const auto retry = response[http::field::retry_after];
    failure.error = {
        .code = ErrorCode::kRefused,
        .detail = fmt::format("{}{} answered HTTP {} {}{}{}{}",
                              url.authority(),
                              url.path,
                              failure.http_status,
                              reason,
                              retry.empty() ? "" : ", Retry-After: ",
                              std::string_view(retry.data(), retry.size()),
                              // The admin port says so too.
                              failure.http_status == 404
                                  ? "; a bridge's WebSocket port answers at /v1/connect"
                                  : "")};
    unsigned seconds = 0;
    if (std::from_chars(retry.data(), retry.data() + retry.size(), seconds).ec == std::errc{})
      failure.retry_after = std::chrono::seconds(seconds);
    return failure;
  }
  if (outcome) return unreachable(url, outcome.message());
  const auto chosen = response[http::field::sec_websocket_protocol];
  subprotocol.assign(chosen.data(), chosen.size());
  last_heard = std::chrono::steady_clock::now();
  return std::nullopt;
}

WebSocket::WebSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WebSocket::~WebSocket() {
  abort();
}

std::expected<std::unique_ptr<WebSocket>, ConnectFailure> WebSocket::connect(
    const Url& url, const LineOptions& options) {
  try {
    auto impl = std::make_unique<Impl>();
    if (auto failure = impl->connect(url, options)) return std::unexpected(std::move(*failure));
    impl->read_on();
    return std::unique_ptr<WebSocket>(new WebSocket(std::move(impl)));
  } catch (const std::exception& error) {  // Asio throws where the process has no descriptor left
    return std::unexpected(unreachable(url, error.what()));
  }
}

void WebSocket::send(std::string head,
                     std::shared_ptr<const std::string> body,
                     std::size_t offset,
                     std::size_t length) {
  if (impl_->closed) return;
  impl_->outbox.push_back({.text = false,
                           .head = std::move(head),
                           .body = std::move(body),
                           .offset = offset,
                           .length = length});
  impl_->outbox_bytes += impl_->outbox.back().size();
  impl_->write_on();
}

void WebSocket::send_text(std::string message) {
  if (impl_->closed) return;
  impl_->outbox.push_back({.text = true, .head = std::move(message)});
  impl_->outbox_bytes += impl_->outbox.back().size();
  impl_->write_on();
}

std::size_t WebSocket::queued_bytes() const {
  return impl_->outbox_bytes;
}

bool WebSocket::run_until(Monotonic deadline) {
  if (impl_->closed) return true;
  // What is ready now counts as happened too; the count before it is what we compare with.
  const auto before = impl_->events;
  return impl_->run_until(deadline, [&] { return impl_->events != before; });
}

bool WebSocket::run_until(Monotonic deadline, const std::function<bool()>& condition) {
  impl_->run_until(deadline, [&] { return impl_->closed || condition(); });
  return condition();
}

std::optional<LineMessage> WebSocket::take() {
  if (impl_->inbox.empty()) return std::nullopt;
  auto message = std::move(impl_->inbox.front());
  impl_->inbox.pop_front();
  impl_->inbox_bytes -= message.data.size();
  impl_->read_on();
  return message;
}

void WebSocket::pause_reading(bool paused) {
  impl_->paused = paused;
  impl_->read_on();
}

Monotonic WebSocket::last_heard() const {
  return impl_->last_heard;
}

std::string WebSocket::subprotocol() const {
  return impl_->subprotocol;
}

const std::optional<LineClosed>& WebSocket::closed() const {
  return impl_->closed;
}

void WebSocket::close(std::uint16_t code, std::string_view reason, Monotonic deadline) {
  auto& impl = *impl_;
  impl.run_until(deadline, [&] { return impl.closed || impl.outbox.empty(); });
  if (!impl.closed && impl.outbox.empty()) {
    websocket::close_reason why(static_cast<websocket::close_code>(code),
                                beast::string_view(reason.data(), reason.size()));
    bool answered = false;
    impl.stream.async_close(why, [&](const beast::error_code& error) {
      answered = true;
      if (error) {
        impl.end(error);
      } else {
        impl.end(websocket::error::closed);
      }
    });
    if (!impl.run_until(deadline, [&] { return answered; })) {
      abort();
      impl.run_until(std::chrono::steady_clock::now() + std::chrono::seconds(1),
                     [&] { return answered; });
    }
  }
  abort();
}

void WebSocket::abort() {
  beast::error_code ignored;
  impl_->stream.next_layer().close(ignored);
  if (!impl_->closed) impl_->closed = {.code = 1006, .reason = "closed by us"};
}

}  // namespace simbridge::client
