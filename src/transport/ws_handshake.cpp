#include "simbridge/base/check.h"
#include "simbridge/base/log.h"
#include "transport/ws_connection.h"
#include "transport/ws_upgrade.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <fmt/core.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

namespace simbridge::transport::ws {
namespace {

namespace asio = boost::asio;
using metrics::HandshakeCause;
using Strand = asio::strand<asio::io_context::executor_type>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         Strand>;

constexpr std::size_t kReadBytes = 4U << 10U;  // on the stack; a request is rarely longer
constexpr milliseconds kLinger{2'000};         // for the peer to read a refusal

class Handshake final : public Live, public std::enable_shared_from_this<Handshake> {
 public:
  Handshake(const Surroundings& around, Descriptor socket)
      : around_(around),
        strand_(asio::make_strand(around.context)),
        socket_(strand_, socket.release()),
        timer_(strand_),
        upgrade_(around.door.rules()) {}

  void start() {
    // The entry comes to the strand with the first turn: stop() may have had its turn before.
    asio::post(
        strand_,
        [self = shared_from_this(),
         entry = around_.registry->add(shared_from_this(), Registry::Stage::kHandshake)]() mutable {
          if (self->stage_ == Stage::kGone) return;
          self->entry_ = std::move(entry);
          self->wait_until(std::chrono::steady_clock::now() + self->around_.handshake_timeout);
          self->wait_readable();
        });
  }

  void stop() override {
    asio::post(strand_, [self = shared_from_this()] { self->end(HandshakeCause::kTimeout); });
  }

 private:
  enum class Stage : std::uint8_t { kReading, kAccepting, kRefusing, kLingering, kGone };

  void wait_until(Monotonic deadline) {
    timer_.expires_at(deadline);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
      if (!ec) self->end(HandshakeCause::kTimeout);
    });
  }

  void wait_readable() {
    socket_.async_wait(socket_.wait_read,
                       [self = shared_from_this()](const boost::system::error_code& ec) {
                         if (!ec) self->read();
                       });
  }

  void read() {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): filled by the read
    std::array<std::byte, kReadBytes> bytes;
    const iovec buffer{.iov_base = bytes.data(), .iov_len = bytes.size()};
    const Transfer got = read_into(socket_.native_handle(), std::span(&buffer, 1));
    if (stage_ == Stage::kGone || stage_ == Stage::kAccepting) return;
    if (got.state == Transfer::State::kEnd || got.state == Transfer::State::kBroken) {
      return end(HandshakeCause::kLost);
    }
    if (stage_ == Stage::kReading && got.state == Transfer::State::kMoved) {
      switch (upgrade_.feed(std::span(bytes).first(got.bytes))) {
        case UpgradeReader::State::kMore:
          break;
        case UpgradeReader::State::kAsked:
          return ask_to_come_in();
        case UpgradeReader::State::kRefused:
          refuse(upgrade_.refusal());
          break;
      }
    }
    if (stage_ != Stage::kGone) wait_readable();
  }

  void ask_to_come_in() {
    auto place = around_.door.admit();
    if (!place) {
      refuse({.status = 503,
              .text = place.error().text,
              .field = fmt::format("Retry-After: {}", place.error().retry_after_s)});
      if (stage_ != Stage::kGone) wait_readable();
      return;
    }
    place_ = std::move(*place);
    stage_ = Stage::kAccepting;
    answer_ = upgrade_.acceptance();
    write();
  }

  void refuse(const HttpRefusal& refusal) {
    if (refusal.cause) around_.metrics.handshakes_refused[*refusal.cause].add();
    log(LogLevel::kInfo,
        "handshake_refused",
        "{}: {} {}",
        peer_address(socket_.native_handle()),
        refusal.status,
        refusal.text);
    stage_ = Stage::kRefusing;
    answer_ = http_response(refusal);
    wait_until(std::chrono::steady_clock::now() + kLinger);
    write();
  }

  void write() {
    while (written_ < answer_.size()) {
      const iovec buffer{.iov_base = answer_.data() + written_,
                         .iov_len = answer_.size() - written_};
      const Transfer put = write_from(socket_.native_handle(), std::span(&buffer, 1));
      if (put.state == Transfer::State::kWouldBlock) {
        socket_.async_wait(socket_.wait_write,
                           [self = shared_from_this()](const boost::system::error_code& ec) {
                             if (!ec) self->write();
                           });
        return;
      }
      if (put.state != Transfer::State::kMoved) return end(HandshakeCause::kLost);
      written_ += put.bytes;
    }
    if (stage_ == Stage::kAccepting) return come_in();
    stage_ = Stage::kLingering;  // until the peer has read it and closes
    send_no_more(socket_.native_handle());
  }

  void come_in() {
    stage_ = Stage::kGone;
    timer_.cancel();
    // Registered anew before this entry goes, so that the count never dips.
    // NOLINTBEGIN(bugprone-unchecked-optional-access): ask_to_come_in() took the place
    start_connection(around_,
                     Descriptor(socket_.release()),
                     std::move(*place_),
                     upgrade_.chosen().encoding,
                     upgrade_.rest());
    // NOLINTEND(bugprone-unchecked-optional-access)
    entry_ = {};
  }

  void end(HandshakeCause cause) {
    if (stage_ == Stage::kGone) return;
    if (stage_ == Stage::kReading || stage_ == Stage::kAccepting) {
      around_.metrics.handshakes_refused[cause].add();
      set_reset(socket_.native_handle());
    }
    stage_ = Stage::kGone;
    place_.reset();
    timer_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
    entry_ = {};
  }

  const Surroundings& around_;
  Strand strand_;
  asio::posix::basic_stream_descriptor<Strand> socket_;
  Timer timer_;
  Registry::Entry entry_;
  Stage stage_ = Stage::kReading;
  UpgradeReader upgrade_;
  std::optional<Door::Place> place_;
  std::string answer_;
  std::size_t written_ = 0;
};

}  // namespace

void start_handshake(const Surroundings& around, Descriptor socket) {
  std::make_shared<Handshake>(around, std::move(socket))->start();
}

}  // namespace simbridge::transport::ws
