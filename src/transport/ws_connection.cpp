#include "transport/ws_connection.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"
#include "transport/ws_inbound.h"
#include "transport/ws_writer.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace simbridge::transport::ws {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using metrics::Direction;
using session::CloseKind;
using session::CloseReason;
using Strand = asio::strand<asio::io_context::executor_type>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         Strand>;

constexpr std::size_t kStagingBytes = 64U << 10U;
constexpr std::size_t kStagingAfterLarge = 8U
                                           << 10U;  // what lands there of a large frame is copied
constexpr std::size_t kTurnBytes = 1U << 20U;       // then others have their turn
constexpr std::size_t kKeepRestUpTo = 32U << 10U;   // of a batch that a slow peer does not take
constexpr unsigned kSilentIntervals = 3;

// Of the thread, not of the connection: an idle connection retains no buffer.
std::span<std::byte> staging() {
  thread_local const auto kBytes = std::make_unique_for_overwrite<std::byte[]>(kStagingBytes);
  return {kBytes.get(), kStagingBytes};
}

CloseCode code_of(CloseKind kind) {
  switch (kind) {
    case CloseKind::kNormal:
      return CloseCode::kNormal;
    case CloseKind::kGoingAway:
      return CloseCode::kGoingAway;
    case CloseKind::kProtocol:
      return CloseCode::kProtocolError;
    case CloseKind::kUnsupportedData:
      return CloseCode::kUnacceptable;
    case CloseKind::kMalformed:
      return CloseCode::kBadData;
    case CloseKind::kPolicy:
    case CloseKind::kHelloTimeout:
    case CloseKind::kUnauthorized:
      return CloseCode::kPolicy;
    case CloseKind::kTooLarge:
      return CloseCode::kTooBig;
    case CloseKind::kLost:
    case CloseKind::kDead:
      break;
  }
  return CloseCode::kInternal;  // not reached: nothing can be sent to who is gone
}

CloseKind kind_of(CloseCode code) {
  switch (code) {
    case CloseCode::kUnacceptable:
      return CloseKind::kUnsupportedData;
    case CloseCode::kBadData:
      return CloseKind::kMalformed;
    case CloseCode::kTooBig:
      return CloseKind::kTooLarge;
    default:
      return CloseKind::kProtocol;
  }
}

