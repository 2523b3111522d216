// Whole frames in: judged, given room, published, acknowledged or refused (protocol.md §3).
#include "session/session_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace simbridge::session {
namespace {

constexpr std::uint64_t kLastSequence = (1ULL << 63U) - 1;
constexpr std::uint32_t kAckFrames = 8;
constexpr milliseconds kAckTime{100};

/// Final refusals use the number up; these do not say enough about a number to do so.
bool uses_number(wire::RejectCode code) {
  using enum wire::RejectCode;
  return code != kMalformed && code != kUnknownChannel && code != kSequence && code != kEpoch;
}

}  // namespace

wire::ClientMessage SessionImpl::parse_whole(std::span<const std::byte> message, MessageType type) {
  if (!is_flat()) return wire::parse(message, head_);
  if (type == MessageType::kText) {
    return wire::parse_json({reinterpret_cast<const char*>(message.data()), message.size()});
  }
  if (auto malformed = wire::parse_flat(message, head_)) return std::move(*malformed);
  return wire::FrameBody{};
}

Flow SessionImpl::on_message(std::span<const std::byte> message, MessageType type) {
  role_.assert_held();
  if (state_ == State::kClosing || state_ == State::kClosed) return Flow::kStop;
  if (input_blocked()) {
    input_paused_ = true;
    return Flow::kPause;
  }
  const Flow flow = handle(parse_whole(message, type), message, type);
  if (flow == Flow::kPause) input_paused_ = true;
  announce_output();
  return flow;
}

std::uint64_t SessionImpl::max_message_bytes() const {
  return hub_.options.max_message_bytes;
}

wire::FrameLimits SessionImpl::frame_limits() const {
  wire::FrameLimits limits;
  limits.max_frame_bytes = hub_.store.max_frame_bytes().count;
  limits.max_points = hub_.options.max_points;
  return limits;
}

Producing* SessionImpl::producing(std::uint32_t number) {
  const auto found = producing_.find(number);
  return found == producing_.end() ? nullptr : found->second.get();
}

Flow SessionImpl::on_frame(std::span<const std::byte> bytes, wire::FrameHead& head, bool may_wait) {
  malformed_in_a_row_ = 0;
  std::uint32_t warnings = 0;
  Outcome outcome = judge(head, warnings);
  if (outcome.what != Outcome::What::kOpen) room_by_.reset();  // it may have waited for room
  if (outcome.what == Outcome::What::kDuplicate) {
    count_duplicate(head);
    return Flow::kContinue;
  }
  frame::Reservation room;
  if (outcome.what == Outcome::What::kOpen) {
    if (!may_wait && !room_by_)
      room_by_ = hub_.clock.now();  // nothing to wait in: the first answer counts
    const Room answer = take_room(head, true, room, outcome);
    if (answer == Room::kWait) return Flow::kPause;
  }
  if (outcome.what == Outcome::What::kReject) {
    refuse_frame(head, outcome);
    return Flow::kContinue;
  }
  if (head.data_bytes > 0) {
    std::memcpy(room.data().data(), bytes.data() + head.data_offset, head.data_bytes);
  }
  publish(head, std::move(room), warnings);
  return Flow::kContinue;
}

Outcome SessionImpl::judge(const wire::FrameHead& head, std::uint32_t& warnings) {
  const wire::FrameLimits limits = frame_limits();
  if (auto verdict = wire::check_head(head, limits); !verdict.ok()) {
    return reject(verdict.code, std::move(verdict.detail));
  }
  Producing* from = producing(head.channel);
  if (from == nullptr) {
    return reject(wire::RejectCode::kUnknownChannel,
                  fmt::format("channel {} was not advertised", head.channel));
  }
  if (Outcome outcome = judge_place(head, *from); outcome.what != Outcome::What::kOpen)
    return outcome;
  if (auto verdict = wire::check_payload(head, limits, warnings); !verdict.ok()) {
    return reject(verdict.code, std::move(verdict.detail));
  }
  return {};
}

