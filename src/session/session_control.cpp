// Control messages: what a peer asks for, and what it is told.
#include "session/session_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <algorithm>

namespace simbridge::session {
namespace {

constexpr std::size_t kHelloString = 256;
constexpr std::size_t kTokenBytes = 8 * 1024;
constexpr std::uint32_t kMalformedLimit = 16;
constexpr std::uint32_t kChangesPerSecond = 10;
constexpr std::uint32_t kPongsWaiting = 64;
constexpr std::size_t kListAtOnce = 512;
constexpr std::size_t kOutboxForLists = 128 * 1024;
constexpr std::uint64_t kControlBytes = 64 * 1024;

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

}  // namespace

Flow SessionImpl::handle(const wire::ClientMessage& message, std::span<const std::byte> bytes) {
  if (state_ == State::kClosing || state_ == State::kClosed) return Flow::kStop;
  const bool is_hello = std::holds_alternative<wire::Hello>(message);
  if (state_ == State::kNeedHello && !is_hello) {
    send(wire::Reject{.code = wire::RejectCode::kMalformed,
                      .detail = "the first message of a session is Hello"});
    close(CloseKind::kProtocol, "the first message of a session is Hello");
    return Flow::kStop;
  }
  if (const auto* malformed = std::get_if<wire::Malformed>(&message))
    return refuse_malformed(malformed->detail);
  if (const auto* unsupported = std::get_if<wire::Unsupported>(&message)) {
    reject_request({.code = wire::RejectCode::kUnsupported, .detail = unsupported->detail});
    return Flow::kContinue;
  }
  malformed_in_a_row_ = 0;
  const bool small = bytes.size() <= kControlBytes ||
                     std::holds_alternative<wire::Advertise>(message) ||
                     std::holds_alternative<wire::FrameBody>(message) ||
                     std::holds_alternative<wire::Part>(message);
  if (!small) {
    reject_request(
        {.code = wire::RejectCode::kLimit,
         .detail = fmt::format(
             "a control message of {} bytes; {} are allowed", bytes.size(), kControlBytes)});
    return Flow::kContinue;
  }
  return std::visit(
      Overloaded{
          [&](const wire::Hello& hello) SB_NO_ANALYSIS { return on_hello(hello); },
          [&](const wire::Advertise& advertise) SB_NO_ANALYSIS {
            on_advertise(advertise);
            return Flow::kContinue;
          },
          [&](const wire::Unadvertise& unadvertise) SB_NO_ANALYSIS {
            if (auto found = producing_.find(unadvertise.channel); found != producing_.end()) {
              found->second->ack_due = found->second->unacked_frames > 0;
              send_acks(hub_.clock.now());
              end_producing(unadvertise.channel);
            } else {
              reject_request(
                  {.channel = unadvertise.channel,
                   .code = wire::RejectCode::kUnknownChannel,
                   .detail = fmt::format("channel {} was not advertised", unadvertise.channel)});
            }
            return Flow::kContinue;
          },
          [&](const wire::Subscribe& subscribe) SB_NO_ANALYSIS {
            on_subscribe(subscribe);
            return Flow::kContinue;
          },
          [&](const wire::Unsubscribe& unsubscribe) SB_NO_ANALYSIS {
            on_unsubscribe(unsubscribe.id);
            return Flow::kContinue;
          },
          [&](const wire::Credit& credit) SB_NO_ANALYSIS {
            on_credit(credit);
            return Flow::kContinue;
          },
          [&](const wire::Ping& ping) SB_NO_ANALYSIS {
            // A peer that pings without reading gets no more answers than it can have use for.
            if (pongs_waiting_ < kPongsWaiting) {
              ++pongs_waiting_;
              send(wire::Pong{
                  .cookie = ping.cookie, .sent_ns = ping.sent_ns, .now_ns = hub_.clock.wall_ns()});
            }
            return Flow::kContinue;
          },
          [&](const wire::Goodbye& goodbye) SB_NO_ANALYSIS {
            goodbye_ = true;
            close(CloseKind::kNormal,
                  goodbye.reason.empty() ? "goodbye" : goodbye.reason.substr(0, 100));
            return Flow::kStop;
          },
          [&](const wire::Part& part) SB_NO_ANALYSIS { return on_part(part); },
          [&](const wire::FrameBody&) SB_NO_ANALYSIS { return on_frame(bytes, head_, true); },
          [](const wire::Malformed&) { return Flow::kContinue; },
          [](const wire::Unsupported&) { return Flow::kContinue; },
      },
      message);
}

Flow SessionImpl::refuse_malformed(std::string detail) {
  reject_request({.code = wire::RejectCode::kMalformed, .detail = std::move(detail)});
  if (++malformed_in_a_row_ < kMalformedLimit) return Flow::kContinue;
  close(CloseKind::kMalformed,
        fmt::format("{} messages in a row that do not parse", kMalformedLimit));
  return Flow::kStop;
}

void SessionImpl::reject_request(wire::Reject reject) {
  hub_.metrics.rejected_requests[static_cast<unsigned>(reject.code)].add();
  log(LogLevel::kWarning,
      "request_rejected",
      "session {}: {} ({})",
      id_,
      wire::name_of(reject.code),
      reject.detail);
  send(reject);
}

Flow SessionImpl::on_hello(const wire::Hello& hello) {
  if (state_ != State::kNeedHello) {
    reject_request(
        {.code = wire::RejectCode::kMalformed, .detail = "Hello comes once in a session"});
    return Flow::kContinue;
  }
  if (hub_.draining.load(std::memory_order_acquire)) {
    send(wire::Reject{.code = wire::RejectCode::kDraining, .detail = "the bridge is going away"});
    close(CloseKind::kGoingAway, "the bridge is going away");
    return Flow::kStop;
  }
  const auto too_long = [&]() -> std::string {
    if (hello.name.size() > kHelloString) return fmt::format("name of {} bytes", hello.name.size());
    if (hello.agent.size() > kHelloString)
      return fmt::format("agent of {} bytes", hello.agent.size());
    if (hello.peer_key.size() > kHelloString)
      return fmt::format("peer_key of {} bytes", hello.peer_key.size());
    if (hello.token.size() > kTokenBytes)
      return fmt::format("token of {} bytes", hello.token.size());
    return {};
  }();
  if (!too_long.empty()) {
    send(wire::Reject{
        .code = wire::RejectCode::kLimit,
        .detail = fmt::format("Hello with a {}; strings may have 256, the token 8192", too_long)});
    close(CloseKind::kProtocol, "Hello above its limits");
    return Flow::kStop;
  }
  hello_ = hello;
  hello_.token
      .clear();  // not kept: nothing here checks it yet, and a secret that is not there cannot leak
  state_ = State::kOpen;
  books_->name = hello_.name;
  books_->agent = hello_.agent;
  memory_watcher_ = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
  ticket_watcher_ = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
  hub_.add_session({books_, wake_});
  hub_.metrics.opened.add();
  hub_.metrics.open.add(1);
  first_list_until_ = hub_.version();
  log(LogLevel::kInfo,
      "session_opened",
      "session {} ({}, {}) from {} over {}",
      id_,
      hello_.name.empty() ? "no name" : hello_.name,
      hello_.agent.empty() ? "no agent" : hello_.agent,
      info_.address,
      info_.transport);
  send(wire::Welcome{.bridge = hub_.options.bridge_name,
                     .version = hub_.options.version,
                     .boot_id = hub_.options.boot_id,
                     .session = id_,
                     .max_message_bytes = hub_.options.max_message_bytes,
                     .max_frame_bytes = hub_.store.max_frame_bytes().count,
                     .ping_interval_ms = hub_.options.ping_interval_ms,
                     .now_ns = hub_.clock.wall_ns()});
  sync_channels();
  return Flow::kContinue;
}

// ---- channels

void SessionImpl::sync_channels() {
  if (first_list_done_ && seen_version_ == hub_.version()) return;
  std::vector<ChangedChannel> changed;
  while (outbox_.bytes() < kOutboxForLists) {
    changed.clear();
    wire::Channels list;
    seen_version_ = hub_.changes_after(seen_version_, kListAtOnce, changed, list.channel);
    books_->seen_version.store(seen_version_, std::memory_order_relaxed);
    for (const ChangedChannel& change : changed) {
      if (!change.channel) list.removed.push_back(change.removed);
    }
    if (!first_list_done_ && seen_version_ >= first_list_until_) {
      list.complete = true;
      first_list_done_ = true;
    }
    if (!list.channel.empty() || !list.removed.empty() || list.complete) send(list);
    for (const ChangedChannel& change : changed) {
      if (!change.channel) continue;
      for (auto& [id, subscription] : subscriptions_) {
        if (!subscription->ending &&
            wire::matches(subscription->spec.channel, change.channel->name)) {
          meet(*subscription, change.channel);
        }
      }
    }
    for (const std::uint32_t removed : list.removed) {
      for (auto& [id, subscription] : subscriptions_) {
        for (auto& reading : subscription->readings) {
          if (reading->channel->id == removed) queue(*reading);  // it finishes, then goes
        }
      }
    }
    if (first_list_done_ && seen_version_ == hub_.version()) return;
  }
}

void SessionImpl::on_advertise(const wire::Advertise& message) {
  const auto refuse = [&](wire::RejectCode code, std::string detail) SB_NO_ANALYSIS {
    reject_request({.channel = message.channel, .code = code, .detail = std::move(detail)});
  };
  if (message.channel == 0) return refuse(wire::RejectCode::kLimit, "channel numbers start at 1");
  if (hub_.draining.load(std::memory_order_acquire)) {
    return refuse(wire::RejectCode::kDraining, "the bridge is going away");
  }
  if (auto verdict = wire::check_channel_name(message.name); !verdict.ok()) {
    return refuse(verdict.code, std::move(verdict.detail));
  }
  for (const auto& [what, text] : {std::pair{"frame_id", &message.frame_id},
                                   std::pair{"schema", &message.schema},
                                   std::pair{"encoding", &message.encoding},
                                   std::pair{"schema_encoding", &message.schema_encoding}}) {
    if (text->size() > kHelloString) {
      return refuse(wire::RejectCode::kLimit,
                    fmt::format("{} of {} bytes; 256 are allowed", what, text->size()));
    }
  }
  if (message.schema_data.size() > hub_.options.max_schema_bytes) {
    return refuse(wire::RejectCode::kLimit,
                  fmt::format("schema_data of {} bytes; {} are allowed",
                              message.schema_data.size(),
                              hub_.options.max_schema_bytes));
  }
  const auto had = producing_.find(message.channel);
  const bool same = had != producing_.end() && had->second->channel->name == message.name;
  if (!same && producing_.size() - (had != producing_.end() ? 1 : 0) >=
                   hub_.options.max_channels_per_session) {
    return refuse(
        wire::RejectCode::kLimit,
        fmt::format("{} channels a session are the limit", hub_.options.max_channels_per_session));
  }
  auto production = hub_.advertise(id_, hello_.peer_key, message);
  if (!production) return reject_request(std::move(production.error()));
  // The same name under another number of this session moves; the same number under another name
  // ends the other.
  for (auto it = producing_.begin(); it != producing_.end(); ++it) {
    if (it->first != message.channel && it->second->channel == production->channel) {
      end_producing(it->first);
      break;
    }
  }
  if (!same && producing_.contains(message.channel)) end_producing(message.channel);

  std::unique_ptr<Producing>& from = producing_[message.channel];
  if (!from) {
    from = std::make_unique<Producing>();
    from->room = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
    if (slots_.size() <= from->room->slot.index) slots_.resize(from->room->slot.index + 1);
    slots_[from->room->slot.index] = SlotUse{nullptr, from.get()};
  }
  from->number = message.channel;
  from->channel = production->channel;
  from->token = production->token;
  from->producer = std::move(production->producer);
  from->epoch = production->epoch;
  from->past_epochs = std::move(production->past_epochs);
  from->last_sequence = production->last_sequence;
  from->unacked_frames = 0;
  from->unacked_bytes = 0;
  from->ack_due = false;
  from->ack_by = Monotonic::max();
  from->channel->ring->set_room_watcher(from->room);
  books_->channels.store(producing_.size(), std::memory_order_relaxed);
  if (!counted_as_producer_) {
    counted_as_producer_ = true;
    hub_.producing_sessions.fetch_add(1, std::memory_order_acq_rel);
  }
  sync_channels();  // announced before it is used
  from->told_window = window(*from);
  send(wire::Advertised{.channel = message.channel,
                        .id = from->channel->id,
                        .last_sequence = from->last_sequence,
                        .window_bytes = from->told_window,
                        .epoch = from->epoch});
}

void SessionImpl::end_producing(std::uint32_t number) {
  const auto found = producing_.find(number);
  if (found == producing_.end()) return;
  Producing& from = *found->second;
  // Frames of this channel that are being received land nowhere, and are answered at their end.
  const auto cut = [&](FrameInProgress& frame) {
    if (!frame.have_head || frame.head.channel != number || !frame.room) return;
    frame.room.reset();
    frame.outcome = Outcome{Outcome::What::kReject,
                            wire::RejectCode::kUnknownChannel,
                            fmt::format("channel {} ended while the frame came", number),
                            false};
    frame.state = FrameInProgress::State::kDiscard;
  };
  cut(pieces_.frame);
  cut(transfer_.frame);
  from.producer = frame::Producer{};
  hub_.unadvertise(*from.channel, from.token);
  slots_[from.room->slot.index] = SlotUse{};
  wake_->remove_slot(from.room->slot);
  producing_.erase(found);
  books_->channels.store(producing_.size(), std::memory_order_relaxed);
  if (producing_.empty() && counted_as_producer_) {
    counted_as_producer_ = false;
    hub_.producing_sessions.fetch_sub(1, std::memory_order_acq_rel);
  }
}

// ---- subscriptions

void SessionImpl::on_subscribe(const wire::Subscribe& message) {
  const auto refuse = [&](wire::RejectCode code, std::string detail) SB_NO_ANALYSIS {
    reject_request({.code = code, .detail = std::move(detail), .subscription = message.id});
  };
  if (message.id == 0) return refuse(wire::RejectCode::kLimit, "subscription ids start at 1");
  if (auto verdict = wire::check_pattern(message.channel); !verdict.ok()) {
    return refuse(verdict.code, std::move(verdict.detail));
  }
  if (auto verdict = wire::check_quality(message.quality); !verdict.ok()) {
    return refuse(verdict.code, std::move(verdict.detail));
  }
  if (!message.quality.unchanged()) {
    return refuse(
        wire::RejectCode::kQuality,
        "this version sends frames as they came: of the quality only max_hz can be asked for");
  }
  const auto found = subscriptions_.find(message.id);
  if (found != subscriptions_.end() && !found->second->ending) {
    Subscription& subscription = *found->second;
    const Monotonic now = hub_.clock.now();
    if (now - subscription.change_window >= std::chrono::seconds(1)) {
      subscription.change_window = now;
      subscription.changes_in_window = 0;
    }
    if (subscription.changes_in_window >= kChangesPerSecond) {
      subscription.postponed = std::make_unique<wire::Subscribe>(message);
      arm(subscription.change_window + std::chrono::seconds(1));
      return;
    }
    ++subscription.changes_in_window;
    subscription.postponed.reset();
    apply_change(subscription, message);
    return;
  }
  if (found != subscriptions_.end()) {
    return refuse(wire::RejectCode::kLimit,
                  "this id is just being ended; take it again after its last SubscriptionState");
  }
  if (subscriptions_.size() >= hub_.options.max_subscriptions_per_session) {
    return refuse(wire::RejectCode::kLimit,
                  fmt::format("{} subscriptions a session are the limit",
                              hub_.options.max_subscriptions_per_session));
  }
  sync_channels();
  auto& subscription = subscriptions_[message.id];
  subscription = std::make_unique<Subscription>();
  subscription->id = message.id;
  subscription->spec = message;
  subscription->born = hub_.version();
  subscription->state_dirty = true;
  subscription->queue_frames =
      message.queue_frames != 0 ? message.queue_frames : hub_.options.queue_frames;
  subscription->queue_bytes =
      message.queue_bytes != 0 ? message.queue_bytes : hub_.options.queue_bytes;
  subscription->change_window = hub_.clock.now();
  hub_.metrics.subscriptions.add(1);
  books_->subscriptions.store(subscriptions_.size(), std::memory_order_relaxed);
  for (const auto& channel : hub_.known_channels(seen_version_)) {
    if (wire::matches(message.channel, channel->name)) meet(*subscription, channel);
  }
}

void SessionImpl::apply_change(Subscription& subscription, const wire::Subscribe& message) {
  const bool other_pattern = subscription.spec.channel != message.channel;
  subscription.spec = message;
  subscription.queue_frames =
      message.queue_frames != 0 ? message.queue_frames : hub_.options.queue_frames;
  subscription.queue_bytes =
      message.queue_bytes != 0 ? message.queue_bytes : hub_.options.queue_bytes;
  subscription.state_dirty = true;
  if (other_pattern) {
    std::vector<std::shared_ptr<Reading>> gone;
    std::erase_if(subscription.readings, [&](const auto& reading) {
      if (wire::matches(message.channel, reading->channel->name)) return false;
      gone.push_back(reading);
      return true;
    });
    for (const auto& reading : gone) end_reading(*reading);
    for (const auto& channel : hub_.known_channels(seen_version_)) {
      if (wire::matches(message.channel, channel->name)) meet(subscription, channel);
    }
  }
  for (const auto& reading : subscription.readings) {
    reading->due_known = false;
    if (message.credit == 0) {
      reading->unanswered = 0;
      reading->claimed.clear();
    }
    set_claim(*reading);
    queue(*reading);
  }
}

void SessionImpl::meet(Subscription& subscription, const std::shared_ptr<Channel>& channel) {
  for (const auto& reading : subscription.readings) {
    if (reading->channel == channel) {
      set_claim(*reading);  // the policy may have changed
      return;
    }
  }
  auto reading = std::make_shared<Reading>();
  reading->subscription = &subscription;
  reading->channel = channel;
  reading->books = std::make_shared<ReadingBooks>();
  reading->books->session = id_;
  reading->books->subscription = subscription.id;
  reading->books->channel = channel->name;
  reading->books->ring = channel->ring;
  reading->watcher = std::make_shared<frame::Watcher>(frame::Watcher{wake_, wake_->add_slot()});
  const std::uint32_t slot = reading->watcher->slot.index;
  if (slots_.size() <= slot) slots_.resize(slot + 1);
  slots_[slot] = SlotUse{reading.get(), nullptr};
  place(*reading, subscription.spec, *channel);
  reading->books->start.store(reading->cursor, std::memory_order_relaxed);
  reading->books->cursor.store(reading->cursor, std::memory_order_relaxed);
  channel->ring->add_watcher(reading->watcher);
  channel->last_used_ns.store(monotonic_ns(hub_.clock), std::memory_order_relaxed);
  subscription.readings.push_back(reading);
  subscription.state_dirty = true;
  hub_.list_reading(reading->books);
  set_claim(*reading);
  queue(*reading);  // after add_watcher: what was published before it is found by looking
}

/// Where a reading begins, by the history that was asked for.
void SessionImpl::place(Reading& reading, const wire::Subscribe& spec, Channel& channel) {
  const frame::FrameRing& ring = *channel.ring;
  // head before tail: then start <= head holds whatever is published meanwhile.
  const std::uint64_t head = ring.head();
  const std::uint64_t tail = std::min(ring.tail(), head);
  const bool latched = ring.latched();
  const std::uint64_t newest = head > tail ? head - 1 : head;
  if (channel.born > reading.subscription->born &&
      std::ranges::find(spec.from, channel.name, &wire::Position::channel) == spec.from.end()) {
    reading.cursor = 0;  // it came after the subscription: what this session has not looked at yet
                         // was promised too
    return;
  }
  reading.history_until = head;
  const auto history = static_cast<wire::History>(std::min<std::uint32_t>(spec.history, 4));
  switch (history) {
    case wire::History::kLast:
      reading.cursor = newest;
      return;
    case wire::History::kAllKept:
      reading.cursor = tail;
      return;
    case wire::History::kFrom:
      break;
    default:
      reading.cursor = latched ? newest : head;
      return;
  }
  const auto named = std::ranges::find(spec.from, channel.name, &wire::Position::channel);
  if (named == spec.from.end()) {
    reading.cursor = tail;
    return;
  }
  const auto lives = ring.lives();
  const auto life = std::ranges::find(lives, named->epoch, &frame::Life::epoch);
  const auto gap = [&](std::uint64_t first, std::uint64_t last, wire::GapReason reason)
                       SB_NO_ANALYSIS {
                         add_gap(reading,
                                 wire::Gap{.subscription = spec.id,
                                           .channel = channel.id,
                                           .epoch = named->epoch,
                                           .first = first,
                                           .last = last,
                                           .reason = reason,
                                           .frames = 0});
                       };
  const auto position = ring.position_after(named->epoch, named->sequence);
  if (life == lives.end() || !position) {
    gap(0, 0, wire::GapReason::kEpoch);
    reading.cursor = tail;
    return;
  }
  reading.cursor = std::min(*position, head);
  reading.epoch = named->epoch;
  reading.told = named->sequence;
  reading.explain = true;
  if (life->first_sequence > named->sequence + 1) {
    // Numbers that an earlier boot may have had; this one never saw them.
    gap(named->sequence + 1, life->first_sequence - 1, wire::GapReason::kRestart);
    reading.told = life->first_sequence - 1;
  } else if (named->sequence > life->last_sequence) {
    reading.had_epoch =
        named->epoch;  // ahead of the ring: what the sensor sends again was had already
    reading.had_sequence = named->sequence;
  }
  reading.history_until = head;
}

void SessionImpl::set_claim(Reading& reading) {
  const bool wanted = reading.subscription != nullptr && reading.subscription->spec.reliable &&
                      reading.channel->backpressure.load(std::memory_order_relaxed);
  if (wanted == (reading.claim != nullptr)) return;
  if (wanted) {
    reading.claim = reading.channel->ring->add_reliable(reading.cursor);
    reading.claim_progress = hub_.clock.now();
    arm(reading.claim_progress + hub_.options.reliable_timeout);
  } else {
    reading.channel->ring->remove_reliable(reading.claim.get());
    reading.claim.reset();
    reading.claimed.clear();
  }
}

void SessionImpl::end_reading(Reading& reading) {
  if (reading.claim) {
    reading.channel->ring->remove_reliable(reading.claim.get());
    reading.claim.reset();
  }
  unqueue(reading);
  reading.channel->ring->remove_watcher(reading.watcher.get());
  slots_[reading.watcher->slot.index] = SlotUse{};
  wake_->remove_slot(reading.watcher->slot);
  hub_.unlist_reading(reading.books.get());
  if (reading.subscription != nullptr) {
    const wire::Counters had = counters_of(reading);
    wire::Counters& past = reading.subscription->past;
    past.promised += had.promised;
    past.delivered += had.delivered;
    past.skipped += had.skipped;
    past.lost += had.lost;
    reading.subscription->state_dirty = true;
  }
  reading.subscription = nullptr;
}

wire::Counters SessionImpl::counters_of(const Reading& reading) {
  const auto read = [](const auto& figure) {
    return figure.load(std::memory_order_relaxed);
  };
  // What is in flight was handed over as far as this peer can tell: it arrives before these
  // counters do.
  return wire::Counters{
      .promised = reading.cursor - read(reading.books->start),
      .delivered = read(reading.books->delivered) + read(reading.books->in_flight),
      .skipped = read(reading.books->skipped),
      .lost = reading.books->lost_total()};
}

void SessionImpl::on_unsubscribe(std::uint32_t id) {
  const auto found = subscriptions_.find(id);
  if (found == subscriptions_.end()) {
    return reject_request({.code = wire::RejectCode::kLimit,
                           .detail = fmt::format("there is no subscription {}", id),
                           .subscription = id});
  }
  Subscription& subscription = *found->second;
  subscription.ending = true;
  subscription.postponed.reset();
  for (const auto& reading : subscription.readings) unqueue(*reading);
  const bool running = (in_batch_ && in_flight_count_ > 0) || parts_.reading;
  if (!running) finish_subscription(subscription);
}

void SessionImpl::finish_subscription(Subscription& subscription) {
  for (const auto& reading : subscription.readings) {
    for (const wire::Gap& gap : reading->gaps) send(gap);  // losses that were counted are told
    reading->gaps.clear();
    end_reading(*reading);
  }
  subscription.readings.clear();
  send_state(subscription, true);
  hub_.metrics.subscriptions.add(-1);
  subscriptions_.erase(subscription.id);
  books_->subscriptions.store(subscriptions_.size(), std::memory_order_relaxed);
  if (half_closed_ && subscriptions_.empty())
    close(CloseKind::kNormal, "the peer has ended its side and reads nothing");
}

void SessionImpl::send_state(Subscription& subscription, bool ended) {
  wire::SubscriptionState state{.id = subscription.id, .applied = subscription.spec.quality};
  state.detail = subscription.ending_detail;
  state.ended = ended;
  state.counters = subscription.past;
  for (const auto& reading : subscription.readings) {
    state.channel.push_back(reading->channel->id);
    const wire::Counters one = counters_of(*reading);
    state.counters.promised += one.promised;
    state.counters.delivered += one.delivered;
    state.counters.skipped += one.skipped;
    state.counters.lost += one.lost;
  }
  subscription.state_dirty = false;
  send(state);
}

void SessionImpl::on_credit(const wire::Credit& credit) {
  const auto found = subscriptions_.find(credit.subscription);
  if (found == subscriptions_.end() || credit.frames == 0) return;
  for (const auto& reading : found->second->readings) {
    if (reading->channel->id != credit.channel) continue;
    const std::uint32_t answered = std::min(credit.frames, reading->unanswered);
    reading->unanswered -= answered;
    if (reading->claim && answered > 0) {
      std::uint64_t had = reading->claim->position();
      for (std::uint32_t i = 0; i < answered && !reading->claimed.empty(); ++i) {
        had = reading->claimed.front();
        reading->claimed.pop_front();
      }
      reading->channel->ring->advance(*reading->claim, had);
      reading->claim_progress = hub_.clock.now();
    }
    queue(*reading);
    return;
  }
}

}  // namespace simbridge::session
