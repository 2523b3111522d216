#include "client/http_get.h"

#include "client/console.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/core.h>

namespace simbridge::client {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = net::ip::tcp;

constexpr std::uint64_t kBodyBytesMax = 64U << 20;

/// The steps of one request, each started by the one before.
class Get {
 public:
  explicit Get(const Url& url) : url_(url) {
    request_.method(http::verb::get);
    request_.target(beast::string_view(url.path.data(), url.path.size()));
    request_.set(http::field::host, url.authority());
    request_.set(http::field::user_agent, beast::string_view(kAgent.data(), kAgent.size()));
    request_.set(http::field::connection, "close");
    parser_.body_limit(kBodyBytesMax);
  }

  Result<HttpAnswer> run(milliseconds timeout) {
    resolver_.async_resolve(url_.host, url_.port, [this](const auto& error, const auto& found) {
      if (error) return end(error);
      net::async_connect(socket_, found, [this](const auto& failed, const auto& /*endpoint*/) {
        if (failed) return end(failed);
        write();
      });
    });
    io_.run_for(timeout);
    if (!done_) {
      // What is outstanding ends while there is something for it to end in.
      beast::error_code ignored;
      resolver_.cancel();
      socket_.close(ignored);
      io_.restart();
      io_.run_for(std::chrono::seconds(1));
      return fail(ErrorCode::kUnavailable, fmt::format("{}: no answer in time", url_.authority()));
    }
    if (error_)
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{}: {}", url_.authority(), error_.message()));
    return HttpAnswer{.status = parser_.get().result_int(), .body = parser_.get().body()};
  }

 private:
  void write() {
    http::async_write(socket_, request_, [this](const auto& error, std::size_t /*bytes*/) {
      if (error) return end(error);
      http::async_read(
          socket_, buffer_, parser_, [this](const auto& failed, std::size_t /*bytes*/) {
            end(failed);
          });
    });
  }
  void end(const beast::error_code& error) {
    if (done_) return;
    done_ = true;
    error_ = error;
  }

  const Url& url_;
  net::io_context io_{1};
  Tcp::resolver resolver_{io_};
  Tcp::socket socket_{io_};
  http::request<http::empty_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  beast::error_code error_;
  bool done_ = false;
};

}  // namespace

Result<HttpAnswer> http_get(const Url& url, milliseconds timeout) {
  try {
    return Get(url).run(timeout);
  } catch (const std::exception& error) {  // Asio throws where the process has no descriptor left
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", url.authority(), error.what()));
  }
}

}  // namespace simbridge::client