/// Sequence, epoch, duplicate, go-back-n, window.
Outcome SessionImpl::judge_place(const wire::FrameHead& head, Producing& from) {
  Channel& channel = *from.channel;
  const GateStep step(channel.gate, from.token);
  if (!step) {
    return reject(wire::RejectCode::kUnknownChannel,
                  fmt::format("{} was taken over by another session of this peer", channel.name));
  }
  if (head.sequence == 0 || head.sequence > kLastSequence) {
    return reject(wire::RejectCode::kSequence,
                  fmt::format("sequence {}; 1 to 2^63-1 are allowed", head.sequence));
  }
  if (head.epoch != 0 && head.epoch != from.epoch) {
    const bool past = std::ranges::find(from.past_epochs, head.epoch) != from.past_epochs.end();
    return past ? reject(wire::RejectCode::kEpoch,
                         fmt::format("epoch {} is an earlier life of {}", head.epoch, channel.name))
                : reject(wire::RejectCode::kSequence,
                         fmt::format(
                             "epoch {} is not the advertised one ({})", head.epoch, from.epoch));
  }
  const ChannelNumbers& numbers = channel.numbers;
  if (head.sequence <= numbers.last_sequence)
    return Outcome{Outcome::What::kDuplicate, {}, {}, false};
  if (numbers.retry_from != 0 && head.sequence > numbers.retry_from) {
    return reject(numbers.retry_code,
                  fmt::format("waiting for sequence {} to come again", numbers.retry_from),
                  true);
  }
  if (!channel.backpressure.load(std::memory_order_relaxed)) return {};
  // What was told may be used, in full; one frame of any size while nothing is unacknowledged.
  const std::uint64_t left = from.told_window - std::min(from.told_window, from.unacked_bytes);
  const bool first = from.unacked_frames == 0 && from.told_window > 0;
  const auto held = channel.ring->held();
  const bool full = held.frames >= channel.ring->depth();
  if (from.told_window > 0 && !full && (first || head.data_bytes <= left)) return {};
  return reject(
      wire::RejectCode::kWindow,
      fmt::format(
          "{} bytes where {} of the window are left: {} frames ({} bytes) wait for reliable "
          "readers",
          head.data_bytes,
          full ? 0 : left,
          held.frames,
          held.bytes.count),
      true);
}

SessionImpl::Room SessionImpl::take_room(const wire::FrameHead& head,
                                         bool at_hand,
                                         frame::Reservation& room,
                                         Outcome& outcome) {
  Producing* from = producing(head.channel);
  if (from == nullptr) {
    room_by_.reset();
    outcome = reject(wire::RejectCode::kUnknownChannel,
                     fmt::format("channel {} has ended", head.channel));
    return Room::kRefused;
  }
  const std::uint64_t head_bytes = wire::stored_head_bytes(head);
  const auto reserve = [&] {
    return at_hand ? from->producer.reserve_at_hand(head_bytes, head.data_bytes, account_, room)
                   : from->producer.reserve(head_bytes, head.data_bytes, account_, room);
  };
  frame::Reserve answer = reserve();
  if (answer == frame::Reserve::kNoRoom) {
    hub_.store.notify_room(memory_watcher_);
    answer = reserve();  // it may have come just before
  }
  switch (answer) {
    case frame::Reserve::kGranted: {
      room_by_.reset();
      const std::int64_t received_ns =
          head.hops > 0 && head.received_ns > 0 ? head.received_ns : hub_.clock.wall_ns();
      wire::store_head(head, received_ns, room.head());
      return Room::kGranted;
    }
    case frame::Reserve::kTooLarge:
      room_by_.reset();
      outcome = reject(wire::RejectCode::kTooLarge,
                       fmt::format("{} bytes; {} are the limit now",
                                   head.data_bytes,
                                   hub_.store.max_frame_bytes().count));
      return Room::kRefused;
    case frame::Reserve::kFenced:
      room_by_.reset();
      outcome = reject(
          wire::RejectCode::kUnknownChannel,
          fmt::format("{} was taken over by another session of this peer", from->channel->name));
      return Room::kRefused;
    case frame::Reserve::kNoRoom:
      break;
  }
  const Monotonic now = hub_.clock.now();
  if (!room_by_) room_by_ = now + hub_.options.memory_wait;
  if (now < *room_by_) {
    arm(*room_by_);
    return Room::kWait;
  }
  room_by_.reset();
  outcome = reject(
      wire::RejectCode::kNoMemory,
      fmt::format(
          "no room for {} bytes within {} ms", head.data_bytes, hub_.options.memory_wait.count()),
      from->channel->backpressure.load(std::memory_order_relaxed));
  return Room::kRefused;
}