// Everything happens in turns on the strand: a handler does its part, then settle() does what has
// become due (resume, write, close, end) and arms what is waited for next. What the session asks of
// its Peer in between is only noted, so that no call of the session is ever made from inside
// another.
class Connection final : public Live,
                         public session::Peer,
                         private Inbound::Control,
                         public std::enable_shared_from_this<Connection> {
 public:
  Connection(const Surroundings& around, Descriptor socket, session::Encoding encoding)
      : around_(around),
        encoding_(encoding),
        strand_(asio::make_strand(around.context)),
        role_([this] { return strand_.running_in_this_thread(); }),
        socket_(strand_, socket.release()),
        timer_(strand_) {}

  void start(Door::Place place, std::span<const std::byte> first) {
    // The entry comes to the strand with the first turn: on_stop() may have run there before.
    asio::post(strand_,
               [self = shared_from_this(),
                entry = around_.registry->add(shared_from_this(), Registry::Stage::kOpen),
                place = std::move(place),
                first = std::vector<std::byte>(first.begin(), first.end())]() mutable {
                 self->open(std::move(entry), std::move(place), first);
               });
  }

  // ---- Live
  void stop() override {
    asio::post(strand_, [self = shared_from_this()] { self->on_stop(); });
  }

  // ---- session::Peer, called by the session on the strand
  void output_ready() override { output_ready_ = true; }
  void resume_input() override { resume_wanted_ = true; }
  void close(const CloseReason& reason) override {
    if (ending_) return;
    ending_ = reason;
    close_deadline_ = now() + around_.close_timeout;
    if (reason.kind == CloseKind::kLost || reason.kind == CloseKind::kDead) reset();
    // It moved no byte of what it was lent, and others wait for that memory: no close frame could
    // get through.
    if (reason.kind == CloseKind::kPolicy && lent_) reset();
  }
  void wake_at(Monotonic time) override { wish_ = time; }
  void set_socket_bytes(std::uint64_t bytes_each_way) override {
    ws::set_socket_bytes(socket_.native_handle(), bytes_each_way);
  }

 private:
  static Monotonic now() { return std::chrono::steady_clock::now(); }

  void open(Registry::Entry entry, Door::Place place, std::vector<std::byte>& first) {
    role_.assert_held();
    if (gone_) {  // the listener stopped in between; it waits for the entry, so the place goes
                  // first
      place = nullptr;
      return;
    }
    entry_ = std::move(entry);
    set_options(socket_.native_handle(), around_.ping_interval);
    last_heard_ = now();
    ping_at_ = last_heard_ + around_.ping_interval;
    // From any thread, at any time, also when the connection is gone.
    auto waker = [weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        auto strand = self->strand_;
        asio::post(strand, [self = std::move(self)] { self->on_wake(); });
      }
    };
    session_ = place({.transport = "websocket",
                      .address = peer_address(socket_.native_handle()),
                      .encoding = encoding_},
                     *this,
                     std::move(waker),
                     StrandRole([strand = strand_] { return strand.running_in_this_thread(); }));
    inbound_.emplace(
        *session_, encoding_ == session::Encoding::kFlat, static_cast<Inbound::Control&>(*this));
    if (!first.empty()) feed(first);
    settle();
  }

  // ---- Inbound::Control
  void on_ping(std::span<const std::byte> payload) override {
    around_.metrics.pings[Direction::kIn].add();
    writer_.pong(payload);
  }
  void on_message_read() override { around_.metrics.messages[Direction::kIn].add(); }
  void on_peer_close(std::uint16_t code, std::string_view /*reason*/) override {
    read_over_ = true;
    peer_closed_ = true;
    inbound_->discard();  // NOLINT(bugprone-unchecked-optional-access): who calls is a part of it
    if (ending_) return;
    answer_ = code;
    ending_ = CloseReason{CloseKind::kNormal, {}};
    close_deadline_ = now() + around_.close_timeout;
    last_words_ = true;
  }
  void on_failure(CloseCode code, std::string_view reason) override {
    // A text message is an error of ours to judge: frames go on to be read, for the peer's close.
    if (code != CloseCode::kUnacceptable) read_over_ = true;
    if (broken_) return;
    broken_ = true;
    ending_ = CloseReason{kind_of(code), std::string(reason)};
    close_deadline_ = now() + around_.close_timeout;
  }

  // ---- turns
  void on_readable(const error_code& ec) {
    role_.assert_held();
    read_waits_ = false;
    if (gone_) return;
    if (!ec) read_turn();
    settle();
  }

  void on_writable() {
    role_.assert_held();
    write_waits_ = false;
    if (gone_) return;
    write_blocked_ = false;
    settle();
  }

  void on_wake() {
    role_.assert_held();
    if (gone_ || !session_) return;
    session_->on_wake();
    settle();
  }

  void on_timer(std::uint64_t armed) {
    role_.assert_held();
    if (gone_ || armed != armed_) return;
    armed_for_.reset();
    const Monotonic time = now();
    if (close_deadline_ && time >= *close_deadline_) {
      reset();
    } else if (!ending_ && silent_ + 1 >= kSilentIntervals && time >= dead_at()) {
      ending_ = CloseReason{CloseKind::kDead,
                            fmt::format("no byte for {} ping intervals", kSilentIntervals)};
      reset();
    } else {
      if (time >= ping_at_) ping(time);
      if (wish_ && time >= *wish_ && session_) {
        wish_.reset();
        session_->on_timer();
      }
    }
    settle();
  }

  void on_stop() {
    role_.assert_held();
    if (gone_) return;
    if (!ending_) ending_ = CloseReason{CloseKind::kGoingAway, "the listener stops"};
    if (!writer_.closing() && !write_blocked_) {  // one try to say it
      send_close();
      write_gathered();
    }
    reset();
    settle();
  }

  // ---- in
  void read_turn() SB_REQUIRES(role_) {
    std::size_t budget = kTurnBytes;
    while (!ended_ && !(inbound_ && inbound_->paused())) {
      const auto direct = inbound_ && !read_over_ ? inbound_->direct() : std::span<std::byte>();
      const bool little = !direct.empty() || (inbound_ && inbound_->expect_large());
      const auto staged = staging().first(little ? kStagingAfterLarge : kStagingBytes);
      const std::array<iovec, 2> buffers{
          {{direct.data(), direct.size()}, {staged.data(), staged.size()}}};
      const Transfer got =
          read_into(socket_.native_handle(), std::span(buffers).subspan(direct.empty() ? 1 : 0));
      if (got.state == Transfer::State::kWouldBlock) return;
      if (got.state != Transfer::State::kMoved) return on_end_of_input();
      heard(got.bytes);
      const std::size_t direct_bytes = std::min(got.bytes, direct.size());
      if (direct_bytes != 0) inbound_->direct_filled(direct.first(direct_bytes));
      if (got.bytes > direct_bytes) feed(staged.first(got.bytes - direct_bytes));
      if (got.bytes < direct.size() + staged.size()) return;  // the socket is empty
      if (got.bytes >= budget) return;                        // it is asked again after others
      budget -= got.bytes;
    }
  }

  void heard(std::size_t bytes) {
    silent_ = 0;
    last_heard_ = now();
    around_.metrics.bytes[Direction::kIn].add(bytes);
  }

  void feed(std::span<std::byte> bytes) {
    if (inbound_ && !read_over_) inbound_->feed(bytes);
  }

  void on_end_of_input() {
    if (!ending_) ending_ = CloseReason{CloseKind::kLost, "the connection broke off"};
    ended_ = true;
  }

  // ---- out
  // Pulls from the session and writes, until there is nothing or the socket takes no more.
  void pump() SB_REQUIRES(role_) {
    std::size_t budget = kTurnBytes;
    while (!ended_ && !write_blocked_) {
      return_batch();
      pull();
      if (ending_ && !lent_ && !output_ready_ && !writer_.closing()) send_close();
      const std::size_t written = write_gathered();
      if (written == 0) return;
      if (written >= budget) {
        write_blocked_ = true;  // not so: but the socket is asked after others had their turn
        return;
      }
      budget -= written;
    }
  }

  void return_batch() {
    if (!lent_ || !writer_.batch_done()) return;
    lent_ = false;
    session_->batch_done();
  }

  void pull() {
    if (lent_ || !output_ready_ || !session_ || writer_.closing()) return;
    if (!batch_) batch_ = std::make_unique<session::Batch>();
    batch_->count = 0;
    batch_->bytes = 0;
    if (!session_->next_batch(*batch_)) {
      output_ready_ = false;
      return;
    }
    // To a peer that closed, or broke the rules: its last Acks are in this one.
    if (peer_closed_ || broken_) output_ready_ = false;
    lent_ = true;
    around_.metrics.messages[Direction::kOut].add(batch_->count);
    writer_.load(batch_->view());
  }

  /// Once ending_ has a reason.
  void send_close() {
    // NOLINTBEGIN(bugprone-unchecked-optional-access): the caller has looked
    // The peer's own code goes back to it (RFC 6455 5.5.1), unless this side began.
    const auto code = answer_ ? *answer_ : static_cast<std::uint16_t>(code_of(ending_->kind));
    around_.metrics.closes[metrics::close_code(code)].add();
    writer_.close(code, ending_->text);
    // NOLINTEND(bugprone-unchecked-optional-access)
  }

  // Returns the bytes that were written; 0: nothing to write, or blocked, or broken.
  std::size_t write_gathered() {
    const auto entries = writer_.gather();
    if (entries.empty()) return 0;
    const Transfer put = write_from(socket_.native_handle(), entries);
    around_.metrics.writes.add();
    if (put.state == Transfer::State::kWouldBlock) {
      write_blocked_ = true;
      writer_.keep_rest(kKeepRestUpTo);
      return_batch();
      return 0;
    }
    if (put.state != Transfer::State::kMoved) {
      on_end_of_input();
      return 0;
    }
    around_.metrics.bytes[Direction::kOut].add(put.bytes);
    writer_.advance(put.bytes);
    if (lent_) session_->batch_progress(put.bytes);
    return put.bytes;
  }

  void ping(Monotonic time) {
    ping_at_ = time + around_.ping_interval;
    if (ending_) return;
    // A paused session does not read: silence is ours then, not the peer's.
    if (inbound_ && inbound_->paused()) {
      last_heard_ = time;
    } else if (time - last_heard_ >= around_.ping_interval) {
      ++silent_;  // counted in pings, so that a bridge that itself stood still blames nobody
    }
    around_.metrics.pings[Direction::kOut].add();
    writer_.ping({});
  }

  [[nodiscard]] Monotonic dead_at() const {
    return last_heard_ + kSilentIntervals * around_.ping_interval;
  }

  // ---- the end
  void reset() {
    ended_ = true;
    reset_ = true;
  }

  void settle() SB_REQUIRES(role_) {
    do {
      while (resume_wanted_ && !ended_ && inbound_) {
        resume_wanted_ = false;
        inbound_->resume();
      }
      if (std::exchange(last_words_, false) && session_) session_->on_half_close();
      pump();
    } while (resume_wanted_ && !ended_ && inbound_);
    if (!ended_ && writer_.closed() && (peer_closed_ || broken_) && session_) {
      finish_session();
      // The rest is for the peer's sake: it reads our close frame, then sees the end.
      send_no_more(socket_.native_handle());
    }
    if (ended_) return end();
    if (writer_.idle()) batch_.reset();
    wait_readable();
    wait_writable();
    wait_timer();
  }

  // The session hears of the end once; what it lent is not touched after.
  void finish_session() SB_REQUIRES(role_) {
    inbound_.reset();
    if (!session_) return;
    const auto last = std::exchange(session_, nullptr);
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a connection ends with a reason
    last->on_closed(*ending_, peer_closed_);
  }

  void end() SB_REQUIRES(role_) {
    gone_ = true;
    if (reset_) set_reset(socket_.native_handle());
    finish_session();
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
    entry_ = {};
  }

  // ---- waits
  void wait_readable() {
    if (read_waits_ || (inbound_ && inbound_->paused())) return;
    read_waits_ = true;
    socket_.async_wait(socket_.wait_read, [self = shared_from_this()](const error_code& ec) {
      self->on_readable(ec);
    });
  }

  void wait_writable() {
    if (!write_blocked_ || write_waits_) return;
    write_waits_ = true;
    socket_.async_wait(socket_.wait_write, [self = shared_from_this()](const error_code& /*ec*/) {
      self->on_writable();
    });
  }

  void wait_timer() {
    Monotonic next = ping_at_;
    if (wish_) next = std::min(next, *wish_);
    if (close_deadline_) next = std::min(next, *close_deadline_);
    if (silent_ + 1 >= kSilentIntervals) next = std::min(next, dead_at());
    if (armed_for_ && *armed_for_ <= next) return;  // it fires early enough to look again
    armed_for_ = next;
    timer_.expires_at(next);
    timer_.async_wait([self = shared_from_this(), armed = ++armed_](const error_code& ec) {
      if (!ec) self->on_timer(armed);
    });
  }

  const Surroundings& around_;
  const session::Encoding encoding_;
  Strand strand_;
  StrandRole role_;
  asio::posix::basic_stream_descriptor<Strand> socket_;
  Timer timer_;
  Registry::Entry entry_;
  std::shared_ptr<session::Session> session_;
  std::optional<Inbound> inbound_;
  Writer writer_;
  std::unique_ptr<session::Batch> batch_;

  bool lent_ = false;           // batch_ is the session's until batch_done()
  bool output_ready_ = false;   // next_batch() may have something
  bool resume_wanted_ = false;  // by the session, done in settle()
  bool last_words_ = false;     // the peer closed: one more batch, for the last Acks
  bool read_over_ = false;      // what still comes is thrown away
  bool peer_closed_ = false;
  bool broken_ = false;  // the peer broke a rule of the transport
  bool ended_ = false;   // this turn is the last
  bool reset_ = false;   // ... and ends with RST
  bool gone_ = false;
  bool read_waits_ = false;
  bool write_waits_ = false;
  bool write_blocked_ = false;
  std::optional<std::uint16_t> answer_;  // the code of a close that the peer began
  std::optional<CloseReason> ending_;    // the first reason stays
  std::optional<Monotonic> close_deadline_;
  std::optional<Monotonic> wish_;  // of the session
  std::optional<Monotonic> armed_for_;
  std::uint64_t armed_ = 0;
  Monotonic ping_at_{};
  Monotonic last_heard_{};
  unsigned silent_ = 0;  // pings since the last byte
};

}  // namespace

void start_connection(const Surroundings& around,
                      Descriptor socket,
                      Door::Place place,
                      session::Encoding encoding,
                      std::span<const std::byte> first) {
  std::make_shared<Connection>(around, std::move(socket), encoding)->start(std::move(place), first);
}

}  // namespace simbridge::transport::ws
