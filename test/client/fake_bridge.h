#pragma once
// What: a bridge that does what a test tells it, on Beast's server side: each connection is met by
// the next script. For what the real daemon would never do, or not on command.
// Owner: a test.   Threads: the scripts run on the bridge's own thread, one after another.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "simbridge/v1/bridge.pb.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace simbridge::test {

class FakeSession {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  FakeSession(boost::asio::io_context& io, Socket& socket)
      : io_(io), socket_(socket), stream_(socket) {}

  ~FakeSession() {  // NOLINT(bugprone-exception-escape): then the test ends, as it should
    // A read that is still under way must end while there is something for it to end in.
    boost::beast::error_code ignored;
    socket_.close(ignored);
    io_.restart();
    io_.poll();
  }
  FakeSession(const FakeSession&) = delete;
  FakeSession& operator=(const FakeSession&) = delete;

  /// Answers the upgrade; every script that speaks the protocol begins with it.
  void accept() {
    stream_.set_option(boost::beast::websocket::stream_base::decorator(
        [](boost::beast::websocket::response_type& response) {
          response.set(boost::beast::http::field::sec_websocket_protocol, "simbridge.v1");
        }));
    stream_.accept();
    stream_.binary(true);
  }
  /// Answers the upgrade, or whatever was asked, in plain HTTP.
  void refuse(unsigned status, const std::string& retry_after, const std::string& body = "") {
    namespace http = boost::beast::http;
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::read(socket_, buffer, request);
    http::response<http::string_body> response{static_cast<http::status>(status), 11};
    if (!retry_after.empty()) response.set(http::field::retry_after, retry_after);
    response.body() = body;
    response.prepare_payload();
    http::write(socket_, response);
  }
  /// The next message; the script fails after five seconds without one.
  v1::ClientMessage receive() {
    auto message = receive_within(std::chrono::seconds(5));
    if (!message) throw std::runtime_error("the client sent nothing, or closed");
    return std::move(*message);
  }
  /// nullopt: nothing in time, or the client closed.
  std::optional<v1::ClientMessage> receive_within(std::chrono::milliseconds time) {
    if (!reading_) {
      reading_ = true;
      stream_.async_read(buffer_, [this](const boost::beast::error_code& error, std::size_t) {
        reading_ = false;
        error_ = error;
      });
    }
    const auto deadline = std::chrono::steady_clock::now() + time;
    io_.restart();
    while (reading_ && io_.run_one_until(deadline) > 0) {
    }
    if (reading_) return std::nullopt;  // goes on with the next call
    if (error_) {
      closed_code_ = stream_.reason().code;
      return std::nullopt;
    }
    v1::ClientMessage message;
    const auto data = buffer_.cdata();
    if (!message.ParseFromArray(data.data(), static_cast<int>(data.size())))
      throw std::runtime_error("the client sent what is no ClientMessage");
    buffer_.consume(buffer_.size());
    return message;
  }
  void send(const v1::ServerMessage& message) {
    const auto bytes = message.SerializeAsString();
    stream_.write(boost::asio::buffer(bytes));
  }
  void send_bytes(const std::string& bytes) { stream_.write(boost::asio::buffer(bytes)); }
  void close(std::uint16_t code) {
    bool done = false;
    stream_.async_close(static_cast<boost::beast::websocket::close_code>(code),
                        [&done](const boost::beast::error_code&) { done = true; });
    io_.restart();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!done && io_.run_one_until(deadline) > 0) {
    }
    if (!done) throw std::runtime_error("the client did not answer the close");
  }
  [[nodiscard]] std::uint16_t closed_code() const { return closed_code_; }

  // ---- the usual opening
  v1::Hello hello(std::uint64_t max_message_bytes = 1U << 20) {
    accept();
    auto message = receive();
    if (!message.has_hello()) throw std::runtime_error("the first message is no Hello");
    v1::ServerMessage answer;
    auto& welcome = *answer.mutable_welcome();
    welcome.set_bridge("fake");
    welcome.set_version("0");
    welcome.set_boot_id(1);
    welcome.set_session(1);
    welcome.set_max_message_bytes(max_message_bytes);
    welcome.set_max_frame_bytes(1U << 28);
    welcome.set_ping_interval_ms(10000);
    send(answer);
    return message.hello();
  }
  v1::Advertise advertised(std::uint64_t last_sequence, std::uint64_t window_bytes) {
    const auto message = receive();
    if (!message.has_advertise()) throw std::runtime_error("an Advertise was due");
    v1::ServerMessage answer;
    auto& advertised = *answer.mutable_advertised();
    advertised.set_channel(message.advertise().channel());
    advertised.set_id(7);
    advertised.set_last_sequence(last_sequence);
    advertised.set_window_bytes(window_bytes);
    advertised.set_epoch(message.advertise().epoch());
    send(answer);
    return message.advertise();
  }
  void ack(std::uint64_t sequence, std::uint64_t window_bytes) {
    v1::ServerMessage message;
    message.mutable_ack()->set_channel(1);
    message.mutable_ack()->set_sequence(sequence);
    message.mutable_ack()->set_window_bytes(window_bytes);
    send(message);
  }
  void reject(std::uint64_t sequence, v1::RejectCode code, bool retry) {
    v1::ServerMessage message;
    auto& reject = *message.mutable_reject();
    reject.set_channel(1);
    reject.set_sequence(sequence);
    reject.set_code(code);
    reject.set_retry(retry);
    reject.set_detail("as the test wants it");
    send(message);
  }
  /// The next message must be a frame.
  v1::Frame frame() {
    auto message = receive();
    if (!message.has_frame()) throw std::runtime_error("a frame was due");
    return std::move(*message.mutable_frame());
  }
  /// Takes frames, acknowledging each, until the client says Goodbye; then the close.
  std::vector<v1::Frame> frames_until_goodbye(std::uint64_t window_bytes) {
    std::vector<v1::Frame> frames;
    while (true) {
      auto message = receive();
      if (message.has_goodbye()) break;
      if (!message.has_frame()) continue;
      frames.push_back(std::move(*message.mutable_frame()));
      ack(frames.back().sequence(), window_bytes);
    }
    receive_within(std::chrono::seconds(5));  // reads the close, and so answers it
    return frames;
  }

 private:
  boost::asio::io_context& io_;
  Socket& socket_;
  boost::beast::websocket::stream<Socket&, false> stream_;
  boost::beast::flat_buffer buffer_;
  bool reading_ = false;
  boost::beast::error_code error_;
  std::uint16_t closed_code_ = 0;
};

class FakeBridge {
 public:
  using Script = std::function<void(FakeSession&)>;

  explicit FakeBridge(std::vector<Script> scripts)
      : acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}),
        thread_([this, scripts = std::move(scripts)] { run(scripts); }) {}
  ~FakeBridge() { finish(); }
  FakeBridge(const FakeBridge&) = delete;
  FakeBridge& operator=(const FakeBridge&) = delete;

  [[nodiscard]] std::string url() const {
    return "ws://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  /// Waits for the scripts; empty, or what one of them complained about.
  std::string finish() {
    if (thread_.joinable()) {
      // Wakes an accept() that nobody came to.
      if (!done_.load(std::memory_order_acquire)) ::shutdown(acceptor_.native_handle(), SHUT_RD);
      thread_.join();
    }
    return complaint_;
  }

 private:
  void run(const std::vector<Script>& scripts) {
    try {
      for (const auto& script : scripts) {
        auto socket = acceptor_.accept();
        FakeSession session(io_, socket);
        script(session);
      }
    } catch (const std::exception& error) {
      complaint_ = error.what();
    }
    // release: pairs with the acquire in finish(); the port stays bound until the test is over.
    done_.store(true, std::memory_order_release);
  }

  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::string complaint_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace simbridge::test