void SessionImpl::publish(const wire::FrameHead& head,
                          frame::Reservation room,
                          std::uint32_t warnings) {
  if (auto verdict = wire::check_crc(head, room.data()); !verdict.ok()) {
    room.reset();
    return refuse_frame(head, reject(verdict.code, std::move(verdict.detail)));
  }
  Producing* from = producing(head.channel);
  if (from != nullptr && head.epoch != 0 && head.epoch != from->epoch) {
    room.reset();  // a transfer that was begun in an earlier life
    return refuse_frame(head,
                        reject(wire::RejectCode::kEpoch,
                               fmt::format("epoch {} ended while the frame came", head.epoch)));
  }
  bool duplicate = false;
  bool published = false;
  const Monotonic now = hub_.clock.now();
  std::uint32_t fresh_warnings = 0;
  if (from != nullptr) {
    Channel& channel = *from->channel;
    const GateStep step(channel.gate, from->token);
    if (step) {
      ChannelNumbers& numbers = channel.numbers;
      duplicate = head.sequence <= numbers.last_sequence;  // another message brought it meanwhile
      if (!duplicate) {
        numbers.use_number(head.sequence, true);
        std::int64_t earlier = 0;
        if (head.hops > 0 && head.received_ns > 0)
          earlier = std::max<std::int64_t>(0, hub_.clock.wall_ns() - head.received_ns);
        frame::FrameInfo info{.sequence = head.sequence,
                              .arrival = now,
                              .age_at_arrival = nanoseconds(earlier),
                              .points = head.points(),
                              .kind = static_cast<std::uint8_t>(head.kind),
                              .before = numbers.pending};
        published = from->producer.publish(std::move(room), info) == frame::Publish::kPublished;
        SB_CHECK(published, "who is inside the gate is the ring's producer");
        numbers.pending = {};
        from->last_sequence = head.sequence;
        fresh_warnings = warnings & ~numbers.warned;
        numbers.warned |= warnings;
        channel.books.received.fetch_add(1, std::memory_order_relaxed);
        channel.books.published.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  if (duplicate) return count_duplicate(head);
  if (!published) {
    return refuse_frame(
        head,
        reject(
            wire::RejectCode::kUnknownChannel,
            fmt::format("channel {} ended or was taken over while the frame came", head.channel)));
  }
  hub_.metrics.received_frames.add();
  hub_.metrics.received_bytes.add(head.data_bytes);
  hub_.metrics.published_frames.add();
  hub_.metrics.published_bytes.add(head.data_bytes);
  bump(books_->frames_in);
  bump(books_->bytes_in, head.data_bytes);
  if (fresh_warnings != 0) tell_warnings(*from->channel, fresh_warnings);
  count_ack(*from, head.data_bytes, now);
}

void SessionImpl::count_duplicate(const wire::FrameHead& head) {
  Producing* from = producing(head.channel);
  if (from == nullptr) return;
  from->channel->books.received.fetch_add(1, std::memory_order_relaxed);
  from->channel->books.duplicate.fetch_add(1, std::memory_order_relaxed);
  hub_.metrics.received_frames.add();
  hub_.metrics.received_bytes.add(head.data_bytes);
  hub_.metrics.duplicate_frames.add();
  count_ack(*from, head.data_bytes, hub_.clock.now());
}

void SessionImpl::refuse_frame(const wire::FrameHead& head, const Outcome& outcome) {
  Producing* from = producing(head.channel);
  bool counted = false;
  bool used = false;
  if (from != nullptr && outcome.code != wire::RejectCode::kUnknownChannel) {
    Channel& channel = *from->channel;
    const GateStep step(channel.gate, from->token);
    if (step) {
      counted = true;
      ChannelNumbers& numbers = channel.numbers;
      const bool its_epoch = head.epoch == 0 || head.epoch == from->epoch;
      const bool in_turn = numbers.retry_from == 0 || head.sequence <= numbers.retry_from;
      const bool newer = head.sequence > numbers.last_sequence && head.sequence <= kLastSequence;
      if (outcome.retry && newer && in_turn) {
        numbers.retry_from = head.sequence;
        numbers.retry_code = outcome.code;
      }
      if (!outcome.retry && uses_number(outcome.code) && its_epoch && newer && in_turn) {
        numbers.use_number(head.sequence, false);
        from->last_sequence = head.sequence;
        used = true;
      }
      channel.books.received.fetch_add(1, std::memory_order_relaxed);
      channel.books.rejected.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const auto code = static_cast<unsigned>(outcome.code);
  if (counted) {
    hub_.metrics.received_frames.add();
    hub_.metrics.received_bytes.add(head.data_bytes);
    hub_.metrics.rejected_frames[code].add();
  } else {
    hub_.metrics.rejected_requests[code].add();
  }
  log(LogLevel::kWarning,
      "frame_rejected",
      "session {}, {}, sequence {}: {} ({}){}",
      id_,
      from != nullptr ? from->channel->name : fmt::format("channel {}", head.channel),
      head.sequence,
      wire::name_of(outcome.code),
      outcome.detail,
      outcome.retry ? ", to be sent again" : "");
  send(wire::Reject{.channel = head.channel,
                    .sequence = head.sequence,
                    .code = outcome.code,
                    .detail = outcome.detail,
                    .subscription = 0,
                    .retry = outcome.retry});
  if (used) count_ack(*from, head.data_bytes, hub_.clock.now());
}

void SessionImpl::tell_warnings(Channel& channel, std::uint32_t fresh) {
  const auto tell =
      [&](std::uint32_t bit, std::string_view code, std::string_view text) SB_NO_ANALYSIS {
        if ((fresh & bit) == 0) return;
        log(LogLevel::kWarning, "cloud_oddity", "{}: {}", channel.name, text);
        send(wire::Status{
            wire::Level::kWarning, std::string(code), fmt::format("{}: {}", channel.name, text)});
      };
  tell(wire::kWarnRowStep,
       "row_step",
       "row_step does not fit width x point_step and is read as tight");
  tell(wire::kWarnUnknownFieldType,
       "field_type",
       "a field of unknown type is kept, but cannot be used in derived outputs");
  tell(wire::kWarnDuplicateField,
       "field_twice",
       "a field name occurs twice; derived outputs use the first");
  tell(wire::kWarnDataLonger,
       "data_longer",
       "data is longer than the points need; derived outputs ignore the rest");
}

// ---- acknowledging

std::uint64_t SessionImpl::window(const Producing& from) const {
  if (hub_.draining.load(std::memory_order_acquire)) return 0;
  const std::uint64_t largest = hub_.store.max_frame_bytes().count;
  if (!from.channel->backpressure.load(std::memory_order_relaxed)) {
    return std::max(hub_.options.window_bytes, largest);  // advice: nothing is refused for it
  }
  const std::uint64_t whole = std::min(hub_.options.window_bytes, hub_.store.budget().count / 8);
  const auto held = from.channel->ring->held();
  if (held.frames >= from.channel->ring->depth() || held.bytes.count >= whole) return 0;
  return whole - held.bytes.count;
}

void SessionImpl::count_ack(Producing& from, std::uint64_t data_bytes, Monotonic now) {
  ++from.unacked_frames;
  from.unacked_bytes += data_bytes;
  if (from.unacked_frames >= kAckFrames || from.unacked_bytes >= from.told_window / 2)
    return acknowledge(from);
  if (from.ack_by == Monotonic::max()) {
    from.ack_by = now + kAckTime;
    arm(from.ack_by);
  }
}

void SessionImpl::acknowledge(Producing& from) {
  from.told_window = window(from);
  watch_window(from, hub_.clock.now());
  from.unacked_frames = 0;
  from.unacked_bytes = 0;
  from.ack_due = false;
  from.ack_by = Monotonic::max();
  send(wire::Ack{
      .channel = from.number, .sequence = from.last_sequence, .window_bytes = from.told_window});
}

/// A budget or depth that grows opens a window without waking anybody: one that is shut is looked
/// at again.
void SessionImpl::watch_window(const Producing& from, Monotonic now) {
  if (from.told_window == 0 && !hub_.draining.load(std::memory_order_acquire)) arm(now + kAckTime);
}

void SessionImpl::send_acks(Monotonic now) {
  for (auto& [number, from] : producing_) {
    const bool opened = from->told_window == 0 && window(*from) > 0;
    if (from->ack_due || opened || now >= from->ack_by) {
      acknowledge(*from);
      continue;
    }
    if (from->ack_by != Monotonic::max()) arm(from->ack_by);
    watch_window(*from, now);
  }
}

}  // namespace simbridge::session
