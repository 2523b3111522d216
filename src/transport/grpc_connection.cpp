#include "transport/grpc_connection.h"

#include "simbridge/base/check.h"
#include "simbridge/base/strand_role.h"
#include "transport/grpc_inbound.h"

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace simbridge::transport::rpc {
namespace {

using metrics::Direction;
using session::CloseKind;
using session::CloseReason;

Code code_of(CloseKind kind) {
  switch (kind) {
    case CloseKind::kNormal:
      return Code::kOk;
    case CloseKind::kGoingAway:
      return Code::kUnavailable;
    case CloseKind::kProtocol:
    case CloseKind::kUnsupportedData:
    case CloseKind::kMalformed:
      return Code::kInvalidArgument;
    case CloseKind::kPolicy:
      return Code::kAborted;
    case CloseKind::kHelloTimeout:
      return Code::kDeadlineExceeded;
    case CloseKind::kUnauthorized:
      return Code::kUnauthenticated;
    case CloseKind::kTooLarge:
      return Code::kResourceExhausted;
    case CloseKind::kLost:
    case CloseKind::kDead:
      break;
  }
  return Code::kCancelled;  // broken off, as the peer sees it
}

// As on the WebSocket road: a handler does its part, then settle() does what has become due. What
// the session asks of its Peer in between is only noted, so that no call of the session is ever
// made from inside another.
class Connection final : public Logic, public session::Peer {
 public:
  Connection(const Surroundings& around, Call& call, Roster& roster, Door::Place place)
      : around_(around),
        call_(call),
        roster_(roster),
        role_([&queue = call.queue()] { return queue.here(); }),
        place_(std::move(place)),
        outgoing_(around.lent, waker()) {}

  // ---- session::Peer, called by the session on the strand
  void output_ready() override { output_ready_ = true; }
  void resume_input() override { resume_wanted_ = true; }
  void close(const CloseReason& reason) override {
    if (ending_) return;
    ending_ = reason;
    close_deadline_ = now() + around_.close_timeout;
    if (reason.kind == CloseKind::kLost || reason.kind == CloseKind::kDead) call_.cancel();
    // It moved no byte of what it was lent, and others wait for that memory: no status could get
    // through.
    if (reason.kind == CloseKind::kPolicy && lent_) call_.cancel();
  }
  void wake_at(Monotonic time) override { wish_ = time; }
  // gRPC has its sockets to itself; its memory is bounded by the listener's quota.
  void set_socket_bytes(std::uint64_t /*bytes_each_way*/) override {}

  // ---- Logic
  void start() override {
    role_.assert_held();
    roster_.add(call_);
    around_.metrics.streams.add(1);
    session_ = place_({.transport = "grpc", .address = call_.peer()},
                      *this,
                      waker(),
                      StrandRole([&queue = call_.queue()] { return queue.here(); }));
    place_ = nullptr;
    inbound_.emplace(*session_);
    on_phase(roster_.phase());
  }

  void on_phase(Phase phase) override {
    role_.assert_held();
    // A drain is the session's: it hears of it from the hub.
    if (phase == Phase::kStopping && !ending_) {
      ending_ = CloseReason{CloseKind::kGoingAway, "the listener stops"};
      close_deadline_ = now() + around_.close_timeout;
      broken_ = true;
    }
    settle();
  }

  void on_read(bool ok) override {
    role_.assert_held();
    reading_ = false;
    if (!ok) {
      // Half-closed, or broken off: the latter is told right after, so the rest is done once all
      // that is known was heard.
      read_over_ = true;
      call_.idle();
      return;
    }
    Received message = call_.take();
    around_.metrics.messages[Direction::kIn].add();
    around_.metrics.bytes[Direction::kIn].add(message.bytes());
    if (inbound_ && !ending_) took(inbound_->take(std::move(message)));
    settle();
  }

  void on_idle() override {
    role_.assert_held();
    if (session_ && !ending_) {
      half_closed_ = true;
      session_->on_half_close();
    }
    settle();
  }

  void on_written(bool ok) override {
    role_.assert_held();
    writing_ = false;
    if (!ok) broken_off_ = true;  // the end of the call is told next
    if (session_ && lent_) session_->batch_progress(std::exchange(written_bytes_, 0));
    settle();
  }

  void on_finished() override {
    role_.assert_held();
    finish_session();
  }

  void on_over() override {
    role_.assert_held();
    if (!ending_) ending_ = CloseReason{CloseKind::kLost, "the call was broken off"};
    finish_session();
    inbound_.reset();
    roster_.remove(call_);
    around_.metrics.streams.add(-1);
  }

  void on_mail() override {
    role_.assert_held();
    if (!session_) return;
    report_progress();
    session_->on_wake();
    settle();
  }

  void on_time() override {
    role_.assert_held();
    const Monotonic time = now();
    if (close_deadline_ && time >= *close_deadline_) {
      close_deadline_.reset();
      call_.cancel();
    }
    if (wish_ && time >= *wish_ && session_) {
      wish_.reset();
      report_progress();
      session_->on_timer();
    }
    settle();
  }

 private:
  static Monotonic now() { return std::chrono::steady_clock::now(); }

  [[nodiscard]] std::function<void()> waker() {
    // From any thread, at any time, also when the call is gone.
    return [weak = call_.weak_from_this()] {
      if (const auto call = weak.lock()) call->wake();
    };
  }

  void took(Inbound::Took answer) {
    if (answer != Inbound::Took::kTooLarge || ending_) return;
    broken_ = true;
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it is what answered
    ending_ = CloseReason{CloseKind::kTooLarge, inbound_->too_large()};
    close_deadline_ = now() + around_.close_timeout;
  }

  void settle() SB_REQUIRES(role_) {
    if (!session_) return;
    // NOLINTBEGIN(bugprone-unchecked-optional-access): who has a session has what feeds it
    do {
      while (std::exchange(resume_wanted_, false) && inbound_->paused()) took(inbound_->resume());
      pump();
    } while (resume_wanted_ && inbound_->paused());
    if (!reading_ && !read_over_ && !ending_ && !inbound_->paused()) {
      reading_ = true;
      call_.read();
    }
    // NOLINTEND(bugprone-unchecked-optional-access)
    arm();
  }

  void pump() SB_REQUIRES(role_) {
    if (writing_ || finishing_ || broken_off_) return;
    if (lent_ && outgoing_.done()) {
      lent_ = false;
      session_->batch_done();
    }
    if (!lent_) pull();
    if (outgoing_.more()) return write();
    if (ending_ && !lent_ && !output_ready_) finish();
  }

  void pull() SB_REQUIRES(role_) {
    if (!output_ready_) return;
    if (!batch_) batch_ = std::make_unique<session::Batch>();
    batch_->count = 0;
    batch_->bytes = 0;
    if (!session_->next_batch(*batch_)) {
      output_ready_ = false;
      batch_.reset();
      return;
    }
    // To a peer that broke the rules: its last Acks are in this one.
    if (broken_) output_ready_ = false;
    lent_ = true;
    around_.metrics.messages[Direction::kOut].add(batch_->count);
    around_.metrics.bytes[Direction::kOut].add(batch_->bytes);
    outgoing_.load(batch_->view());
  }

  void write() {
    // Only with its last message gRPC has to send what it holds. Where that lent memory, it tells
    // when the kernel has it all. The very first message brings the call's headers: held back, it
    // would never be told as written.
    const bool last = outgoing_.last();
    const bool first = !std::exchange(spoke_, true);
    const Call::WriteHow how{.more_follows = !last && !first,
                             .until_written = last && outgoing_.shares()};
    const grpc::ByteBuffer message = outgoing_.next();
    written_bytes_ += message.Length();
    writing_ = true;
    call_.write(message, how);
  }

  void finish() {
    finishing_ = true;
    // NOLINTBEGIN(bugprone-unchecked-optional-access): the caller has looked
    const Code code = code_of(ending_->kind);
    around_.metrics.endings[static_cast<unsigned>(code)].add();
    call_.finish({.code = code, .text = ending_->text, .retry_after = {}});
    // NOLINTEND(bugprone-unchecked-optional-access)
  }

  void report_progress() SB_REQUIRES(role_) {
    if (!lent_) return;
    if (const std::uint64_t bytes = outgoing_.moved(); bytes != 0) session_->batch_progress(bytes);
  }

  // The session hears of the end once. What gRPC still reads of its memory is kept until it does
  // not.
  void finish_session() SB_REQUIRES(role_) {
    if (!session_) return;
    const auto last = std::exchange(session_, nullptr);
    outgoing_.give_up(lent_ ? last->take_references() : nullptr);
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a call ends with a reason
    last->on_closed(*ending_, half_closed_);
    batch_.reset();
    lent_ = false;
    arm();
  }

  void arm() {
    std::optional<Monotonic> next = session_ ? wish_ : std::nullopt;
    if (close_deadline_ && (!next || *close_deadline_ < *next)) next = close_deadline_;
    if (next) {
      call_.set_timer(*next);
    } else {
      call_.drop_timer();
    }
  }

  const Surroundings& around_;
  Call& call_;
  Roster& roster_;
  StrandRole role_;
  Door::Place place_;
  std::shared_ptr<session::Session> session_;
  std::optional<Inbound> inbound_;
  Outgoing outgoing_;
  std::unique_ptr<session::Batch> batch_;

  bool lent_ = false;  // batch_ is the session's until batch_done()
  bool output_ready_ = false;
  bool resume_wanted_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool spoke_ = false;  // a message was written
  bool read_over_ = false;
  bool half_closed_ = false;
  bool broken_ = false;      // by a breach of the transport's rules, or by its stop
  bool broken_off_ = false;  // nothing can be written any more
  std::size_t written_bytes_ = 0;
  std::optional<CloseReason> ending_;  // the first reason stays
  std::optional<Monotonic> close_deadline_;
  std::optional<Monotonic> wish_;  // of the session
};

}  // namespace

std::unique_ptr<Logic> make_connection(const Surroundings& around,
                                       Call& call,
                                       Roster& roster,
                                       Door::Place place) {
  return std::make_unique<Connection>(around, call, roster, std::move(place));
}

}  // namespace simbridge::transport::rpc
