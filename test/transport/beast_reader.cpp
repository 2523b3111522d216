#include "transport/beast_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/error.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace simbridge::test {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;

constexpr std::string_view kUpgrade =
    "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

// Bytes to read, then the end; what is written is thrown away.
class MemoryStream {
 public:
  using executor_type = asio::io_context::executor_type;

  MemoryStream(asio::io_context& context, std::string bytes)
      : executor_(context.get_executor()), bytes_(std::move(bytes)) {}

  executor_type get_executor() const { return executor_; }

  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers, beast::error_code& ec) {
    const std::size_t n =
        asio::buffer_copy(buffers, asio::buffer(bytes_.data() + at_, bytes_.size() - at_));
    at_ += n;
    ec = n == 0 && asio::buffer_size(buffers) != 0 ? make_error_code(asio::error::eof)
                                                   : beast::error_code();
    return n;
  }
  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers) {
    beast::error_code ec;
    return read_some(buffers, ec);
  }
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers, beast::error_code& ec) {
    ec = {};
    return asio::buffer_size(buffers);
  }
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers) {
    return asio::buffer_size(buffers);
  }

 private:
  executor_type executor_;
  std::string bytes_;
  std::size_t at_ = 0;
};

void teardown(beast::role_type /*role*/, MemoryStream& /*stream*/, beast::error_code& ec) {
  ec = {};
}

unsigned close_code_of(const beast::error_code& ec) {
  if (ec == websocket::error::message_too_big) return 1009;
  if (ec == websocket::error::bad_frame_payload || ec == websocket::error::bad_close_payload)
    return 1007;
  if (ec == websocket::condition::protocol_violation) return 1002;
  return 0;
}

}  // namespace

Transcript read_with_beast(std::string_view stream, std::uint64_t limit) {
  asio::io_context context;
  websocket::stream<MemoryStream, false> server(context,
                                                std::string(kUpgrade) + std::string(stream));
  Transcript result;
  beast::error_code ec;
  server.read_message_max(limit);
  server.control_callback([&](websocket::frame_type kind, beast::string_view payload) {
    if (kind == websocket::frame_type::close) return;
    result.events.push_back((kind == websocket::frame_type::ping ? "ping:" : "pong:") +
                            std::string(payload));
  });
  server.accept(ec);
  if (ec) return result;
  while (!ec) {
    beast::flat_buffer buffer;
    server.read(buffer, ec);
    if (ec) break;
    result.events.push_back(
        (server.got_text() ? "text:" : "binary:") +
        std::string(static_cast<const char*>(buffer.data().data()), buffer.size()));
  }
  if (ec == websocket::error::closed) {
    result.code = server.reason().code;
    if (result.code == 0) result.code = 1005;
    result.reason = std::string(server.reason().reason.data(), server.reason().reason.size());
  } else {
    result.code = close_code_of(ec);
    result.failed = result.code != 0;
  }
  return result;
}

std::optional<std::string> difference(std::string_view stream, std::uint64_t limit) {
  Transcript own = read_whole(stream, limit);
  Transcript beast = read_with_beast(stream, limit);
  if (own.failed && beast.code == 0) {
    // The codec judges what has come of a header or character, Beast waits until it is whole.
    beast = read_with_beast(std::string(stream) + std::string(16, '\0'), limit);
  }
  // Where Beast is known to be wrong (1.74): it does not know 1014 (bad gateway), which the
  // registry has had since 2016; it takes codes from 5000 on, which no registry can give a meaning;
  // it does not ask whether a text ends inside a character when its last fragment is empty.
  if (own.events == beast.events && own.code == 1014 && beast.code == 1002) return std::nullopt;
  unsigned refused = 0;
  if (std::sscanf(own.reason.c_str(), "close code %u may not", &refused) == 1 && refused >= 5000 &&
      own.events == beast.events && (beast.code == refused || beast.code == 1007)) {
    return std::nullopt;
  }
  if (own.reason == "the highest bit of a 64-bit length is set" && own.events == beast.events &&
      beast.code == 1009) {
    return std::nullopt;
  }
  if (own.reason == "a text ends inside a character" && own.events.size() <= beast.events.size() &&
      std::equal(own.events.begin(), own.events.end(), beast.events.begin())) {
    return std::nullopt;
  }
  const std::string why = own.reason;
  if (own.failed) own.reason.clear();  // Beast words it otherwise
  if (own.events == beast.events && own.failed == beast.failed && own.code == beast.code &&
      own.reason == beast.reason) {
    return std::nullopt;
  }
  return fmt::format(
      "own: {} events, failed {}, code {}, '{}'; Beast: {} events, failed {}, code {}, '{}'",
      own.events.size(),
      own.failed,
      own.code,
      why,
      beast.events.size(),
      beast.failed,
      beast.code,
      beast.reason);
}

namespace {

unsigned close_code(unsigned choice) {
  if (choice < 200) return 1000 + choice % 4;
  if (choice < 240) return 3000 + choice * 8;
  return 980 + (choice - 240) * 3;
}

}  // namespace

std::string stream_from(std::string_view program) {
  std::size_t at = 0;
  const auto next = [&]() -> unsigned {
    return at < program.size() ? static_cast<unsigned char>(program[at++]) : 0U;
  };
  std::string stream;
  bool inside = false;
  for (int frames = 0; at < program.size() && frames < 64; ++frames) {
    const unsigned kind = next();
    RawFrame frame;
    const bool control = (kind & 0x03U) == 0;
    const bool final = (kind & 0x0CU) != 0;
    if (control) {
      const unsigned opcodes[] = {0x89, 0x8A, 0x89, 0x88};
      frame.first = opcodes[next() % 4];
      if (frame.first == 0x88 && (kind & 0x80U) == 0)
        frame.first = 0x89;  // a close ends all: seldom
    } else {
      const unsigned opcode = inside ? 0U : 1U + (kind >> 7U);
      frame.first = opcode | (final ? 0x80U : 0U);
      inside = !final;
    }
    std::size_t size = next();
    if (control) size %= 126;
    if (!control && (kind & 0x70U) == 0x70U) size *= 300;
    const unsigned fill = next();
    for (std::size_t i = 0; i < size; ++i) {
      // Mostly characters of one to four bytes, taken whole; or the program's own bytes.
      static constexpr std::string_view kText = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
      const char own = (fill & 0x80U) != 0 && at < program.size() ? program[at++] : '\0';
      frame.payload += own != '\0' ? own : kText[(i + (fill & 0x7FU) / 8) % kText.size()];
    }
    if (frame.first == 0x88 && size >= 2)
      frame.payload = close_payload(close_code(next()), frame.payload.substr(2));
    for (auto& byte : frame.key) byte = static_cast<std::uint8_t>(next());
    const unsigned wrong = next();
    if (wrong == 0xF1) frame.first ^= 1U << (next() % 8);
    if (wrong == 0xF2) frame.masked = false;
    if (wrong == 0xF3) frame.length_form = 16;
    if (wrong == 0xF4) frame.length_form = 64;
    if (wrong == 0xF5) {
      frame.lie = true;
      frame.declared = next() << 8U | next();
    }
    if (wrong == 0xF6) {
      frame.lie = true;
      frame.declared = ~std::uint64_t{0} >> (next() % 64);
    }
    if (frame.length_form == 16 && frame.payload.size() > 0xFFFF) frame.length_form = 0;
    stream += bytes_of(frame);
  }
  return stream;
}

}  // namespace simbridge::test
