// What arrives in pieces: large messages, read straight into the arena where they can be, and
// transfers in parts.
#include "session/session_impl.h"
#include "simbridge/base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace simbridge::session {
namespace {

constexpr std::size_t kHelloBytes =
    9 * 1024;  // its strings fit; before it is accepted, a peer costs less than 16 KiB
constexpr std::size_t kHeadStep = 4 * 1024;  // the head is looked at again after so many more bytes
constexpr std::size_t kHeadBytes = 64 * 1024 + 64;
constexpr auto kHelloTag = std::byte{0x0a};
constexpr auto kAdvertiseTag = std::byte{0x12};
constexpr auto kPartTag = std::byte{0x72};
constexpr auto kFrameTag = std::byte{0x7a};
constexpr std::chrono::seconds kPartSilence{10};
constexpr std::chrono::seconds kSlowTime{5};
constexpr std::uint64_t kSlowBytes = 5 * 64 * 1024;
constexpr std::uint64_t kWholeStep = 256 * 1024;  // first room for a message of unknown length

/// {"advertise": … as the first member; whatever stands elsewhere has the common limit.
bool begins_as_advertise(std::span<const std::byte> text) {
  std::string_view rest(reinterpret_cast<const char*>(text.data()), text.size());
  const auto skip_space = [&] {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  };
  skip_space();
  if (!rest.starts_with('{')) return false;
  rest.remove_prefix(1);
  skip_space();
  return rest.starts_with("\"advertise\"");
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

void SessionImpl::begin_message(std::optional<std::uint64_t> total_bytes, MessageType type) {
  role_.assert_held();
  pieces_.type = type;
  pieces_.kind = MessageInPieces::Kind::kUnknown;
  pieces_.total = total_bytes;
  pieces_.part_left = 0;
  pieces_.frame.reset();
}

Taken SessionImpl::on_chunk(std::span<const std::byte> chunk) {
  role_.assert_held();
  using Kind = MessageInPieces::Kind;
  if (state_ == State::kClosing || state_ == State::kClosed) return {chunk.size(), Flow::kStop};
  if (input_blocked()) {
    input_paused_ = true;
    return {0, Flow::kPause};
  }
  if (pieces_.kind == Kind::kUnknown && !chunk.empty()) {
    const std::byte tag = chunk.front();
    if (is_flat()) {
      pieces_.kind = pieces_.type == MessageType::kText ? Kind::kControl : Kind::kFrame;
    } else {
      pieces_.kind = tag == kFrameTag  ? Kind::kFrame
                     : tag == kPartTag ? Kind::kPart
                                       : Kind::kControl;
    }
    if (state_ == State::kNeedHello) pieces_.kind = Kind::kControl;
    pieces_.frame.total = pieces_.total;
    if (pieces_.kind == Kind::kControl) pieces_.frame.state = FrameInProgress::State::kWhole;
  }
  Taken taken{chunk.size(), Flow::kContinue};
  switch (pieces_.kind) {
    case Kind::kNone:
    case Kind::kUnknown:
    case Kind::kRefused:
      break;
    case Kind::kFrame:
      taken = feed(pieces_.frame, chunk, true);
      break;
    case Kind::kControl:
      taken = feed_control(chunk);
      break;
    case Kind::kPart:
      taken = feed_part(chunk);
      break;
  }
  if (taken.flow == Flow::kPause) input_paused_ = true;
  announce_output();
  return taken;
}

/// The part's own head first, then its data streams into the transfer.
Taken SessionImpl::feed_part(std::span<const std::byte> chunk) {
  FrameInProgress& own = pieces_.frame;
  std::size_t used = 0;
  while (!own.have_head && used < chunk.size()) {
    const std::size_t step = std::min<std::size_t>(chunk.size() - used, 128);
    append(own.collected, chunk.subspan(used, step));
    used += step;
    const wire::PeekResult seen = wire::peek(own.collected, pieces_.total, head_);
    if (seen.what == wire::Peek::kPart) {
      used -= own.collected.size() - seen.part_data_offset;
      own.have_head = true;
      pieces_.part_left = seen.part_data_bytes;
      pieces_.part = seen.part;
      pieces_.part.data = {};
      if (!begin_part(seen.part, seen.part_data_bytes)) {
        pieces_.part_left = 0;
        pieces_.kind = MessageInPieces::Kind::kNone;  // answered; the rest is only counted
        return {chunk.size(), Flow::kContinue};
      }
    } else if (seen.what != wire::Peek::kNeedMore || own.collected.size() > kControlBytes) {
      pieces_.kind = MessageInPieces::Kind::kControl;
      own.state = FrameInProgress::State::kWhole;
      const Taken rest = feed_control(chunk.subspan(used));
      return {used + rest.bytes, rest.flow};
    }
  }
  if (!own.have_head || !transfer_.running)  // not told yet, or dropped meanwhile: only counted
    return {chunk.size(), Flow::kContinue};
  const auto data =
      chunk.subspan(used, std::min<std::uint64_t>(chunk.size() - used, pieces_.part_left));
  const Taken rest = feed(transfer_.frame, data, false);
  pieces_.part_left -= rest.bytes;
  transfer_.drop_at = hub_.clock.now() + kPartSilence;
  if (rest.flow == Flow::kPause) return {used + rest.bytes, Flow::kPause};
  if (used + data.size() < chunk.size())
    refuse_part(pieces_.part, "the message goes on behind the part's data");
  return {chunk.size(), rest.flow};
}

/// What a control message that begins like this may have.
std::size_t SessionImpl::control_limit(std::span<const std::byte> first) const {
  const std::uint64_t schema = hub_.options.max_schema_bytes;
  if (state_ == State::kNeedHello) return kHelloBytes;
  if (!is_flat()) {
    return kControlBytes + (first.front() == kAdvertiseTag ? schema : 0);
  }
  return kControlBytes + (begins_as_advertise(first) ? (schema + 2) / 3 * 4 : 0);
}

/// A control message (or a frame in an odd encoding) that has to be had whole.
Taken SessionImpl::feed_control(std::span<const std::byte> chunk) {
  FrameInProgress& whole = pieces_.frame;
  if (whole.state == FrameInProgress::State::kWhole && !whole.room) {
    const std::span<const std::byte> first = whole.collected.empty() ? chunk : whole.collected;
    const std::byte tag = first.front();
    const std::size_t limit = control_limit(first);
    const std::uint64_t coming =
        std::max<std::uint64_t>(whole.total.value_or(0), whole.collected.size() + chunk.size());
    if (state_ == State::kNeedHello && coming > whole.collected.capacity())
      whole.collected.reserve(std::min<std::uint64_t>(coming + 1024, limit));
    if (coming > limit) {
      if (state_ == State::kNeedHello) {
        if (!is_flat() && tag != kHelloTag) {
          return {chunk.size(), handle(wire::ClientMessage(wire::Unsupported{}), {}, pieces_.type)};
        }
        send(wire::Reject{.code = wire::RejectCode::kLimit,
                          .detail = fmt::format("Hello above {} KiB", limit / 1024)});
        close(CloseKind::kProtocol, "Hello above its limits");
        return {chunk.size(), Flow::kStop};
      }
      if (is_flat()) {
        whole.outcome =
            reject(wire::RejectCode::kLimit,
                   fmt::format("a text of {} bytes or more; {} are allowed", coming, limit));
        std::vector<std::byte>().swap(whole.collected);
        whole.state = FrameInProgress::State::kDiscard;
      } else {
        start_whole(whole);
      }
      if (whole.state == FrameInProgress::State::kDiscard)
        pieces_.kind = MessageInPieces::Kind::kRefused;
    }
  }
  return feed(whole, chunk, true);
}

Taken SessionImpl::feed(FrameInProgress& frame, std::span<const std::byte> chunk, bool envelope) {
  using Stage = FrameInProgress::State;
  std::size_t used = 0;
  for (;;) {
    const auto rest = chunk.subspan(used);
    switch (frame.state) {
      case Stage::kHead: {
        if (rest.empty()) return {used, Flow::kContinue};
        const std::size_t step = feed_head(frame, rest, envelope);
        used += step;
        frame.arrived += step;
        break;
      }
      case Stage::kRoom: {
        Outcome outcome;
        const Room answer = take_room(frame.head, false, frame.room, outcome);
        if (answer == Room::kWait) return {used, Flow::kPause};
        if (answer == Room::kRefused) {
          frame.outcome = std::move(outcome);
          frame.state = Stage::kDiscard;
        } else {
          start_data(frame);
        }
        break;
      }
      case Stage::kData: {
        if (rest.empty()) return {used, Flow::kContinue};
        const std::uint64_t left = frame.head.data_bytes - frame.filled;
        const std::size_t step = std::min<std::uint64_t>(rest.size(), left);
        if (step == 0) {  // more than the head promised: legal, but not the canonical form
          append(frame.tail, rest);
          if (frame.tail.size() > kControlBytes) {
            frame.outcome = reject(wire::RejectCode::kLimit, "above 64 KiB behind the data");
            frame.room.reset();
            frame.state = Stage::kDiscard;
          }
          frame.arrived += rest.size();
          return {chunk.size(), Flow::kContinue};
        }
        std::memcpy(frame.room.data().data() + frame.filled, rest.data(), step);
        frame.filled += step;
        frame.arrived += step;
        used += step;
        break;
      }
      case Stage::kWhole: {
        if (rest.empty()) return {used, Flow::kContinue};
        if (frame.room) {
          if (rest.size() > frame.room.data().size() - frame.filled) grow_whole(frame, rest);
          if (frame.state != Stage::kWhole) break;  // it could not grow
          std::memcpy(frame.room.data().data() + frame.filled, rest.data(), rest.size());
          frame.filled += rest.size();
        } else {
          append(frame.collected, rest);
          // A text has been judged by its own limit before.
          if (pieces_.type == MessageType::kBinary &&
              frame.collected.size() > kControlBytes + hub_.options.max_schema_bytes)
            start_whole(frame);
        }
        frame.arrived += rest.size();
        return {chunk.size(), Flow::kContinue};
      }
      case Stage::kDiscard:
        if (is_flat() && frame.have_head) keep_flat_tail(frame, rest);
        frame.arrived += rest.size();
        return {chunk.size(), Flow::kContinue};
    }
  }
}

/// Collects until the head can be judged. Returns how many bytes were taken: never any of the data.
std::size_t SessionImpl::feed_head(FrameInProgress& frame,
                                   std::span<const std::byte> chunk,
                                   bool envelope) {
  const std::size_t step = std::min(chunk.size(), kHeadStep);
  const std::size_t before = frame.collected.size();
  append(frame.collected, chunk.first(step));
  frame.head.clear();
  const wire::PeekResult seen =
      is_flat()  ? wire::peek_flat(frame.collected, frame.total, frame.head)
      : envelope ? wire::peek(frame.collected, frame.total, frame.head)
                 : wire::peek_frame(frame.collected, frame.total.value_or(0), frame.head);
  if (seen.what == wire::Peek::kNeedMore) {
    if (frame.collected.size() > kHeadBytes) start_whole(frame);
    return step;
  }
  // What judges a depth image stands in its #meta.
  const bool judged_later =
      frame.head.tail_bytes > 0 && frame.head.kind == wire::PayloadKind::kDepth;
  if (seen.what != wire::Peek::kFrame || frame.head.data_offset < before || judged_later) {
    start_whole(frame);
    return step;
  }
  const std::size_t taken = frame.head.data_offset - before;
  frame.collected.resize(frame.head.data_offset);  // shrinks: the views stay valid
  frame.have_head = true;
  frame.outcome = judge(frame.head, frame.warnings);
  frame.state = frame.outcome.what == Outcome::What::kOpen ? FrameInProgress::State::kRoom
                                                           : FrameInProgress::State::kDiscard;
  return taken;
}

void SessionImpl::start_data(FrameInProgress& frame) {
  frame.state = FrameInProgress::State::kData;
  frame.slow_check = hub_.clock.now() + kSlowTime;
  frame.slow_filled = 0;
  if (frame.head.data_bytes > 0) arm(frame.slow_check);
}

/// Not the canonical form: had whole, then parsed. Large ones in memory of the ingest share.
void SessionImpl::start_whole(FrameInProgress& frame) {
  frame.state = FrameInProgress::State::kWhole;
  frame.head.clear();
  frame.have_head = false;
  const std::uint64_t coming = std::max<std::uint64_t>(
      frame.total.value_or(frame.collected.size() + kWholeStep), frame.collected.size());
  if (frame.total.value_or(0) <= kControlBytes && frame.collected.size() <= kControlBytes) return;
  take_whole_room(frame, coming);
}

/// The message turns out longer than there is room for.
void SessionImpl::grow_whole(FrameInProgress& frame, std::span<const std::byte> more) {
  take_whole_room(frame, std::max(2 * frame.filled, frame.filled + more.size()));
}

void SessionImpl::take_whole_room(FrameInProgress& frame, std::uint64_t bytes) {
  using frame::Reserve;
  const auto refuse = [&](wire::RejectCode code, std::string detail) {
    frame.room.reset();
    std::vector<std::byte>().swap(frame.collected);
    frame.outcome = reject(code, std::move(detail));
    frame.state = FrameInProgress::State::kDiscard;
  };
  if (producing_.empty()) {
    const bool is_frame =
        pieces_.kind == MessageInPieces::Kind::kFrame || &frame == &transfer_.frame;
    return refuse(is_frame ? wire::RejectCode::kUnknownChannel : wire::RejectCode::kLimit,
                  fmt::format("a message of {} bytes from a peer that advertised nothing", bytes));
  }
  // Any channel of ours will do: the memory goes back when the frame has found its own.
  frame::Reservation room;
  switch (producing_.begin()->second->producer.reserve(0, bytes, account_, room)) {
    case Reserve::kGranted:
      break;
    case Reserve::kTooLarge:
      return refuse(
          wire::RejectCode::kTooLarge,
          fmt::format("{} bytes; {} are the limit now", bytes, hub_.store.max_frame_bytes().count));
    case Reserve::kNoRoom:
    case Reserve::kFenced:
      return refuse(wire::RejectCode::kNoMemory,
                    fmt::format("no room for a message of {} bytes that must be had whole", bytes));
  }
  const auto so_far = frame.room ? std::span<const std::byte>(frame.room.data().first(frame.filled))
                                 : std::span<const std::byte>(frame.collected);
  std::ranges::copy(so_far, room.data().begin());  // nothing, where no byte was collected yet
  frame.filled = so_far.size();
  std::vector<std::byte>().swap(frame.collected);
  frame.room = std::move(room);
  frame.slow_check = hub_.clock.now() + kSlowTime;
  frame.slow_filled = frame.filled;
  arm(frame.slow_check);
}

std::span<std::byte> SessionImpl::direct_buffer() {
  role_.assert_held();
  if (input_paused_) return {};
  FrameInProgress* frame = filling();
  if (frame == nullptr || frame->state != FrameInProgress::State::kData || !frame->room) return {};
  std::uint64_t left = frame->head.data_bytes - frame->filled;
  if (pieces_.kind == MessageInPieces::Kind::kPart) left = std::min(left, pieces_.part_left);
  return frame->room.data().subspan(frame->filled, left);
}

void SessionImpl::direct_filled(std::size_t bytes) {
  role_.assert_held();
  FrameInProgress* frame = filling();
  if (frame == nullptr || frame->state != FrameInProgress::State::kData) return;
  SB_CHECK(bytes <= frame->head.data_bytes - frame->filled, "a transport fills what it was given");
  frame->filled += bytes;
  frame->arrived += bytes;
  if (pieces_.kind == MessageInPieces::Kind::kPart) {
    pieces_.part_left -= bytes;
    transfer_.drop_at = hub_.clock.now() + kPartSilence;
  }
}

FrameInProgress* SessionImpl::filling() {
  switch (pieces_.kind) {
    case MessageInPieces::Kind::kFrame:
      return &pieces_.frame;
    case MessageInPieces::Kind::kPart:
      return pieces_.frame.have_head && transfer_.running ? &transfer_.frame : nullptr;
    default:
      return nullptr;
  }
}

void SessionImpl::check_slow(FrameInProgress& frame, Monotonic now) {
  using Stage = FrameInProgress::State;
  if (!frame.room || (frame.state != Stage::kData && frame.state != Stage::kWhole)) return;
  if (input_paused_) frame.slow_check = std::max(frame.slow_check, now + kSlowTime);  // our doing
  if (now < frame.slow_check) return arm(frame.slow_check);
  // One that is full, and whose message does not end, fills no faster.
  if (frame.filled - frame.slow_filled >= kSlowBytes) {
    frame.slow_filled = frame.filled;
    frame.slow_check = now + kSlowTime;
    return arm(frame.slow_check);
  }
  Producing* from = frame.have_head ? producing(frame.head.channel) : nullptr;
  frame.outcome =
      reject(wire::RejectCode::kNoMemory,
             "its room was taken back: it filled slower than 64 KiB/s over 5 s",
             from != nullptr && from->channel->backpressure.load(std::memory_order_relaxed));
  frame.room.reset();
  frame.state = FrameInProgress::State::kDiscard;
}

Flow SessionImpl::end_message() {
  role_.assert_held();
  using Kind = MessageInPieces::Kind;
  const Kind kind = std::exchange(pieces_.kind, Kind::kNone);
  if (state_ == State::kClosing || state_ == State::kClosed) return Flow::kStop;
  Flow flow = Flow::kContinue;
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kUnknown:
      flow = handle(parse_whole({}, pieces_.type), {}, pieces_.type);
      break;
    case Kind::kFrame:
    case Kind::kControl:
      flow = finish(pieces_.frame, true);
      break;
    case Kind::kRefused:
      reject_request({.code = pieces_.frame.outcome.code, .detail = pieces_.frame.outcome.detail});
      break;
    case Kind::kPart:
      if (!pieces_.frame.have_head) {
        flow = finish(pieces_.frame, true);
      } else if (pieces_.part_left > 0 && transfer_.running) {
        drop_transfer();
        flow = refuse_malformed("the message ends inside the part's data");
      } else {
        flow = end_part();
      }
      break;
  }
  pieces_.frame.reset();
  announce_output();
  return flow;
}

/// The last byte is here.
Flow SessionImpl::finish(FrameInProgress& frame, bool envelope) {
  using Stage = FrameInProgress::State;
  if (frame.state == Stage::kRoom) {  // a frame without data
    Outcome outcome;
    room_by_ = hub_.clock.now();
    if (take_room(frame.head, false, frame.room, outcome) == Room::kGranted) {
      frame.state = Stage::kData;
    } else {
      frame.outcome = std::move(outcome);
      frame.state = Stage::kDiscard;
    }
  }
  switch (frame.state) {
    case Stage::kHead:
      return finish_whole(frame.collected, envelope);
    case Stage::kRoom:
      break;
    case Stage::kData: {
      if (frame.filled < frame.head.data_bytes)
        return refuse_malformed("the message ends inside the payload's data");
      if (is_flat()) return finish_flat_tail(frame);
      if (!frame.tail.empty()) {
        std::vector<std::byte> bytes(frame.collected);
        append(bytes, frame.room.data());
        append(bytes, frame.tail);
        frame.room.reset();
        return finish_whole(bytes, envelope);
      }
      malformed_in_a_row_ = 0;
      publish(frame.head, std::move(frame.room), frame.warnings);
      return Flow::kContinue;
    }
    case Stage::kWhole: {
      const auto bytes = frame.room
                             ? std::span<const std::byte>(frame.room.data().first(frame.filled))
                             : std::span<const std::byte>(frame.collected);
      return finish_whole(bytes, envelope);
    }
    case Stage::kDiscard:
      if (frame.have_head && frame.arrived < frame.head.data_offset + frame.head.data_bytes)
        return refuse_malformed("the message ends inside the payload's data");
      if (is_flat() && frame.have_head) {
        if (auto malformed = judge_flat_tail(frame)) return refuse_malformed(std::move(*malformed));
      }
      malformed_in_a_row_ = 0;
      if (!frame.have_head && !envelope) {  // what the parts said of it is all that is known
        frame.head.channel = transfer_.channel;
        frame.head.sequence = transfer_.sequence;
        refuse_frame(frame.head, frame.outcome);
      } else if (!frame.have_head) {
        reject_request({.code = frame.outcome.code, .detail = frame.outcome.detail});
      } else if (frame.outcome.what == Outcome::What::kDuplicate) {
        count_duplicate(frame.head);
      } else {
        refuse_frame(frame.head, frame.outcome);
      }
      return Flow::kContinue;
  }
  return Flow::kContinue;
}

/// Of a flat frame that is refused already: what a #meta says may come before that answer.
void SessionImpl::keep_flat_tail(FrameInProgress& frame, std::span<const std::byte> bytes) {
  if (frame.head.meta_bytes == 0) return;
  const std::uint64_t begin = frame.head.data_offset + frame.head.data_bytes;
  const std::uint64_t before = begin - std::min(begin, frame.arrived);
  append(frame.tail, bytes.subspan(std::min<std::uint64_t>(before, bytes.size())));
}

/// A #meta that came behind the data, as if it had been there when the head was judged: a sentence
/// where it is malformed, else the outcome may change.
std::optional<std::string> SessionImpl::judge_flat_tail(FrameInProgress& frame) {
  if (auto malformed = wire::read_flat_tail(frame.tail, frame.head))
    return std::move(malformed->detail);
  if (auto verdict = wire::check_head(frame.head, frame_limits()); !verdict.ok())
    frame.outcome = reject(verdict.code, std::move(verdict.detail));
  return std::nullopt;
}

/// The data of a flat frame is in its place; a #meta came behind it.
Flow SessionImpl::finish_flat_tail(FrameInProgress& frame) {
  if (frame.tail.size() != frame.head.tail_bytes)
    return refuse_malformed("the message ends before its blocks do");
  if (!frame.tail.empty()) {
    if (auto malformed = judge_flat_tail(frame)) {
      frame.room.reset();
      return refuse_malformed(std::move(*malformed));
    }
    if (frame.outcome.what == Outcome::What::kReject) {
      frame.room.reset();
      malformed_in_a_row_ = 0;
      refuse_frame(frame.head, frame.outcome);
      return Flow::kContinue;
    }
    wire::store_head(frame.head, hub_.clock.wall_ns(), frame.room.head());
  }
  malformed_in_a_row_ = 0;
  publish(frame.head, std::move(frame.room), frame.warnings);
  return Flow::kContinue;
}

Flow SessionImpl::finish_whole(std::span<const std::byte> bytes, bool envelope) {
  if (envelope) {
    const wire::ClientMessage message = parse_whole(bytes, pieces_.type);
    if (pieces_.type == MessageType::kText) return handle(message, bytes, pieces_.type);
    if (std::holds_alternative<wire::FrameBody>(message) && state_ == State::kOpen)
      return on_frame(bytes, head_, false);
    if (const auto* part = std::get_if<wire::Part>(&message);
        part != nullptr && state_ == State::kOpen) {
      return on_part(*part, false);
    }
    return handle(message, bytes, pieces_.type);
  }
  if (auto malformed = wire::parse_frame(bytes, head_))
    return refuse_malformed(std::move(malformed->detail));
  return on_frame(bytes, head_, false);
}

// ---- transfers in parts

Flow SessionImpl::on_part(const wire::Part& part, bool may_wait) {
  if (!transfer_.part_open) {
    if (!begin_part(part, part.data.size())) return Flow::kContinue;
    transfer_.part_open = true;
    transfer_.part_taken = 0;
  }
  if (!may_wait && !room_by_) room_by_ = hub_.clock.now();  // the first answer counts
  const Taken taken = feed(transfer_.frame, part.data.subspan(transfer_.part_taken), false);
  transfer_.part_taken += taken.bytes;
  if (taken.flow == Flow::kPause) return Flow::kPause;
  if (!may_wait) room_by_.reset();
  transfer_.part_open = false;
  return end_part();
}

bool SessionImpl::begin_part(const wire::Part& part, std::uint64_t data_bytes) {
  const auto refuse = [&](std::string detail) SB_NO_ANALYSIS {
    refuse_part(part, std::move(detail));
    return false;
  };
  if (part.transfer == 0 || part.count == 0 || part.index >= part.count || part.total_bytes == 0) {
    return refuse(fmt::format("transfer {}, index {} of {}, {} bytes",
                              part.transfer,
                              part.index,
                              part.count,
                              part.total_bytes));
  }
  if (part.index == 0) {
    const std::uint64_t expected = transfer_.id + 1;
    if (transfer_.running) drop_transfer();
    if (part.transfer != expected) {
      return refuse(fmt::format("transfer {} where {} is due", part.transfer, expected));
    }
    transfer_ = Transfer{.id = part.transfer,
                         .running = true,
                         .next_index = 0,
                         .count = part.count,
                         .total_bytes = part.total_bytes,
                         .channel = part.channel,
                         .sequence = part.sequence};
    transfer_.frame.total = part.total_bytes;
  } else if (!transfer_.running) {
    if (part.transfer == transfer_.id && transfer_.answered) return false;  // one Reject a transfer
    return refuse(
        fmt::format("index {} of transfer {} without its beginning", part.index, part.transfer));
  } else if (part.transfer != transfer_.id || part.index != transfer_.next_index) {
    return refuse(fmt::format("index {} of transfer {} where index {} of transfer {} is due",
                              part.index,
                              part.transfer,
                              transfer_.next_index,
                              transfer_.id));
  } else if (part.count != transfer_.count || part.total_bytes != transfer_.total_bytes ||
             part.channel != transfer_.channel || part.sequence != transfer_.sequence) {
    return refuse("count, total_bytes, channel or sequence differ from those of index 0");
  }
  if (transfer_.frame.arrived + data_bytes > transfer_.total_bytes) {
    return refuse(fmt::format("{} bytes of {} after index {}",
                              transfer_.frame.arrived + data_bytes,
                              transfer_.total_bytes,
                              part.index));
  }
  transfer_.drop_at = hub_.clock.now() + kPartSilence;
  arm(transfer_.drop_at);
  return true;
}

Flow SessionImpl::end_part() {
  if (!transfer_.running) return Flow::kContinue;
  transfer_.drop_at = hub_.clock.now() + kPartSilence;
  if (++transfer_.next_index < transfer_.count) return Flow::kContinue;
  if (transfer_.frame.arrived != transfer_.total_bytes) {
    refuse_part(
        wire::Part{
            .transfer = transfer_.id, .channel = transfer_.channel, .sequence = transfer_.sequence},
        fmt::format(
            "the parts hold {} bytes of {}", transfer_.frame.arrived, transfer_.total_bytes));
    return Flow::kContinue;
  }
  transfer_.running = false;
  const Flow flow = finish(transfer_.frame, false);
  transfer_.frame.reset();
  return flow;
}

void SessionImpl::drop_transfer() {
  transfer_.running = false;
  transfer_.part_open = false;
  transfer_.frame.reset();
}

void SessionImpl::refuse_part(const wire::Part& part, std::string detail) {
  drop_transfer();
  malformed_in_a_row_ = 0;
  if (part.transfer >= transfer_.id) transfer_.answered = true;
  transfer_.id = std::max(transfer_.id, part.transfer);
  wire::FrameHead head;
  head.channel = part.channel;
  head.sequence = part.sequence;
  refuse_frame(head, reject(wire::RejectCode::kPart, std::move(detail)));
}

}  // namespace simbridge::session
