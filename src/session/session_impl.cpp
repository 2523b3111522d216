#include "session/session_impl.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <algorithm>

namespace simbridge::session {
namespace {

// Control messages that wait beyond this stop the reading: a peer that does not read cannot make us
// store.
constexpr std::size_t kOutboxHigh = 256 * 1024;

metrics::CloseCause cause_of(const CloseReason& reason, bool clean) {
  using metrics::CloseCause;
  switch (reason.kind) {
    case CloseKind::kNormal:
      return clean ? CloseCause::kGoodbye : CloseCause::kLost;
    case CloseKind::kGoingAway:
      return CloseCause::kDrain;
    case CloseKind::kProtocol:
      return CloseCause::kProtocol;
    case CloseKind::kUnsupportedData:
      return CloseCause::kWrongType;
    case CloseKind::kMalformed:
      return CloseCause::kMalformed;
    case CloseKind::kPolicy:
      return CloseCause::kStalled;
    case CloseKind::kHelloTimeout:
      return CloseCause::kHelloTimeout;
    case CloseKind::kUnauthorized:
      return CloseCause::kUnauthorized;
    case CloseKind::kTooLarge:
      return CloseCause::kTooLarge;
    case CloseKind::kLost:
      return CloseCause::kLost;
    case CloseKind::kDead:
      return CloseCause::kDead;
  }
  return CloseCause::kInternal;
}

}  // namespace

SessionImpl::SessionImpl(Hub::Impl& hub,
                         Admission admission,
                         std::uint64_t id,
                         PeerInfo info,
                         Peer& peer,
                         std::move_only_function<void() const> waker,
                         StrandRole role)
    : hub_(hub),
      peer_(peer),
      role_(std::move(role)),
      id_(id),
      info_(std::move(info)),
      wake_(std::make_shared<frame::WakeQueue>(std::move(waker))),
      books_(std::make_shared<SessionBooks>()),
      admission_(std::move(admission)),
      outbox_(info_.encoding) {
  books_->id = id;
  books_->transport = info_.transport;
  books_->address = info_.address;
  books_->opened_ns = monotonic_ns(hub_.clock);
  hello_by_ = hub_.clock.now() + hub_.options.hello_timeout;
  arm(hello_by_);
}

SessionImpl::~SessionImpl() {
  // The transport called on_closed() on the strand; whatever came after it found nothing left to
  // do.
  SB_CHECK(in_flight_.empty() && producing_.empty(), "a session is closed before it is destroyed");
}

void SessionImpl::arm(Monotonic when) {
  if (when >= armed_) return;
  armed_ = when;
  peer_.wake_at(when);
}

void SessionImpl::send(const wire::ServerMessage& message) {
  if (state_ == State::kClosed) return;
  outbox_.push(message);
  account_outbox();
}

void SessionImpl::send_gap(const wire::Gap& gap) {
  if (state_ == State::kClosed) return;
  send(gap);
  hub_.metrics.gaps[static_cast<unsigned>(gap.reason)].add();
}

void SessionImpl::account_outbox() {
  const std::uint64_t bytes = outbox_.bytes();
  const std::uint64_t before = books_->outbox_bytes.load(std::memory_order_relaxed);
  hub_.metrics.outbox_bytes.add(static_cast<std::int64_t>(bytes) -
                                static_cast<std::int64_t>(before));
  books_->outbox_bytes.store(bytes, std::memory_order_relaxed);
}

bool SessionImpl::has_output() const {
  if (!outbox_.empty()) return true;
  if (state_ != State::kOpen) return false;
  if (!ready_.empty() || parts_.reading) return true;
  if (seen_version_ != hub_.version() || !first_list_done_) return true;
  return std::ranges::any_of(subscriptions_,
                             [](const auto& entry) { return entry.second->state_dirty; });
}

void SessionImpl::announce_output() {
  if (output_announced_ || in_batch_ || state_ == State::kClosed || !has_output()) return;
  output_announced_ = true;
  peer_.output_ready();
}

bool SessionImpl::input_blocked() const {
  return outbox_.bytes() > kOutboxHigh;
}

void SessionImpl::resume_if_possible() {
  if (!input_paused_ || input_blocked()) return;
  input_paused_ = false;
  peer_.resume_input();
}

void SessionImpl::close(CloseKind kind, std::string text) {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  // Its channels end here, each after its last Ack: their names are free for who comes next.
  end_all_producing();
  state_ = State::kClosing;
  closing_kind_ = kind;
  peer_.close(CloseReason{kind, std::move(text)});
}

void SessionImpl::on_wake() {
  role_.assert_held();
  if (state_ == State::kClosed || memory_watcher_ == nullptr) return;
  bool room = false;
  bool ticket = false;
  wake_->drain([&](std::uint32_t index) SB_NO_ANALYSIS {
    if (index == memory_watcher_->slot.index) {
      room = true;
      return;
    }
    if (index == ticket_watcher_->slot.index) {
      ticket = true;
      return;
    }
    if (index >= slots_.size()) return;
    if (slots_[index].reading != nullptr) queue(*slots_[index].reading);
    if (Producing* from = slots_[index].producing; from != nullptr) {
      // Reliable readers freed room: a rise from nothing is told at once, others when they are
      // worth it.
      const std::uint64_t now_open = window(*from);
      if (now_open > from->told_window + hub_.options.window_bytes / 2 ||
          (from->told_window == 0 && now_open > 0)) {
        from->ack_due = true;
      }
    }
  });
  if (ticket) {
    for (auto& reading : blocked_) {
      if (reading->subscription != nullptr) queue(*reading);
    }
    blocked_.clear();
  }
  const Monotonic now = hub_.clock.now();
  send_acks(now);
  if (state_ == State::kOpen && hub_.draining.load(std::memory_order_acquire)) drain_step(now);
  announce_output();
  if (room) resume_if_possible();
}

void SessionImpl::on_timer() {
  role_.assert_held();
  if (state_ == State::kClosed) return;
  armed_ = Monotonic::max();
  const Monotonic now = hub_.clock.now();
  if (state_ == State::kNeedHello) {
    if (now >= hello_by_) {
      close(CloseKind::kHelloTimeout,
            fmt::format("no Hello within {} ms (session.hello_timeout_ms)",
                        hub_.options.hello_timeout.count()));
    } else {
      arm(hello_by_);
    }
    return;
  }
  if (state_ == State::kOpen) {
    send_acks(now);
    check_claims(now);
    ask_again();
    for (auto& [id, subscription] : subscriptions_) {
      if (!subscription->postponed) continue;
      const Monotonic next = subscription->change_window + std::chrono::seconds(1);
      if (now < next) {
        arm(next);
        continue;
      }
      const auto postponed = std::move(subscription->postponed);
      subscription->change_window = now;
      subscription->changes_in_window = 1;
      apply_change(*subscription, *postponed);
    }
    if (hub_.draining.load(std::memory_order_acquire)) drain_step(now);
  }
  check_stall(now);
  if (input_paused_) transfer_.drop_at = std::max(transfer_.drop_at, now + std::chrono::seconds(1));
  if (transfer_.running && now >= transfer_.drop_at) drop_transfer();
  if (transfer_.running) arm(transfer_.drop_at);
  check_slow(pieces_.frame, now);
  check_slow(transfer_.frame, now);
  announce_output();
  if (room_by_ && now < *room_by_) arm(*room_by_);
  if (room_by_ && now >= *room_by_) resume_if_possible();
}

void SessionImpl::on_half_close() {
  role_.assert_held();
  if (state_ != State::kOpen) return;
  half_closed_ = true;
  end_all_producing();
  if (subscriptions_.empty())
    close(CloseKind::kNormal, "the peer has ended its side and reads nothing");
  announce_output();
}

void SessionImpl::on_closed(const CloseReason& reason, bool clean) {
  role_.assert_held();
  if (state_ == State::kClosed) return;
  const bool ours = state_ == State::kClosing;
  CloseReason why = reason;
  if (ours) why.kind = closing_kind_;
  if (goodbye_) why.kind = CloseKind::kNormal;
  hub_.metrics.closed[cause_of(why, clean || goodbye_ || ours)].add();
  log(LogLevel::kInfo,
      "session_closed",
      "session {} ({}) of {} ended: {}",
      id_,
      hello_.name.empty() ? "no name" : hello_.name,
      info_.address,
      why.text.empty() ? "closed" : why.text);
  state_ = State::kClosed;  // nothing is said any more
  free_everything();
}

std::shared_ptr<void> SessionImpl::take_references() {
  role_.assert_held();
  struct Kept {
    frame::PinTicket ticket;
    std::vector<frame::FrameRef> frames;
  };
  auto kept = std::make_shared<Kept>();
  kept->ticket = std::move(ticket_);
  for (InFlight& flight : in_flight_) kept->frames.push_back(std::move(flight.frame));
  return kept;
}

void SessionImpl::free_everything() {
  std::uint64_t broken_off = parts_.reading ? 1 : 0;
  for (const InFlight& flight : in_flight_) {
    if (flight.counts) ++broken_off;
  }
  std::vector<InFlight>().swap(in_flight_);
  hub_.metrics.broken_off_frames.add(broken_off);
  in_batch_ = false;
  ticket_ = frame::PinTicket{};
  parts_ = PartsOut{};
  blocked_.clear();
  end_all_producing();
  for (auto& [id, subscription] : subscriptions_) {
    for (auto& reading : subscription->readings) end_reading(*reading);
    hub_.metrics.subscriptions.add(-1);
  }
  subscriptions_.clear();
  ready_.clear();
  pieces_ = MessageInPieces{};
  transfer_ = Transfer{};
  release_scratch();
  advertised_owed_.clear();
  outbox_ = Outbox(info_.encoding);
  account_outbox();
  if (memory_watcher_ != nullptr) {  // Hello was accepted
    hub_.remove_session(id_);
    hub_.metrics.open.add(-1);
  }
  memory_watcher_.reset();
  ticket_watcher_.reset();
  admission_ = Admission{};
}

// ---- drain (protocol.md §2.6)

void SessionImpl::begin_drain(Monotonic now) {
  drain_begun_ = true;
  const DrainPlan& plan = hub_.drain_plan;
  const bool producer = !producing_.empty();
  drain_deadline_ = plan.start + plan.deadline;
  // Producers go first, one after another over the first half.
  drain_turn_ = plan.start;
  if (producer)
    drain_turn_ += milliseconds(static_cast<std::int64_t>(
        hub_.drain_turn() * static_cast<double>(plan.deadline.count()) / 2));
  const auto left = std::chrono::duration_cast<milliseconds>(drain_deadline_ - now).count();
  // Peers do not come back together: from once to twice the time, by their number.
  const auto spread = static_cast<double>((id_ * 2654435761U) % 1000U) / 1000.0;
  send(wire::Drain{.reason = plan.reason,
                   .deadline_ms = static_cast<std::uint32_t>(std::max<std::int64_t>(0, left)),
                   .retry_after_ms = static_cast<std::uint32_t>(
                       static_cast<double>(plan.retry_after.count()) * (1.0 + spread))});
  for (auto& [number, from] : producing_) from->ack_due = true;  // the window is 0 now
  send_acks(now);
}

bool SessionImpl::all_at_head() const {
  if (in_batch_ || parts_.reading) return false;
  for (const auto& [id, subscription] : subscriptions_) {
    for (const auto& reading : subscription->readings) {
      if (reading->cursor < reading->channel->ring->head() || !reading->gaps.empty()) return false;
    }
  }
  return true;
}

void SessionImpl::drain_step(Monotonic now) {
  if (!drain_begun_) begin_drain(now);
  if (!producing_.empty()) {
    if (now < drain_turn_) {
      arm(drain_turn_);
      return;
    }
    end_all_producing();
    if (subscriptions_.empty()) {
      close(CloseKind::kGoingAway, "the bridge is going away");
      return;
    }
  }
  const bool producers_gone = hub_.producing_sessions.load(std::memory_order_acquire) == 0;
  if ((producers_gone && all_at_head() && outbox_.empty()) || subscriptions_.empty()) {
    close(CloseKind::kGoingAway, "the bridge is going away");
    return;
  }
  if (now < drain_deadline_) {
    // Waking by frames and by leaving producers does the rest; the deadline is the last word.
    arm(std::min(drain_deadline_, now + milliseconds(50)));
    return;
  }
  abandon_parts(wire::GapReason::kShutdown);
  for (auto& [id, subscription] : subscriptions_) {
    for (auto& reading : subscription->readings) {
      lose(*reading, reading->channel->ring->head(), wire::GapReason::kShutdown);
      for (const wire::Gap& gap : reading->gaps) send_gap(gap);
      reading->gaps.clear();
    }
  }
  close(CloseKind::kGoingAway, "the bridge is going away");
}

}  // namespace simbridge::session
