// Subscriptions: what a consumer asks for, where each reading begins, and how it ends.
#include "session/session_impl.h"
#include "simbridge/base/check.h"

#include <fmt/core.h>

#include <algorithm>

namespace simbridge::session {
namespace {

constexpr std::uint32_t kChangesPerSecond = 10;

}  // namespace

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
  if (std::string why = pipeline::Pipeline::unsupported(message.quality); !why.empty())
    return refuse(wire::RejectCode::kQuality, std::move(why));
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
  if (found != subscriptions_.end()) {  // its last batch is on the way: then it begins anew
    found->second->postponed = std::make_unique<wire::Subscribe>(message);
    return;
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
  subscription->state_dirty = true;
  subscription->queue_frames =
      message.queue_frames != 0 ? message.queue_frames : hub_.options.queue_frames;
  subscription->queue_bytes =
      message.queue_bytes != 0 ? message.queue_bytes : hub_.options.queue_bytes;
  subscription->change_window = hub_.clock.now();
  subscription->born = hub_.version();
  hub_.metrics.subscriptions.add(1);
  books_->subscriptions.store(subscriptions_.size(), std::memory_order_relaxed);
  for (const auto& channel : hub_.known_channels(seen_version_)) {
    if (wire::matches(message.channel, channel->name)) meet(*subscription, channel);
  }
}

void SessionImpl::apply_change(Subscription& subscription, const wire::Subscribe& message) {
  const bool other_pattern = subscription.spec.channel != message.channel;
  if (other_pattern && subscription.state_dirty) send_state(subscription, false);
  const bool other_rate = subscription.spec.quality.max_hz != message.quality.max_hz;
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
    for (const auto& reading : gone) {
      subscription.left[reading->channel->id] = {
          reading->cursor, reading->epoch, reading->told, reading->explain};
      end_reading(*reading);
    }
    subscription.born = hub_.version();
    sync_channels();
    for (const auto& channel : hub_.known_channels(seen_version_)) {
      if (wire::matches(message.channel, channel->name)) meet(subscription, channel);
    }
  }
  for (const auto& reading : subscription.readings) {
    set_stream(*reading);
    if (other_rate) reading->due_known = false;
    if (message.credit == 0) {
      reading->unanswered = 0;
      reading->claimed.clear();
    }
    reading->claim_ended = false;
    set_claim(*reading);
    settle_claim(*reading);
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
  if (const auto left = subscription.left.find(channel->id); left != subscription.left.end()) {
    const LeftPlace& place = left->second;
    if (reading->cursor <= place.cursor) {  // not the first time: each frame comes at most once
      reading->cursor = place.cursor;
      reading->epoch = place.epoch;
      reading->told = place.told;
      reading->explain = place.explain;
      reading->had_sequence = 0;
    }
    subscription.left.erase(left);
  }
  reading->books->start.store(reading->cursor, std::memory_order_relaxed);
  reading->books->cursor.store(reading->cursor, std::memory_order_relaxed);
  channel->ring->add_watcher(reading->watcher);
  set_stream(*reading);
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
  const auto named = std::ranges::find(spec.from, channel.name, &wire::Position::channel);
  const bool goes_on =
      spec.history == static_cast<std::uint32_t>(wire::History::kFrom) && named != spec.from.end();
  // It came after the subscription: what this session has not looked at yet was promised too.
  const bool late = channel.born > reading.subscription->born;
  reading.history_until = late ? 0 : head;
  if (goes_on) return place_after(reading, *named, channel, head, late ? 0 : tail);
  if (late) return;  // from position 0
  switch (static_cast<wire::History>(std::min<std::uint32_t>(spec.history, 4))) {
    case wire::History::kLast:
      reading.cursor = newest;
      return;
    case wire::History::kAllKept:
    case wire::History::kFrom:
      reading.cursor = tail;
      return;
    default:
      reading.cursor = latched ? newest : head;
      return;
  }
}

/// HISTORY_FROM: goes on after a position of an earlier connection, or of an earlier boot.
void SessionImpl::place_after(Reading& reading,
                              const wire::Position& had,
                              const Channel& channel,
                              std::uint64_t head,
                              std::uint64_t tail) {
  const frame::FrameRing& ring = *channel.ring;
  const auto lives = ring.lives();
  const auto life = std::ranges::find(lives, had.epoch, &frame::Life::epoch);
  const auto position = ring.position_after(had.epoch, had.sequence);
  if (life == lives.end() || !position) {
    add_gap(reading,
            wire::Gap{.subscription = reading.books->subscription,
                      .channel = channel.id,
                      .epoch = had.epoch,
                      .reason = wire::GapReason::kEpoch});
    reading.cursor = tail;
    return;
  }
  reading.history_until = head;
  reading.cursor = std::min(*position, head);
  reading.epoch = had.epoch;
  reading.told = had.sequence;
  reading.explain = true;
  if (had.sequence < life->first_sequence || life->first_sequence == 0)
    reading.restart_at = life->first_position;
  if (had.sequence > life->last_sequence) {
    reading.had_epoch =
        had.epoch;  // ahead of the ring: what the sensor sends again was had already
    reading.had_sequence = had.sequence;
  }
}

void SessionImpl::set_claim(Reading& reading) {
  const bool wanted = reading.subscription != nullptr && reading.subscription->spec.reliable &&
                      !reading.claim_ended &&
                      reading.channel->backpressure.load(std::memory_order_relaxed);
  if (wanted == (reading.claim != nullptr)) return;
  if (wanted) {
    reading.claim = reading.channel->ring->add_reliable(reading.cursor);
    reading.claim_waits = false;
    watch_claim(reading);
  } else {
    reading.channel->ring->remove_reliable(reading.claim.get());
    reading.claim.reset();
    reading.claimed.clear();
  }
}

void SessionImpl::end_reading(Reading& reading) {
  for (const wire::Gap& gap : reading.gaps) send_gap(gap);  // losses that were counted are told
  reading.gaps.clear();
  if (reading.claim) {
    reading.channel->ring->remove_reliable(reading.claim.get());
    reading.claim.reset();
  }
  unqueue(reading);
  leave_stream(reading);
  reading.channel->ring->remove_watcher(reading.watcher.get());
  slots_[reading.watcher->slot.index] = SlotUse{};
  wake_->remove_slot(reading.watcher->slot);
  hub_.unlist_reading(reading.books.get());
  if (reading.subscription != nullptr) {
    const wire::Counters had = counters_of(reading, true);
    wire::Counters& past = reading.subscription->past;
    past.promised += had.promised;
    past.delivered += had.delivered;
    past.skipped += had.skipped;
    past.lost += had.lost;
    reading.subscription->state_dirty = true;
  }
  reading.subscription = nullptr;
}

/// of a reading that goes on, what waits is promised; of one that ends, it never was.
wire::Counters SessionImpl::counters_of(const Reading& reading, bool ends) {
  const auto read = [](const auto& figure) {
    return figure.load(std::memory_order_relaxed);
  };
  const std::uint64_t end =
      ends ? reading.cursor : std::max(reading.cursor, reading.channel->ring->head());
  // At the end, what is in flight was handed over as far as this peer can tell: it arrives before
  // these counters do.
  return wire::Counters{
      .promised = end - read(reading.books->start),
      .delivered = read(reading.books->delivered) + (ends ? read(reading.books->in_flight) : 0),
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
  if (subscription.state_dirty) send_state(subscription, false);  // before its gaps, if it has any
  subscription.ending = true;
  subscription.postponed.reset();
  for (const auto& reading : subscription.readings) unqueue(*reading);
  const bool running = (in_batch_ && !in_flight_.empty()) || parts_.reading;
  if (!running) finish_subscription(subscription);
}

void SessionImpl::finish_subscription(Subscription& subscription) {
  for (const auto& reading : subscription.readings) {
    end_reading(*reading);
  }
  subscription.readings.clear();
  send_state(subscription, true);
  hub_.metrics.subscriptions.add(-1);
  const auto next = std::move(subscription.postponed);
  subscriptions_.erase(subscription.id);
  books_->subscriptions.store(subscriptions_.size(), std::memory_order_relaxed);
  if (next && state_ == State::kOpen) on_subscribe(*next);
  if (half_closed_ && subscriptions_.empty())
    close(CloseKind::kNormal, "the peer has ended its side and reads nothing");
}

void SessionImpl::send_state(Subscription& subscription, bool ended) {
  wire::SubscriptionState state{.id = subscription.id,
                                .applied = applied(subscription.spec.quality)};
  state.detail = subscription.ending_detail;
  state.ended = ended;
  state.counters = subscription.past;
  for (const auto& reading : subscription.readings) {
    state.channel.push_back(reading->channel->id);
    const wire::Counters one = counters_of(*reading, false);
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
    // The oldest are answered first; those sent before there was a claim are not in its list.
    const std::size_t unlisted = reading->unanswered - reading->claimed.size();
    const std::size_t listed = answered - std::min<std::size_t>(answered, unlisted);
    reading->claimed.erase(reading->claimed.begin(),
                           reading->claimed.begin() + static_cast<std::ptrdiff_t>(listed));
    reading->unanswered -= answered;
    settle_claim(*reading);
    queue(*reading);
    return;
  }
}

}  // namespace simbridge::session
