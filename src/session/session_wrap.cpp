// What goes out around a frame's data: the header of each road, a #meta, the parts of a frame that
// is too large for one message.
#include "session/session_impl.h"
#include "simbridge/wire/flat.h"

#include <algorithm>
#include <cstring>

namespace simbridge::session {
namespace {

constexpr std::uint32_t kMetaEvery = 100;  // frames, where it did not change (protocol.md §5)

/// What the #meta of this frame would say that others have in common with it.
Reading::Meta meta_of(const frame::FrameRef& frame) {
  thread_local wire::FrameHead head;  // keeps its capacity
  wire::load_head(frame.head(), head);
  return {.frame_id = std::string(head.frame_id),
          .encoding = std::string(head.depth.encoding),
          .time_field = std::string(head.cloud.time_field),
          .intrinsics = {head.depth.fx, head.depth.fy, head.depth.cx, head.depth.cy},
          .time_scale_num = head.cloud.time_scale_num,
          .time_scale_den = head.cloud.time_scale_den,
          .time_absolute = head.cloud.time_absolute};
}

}  // namespace

SessionImpl::Wrapping SessionImpl::wrapping_of(Reading& reading,
                                               const frame::FrameRef& frame,
                                               const wire::Outgoing& outgoing) {
  if (!is_flat()) return {.prefix_max = wire::frame_prefix_max(frame.head()), .meta = {}};
  Wrapping wrapping{.prefix_max = wire::flat_prefix_max(frame.head()), .meta = {}};
  const bool due = !reading.meta_told || reading.frames_since_meta + 1 >= kMetaEvery;
  if (!due && meta_of(frame) == *reading.meta_told) return wrapping;
  wrapping.meta = wire::flat_meta(frame.head(), outgoing);
  if (wrapping.prefix_max + frame.data_bytes() + wrapping.suffix_max() > peer_limit())
    wrapping.meta.clear();
  return wrapping;
}

void SessionImpl::note_meta(Reading& reading, const frame::FrameRef& frame, bool sent) {
  if (sent) {
    reading.meta_told = meta_of(frame);
    reading.frames_since_meta = 0;
  } else {
    ++reading.frames_since_meta;
  }
}

/// place has room for prefix and suffix.
OutMessage SessionImpl::wrap(const Wrapping& wrapping,
                             const frame::FrameRef& frame,
                             const wire::Outgoing& outgoing,
                             std::byte* place) const {
  const std::span<std::byte> prefix{place, wrapping.prefix_max};
  if (!is_flat()) {
    const std::uint64_t length = wire::frame_prefix(frame.head(), outgoing, true, prefix);
    return {.prefix = prefix.first(length), .data = frame.data()};
  }
  const std::uint64_t length =
      wire::flat_prefix(frame.head(), outgoing, wrapping.meta.size(), prefix);
  OutMessage message{.prefix = prefix.first(length), .data = frame.data()};
  if (wrapping.meta.empty()) return message;
  std::byte* behind = place + wrapping.prefix_max;
  const std::size_t zeros = (8 - frame.data_bytes() % 8) % 8;
  std::memset(behind, 0, zeros);
  std::memcpy(behind + zeros, wrapping.meta.data(), wrapping.meta.size());
  message.suffix = {behind, zeros + wrapping.meta.size()};
  return message;
}

/// The next part of the frame that is too large for one message; part 0 has all before the data.
bool SessionImpl::place_part(Batch& batch) {
  const std::uint64_t data_bytes = parts_.frame.data_bytes();
  const std::uint64_t prefix_max = wire::frame_prefix_max(parts_.frame.head());
  std::byte* place = scratch(wire::kPartPrefixMax + prefix_max);
  if (place == nullptr) return false;
  wire::Part& part = parts_.part;
  std::uint64_t own = 0;  // bytes of this part's data that are written here
  std::byte* behind_prefix = place + wire::kPartPrefixMax;
  if (part.index == 0) {
    own = wire::frame_prefix(
        parts_.frame.head(), parts_.outgoing, false, {behind_prefix, prefix_max});
    part.total_bytes = own + data_bytes;
    part.count = static_cast<std::uint32_t>(1 + (data_bytes + parts_.chunk - 1) / parts_.chunk);
  }
  std::span<const std::byte> data;
  if (part.index > 0) {
    data = parts_.frame.data().subspan(parts_.data_sent,
                                       std::min(parts_.chunk, data_bytes - parts_.data_sent));
  }
  const std::uint64_t head =
      wire::part_prefix(part, own + data.size(), {place, wire::kPartPrefixMax});
  // The prefix is written before what stands behind it: bring them together.
  std::memmove(place + head, behind_prefix, own);
  batch.messages[batch.count++] = OutMessage{.prefix = {place, head + own}, .data = data};
  batch.bytes += head + own + data.size();
  parts_.data_sent += data.size();
  const bool last = ++part.index == part.count;
  in_flight_.push_back(InFlight{parts_.reading, parts_.frame, parts_.stream, last});
  if (last) parts_ = PartsOut{};
  return true;
}

/// The frame that is being sent in parts will not be sent to its end.
void SessionImpl::abandon_parts(wire::GapReason reason) {
  if (!parts_.reading) return;
  Reading& reading = *parts_.reading;
  const wire::Outgoing& sent = parts_.outgoing;
  send_gap(wire::Gap{.subscription = reading.books->subscription,
                     .channel = reading.channel->id,
                     .epoch = sent.epoch,
                     .first = sent.sequence,
                     .last = sent.sequence,
                     .reason = reason,
                     .frames = 1});
  reading.books->in_flight.fetch_sub(1, std::memory_order_relaxed);
  count_lost(reading, reason, 1);
  parts_ = PartsOut{};
}

}  // namespace simbridge::session
