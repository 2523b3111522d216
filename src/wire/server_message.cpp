// What the bridge says, encoded. Ack, Gap and Pong, which come with the frames, by hand; the rest
// by protobuf's own code.
#include "simbridge/wire/messages.h"
#include "wire/utf8.h"
#include "wire/writer.h"

#include "simbridge/v1/bridge.pb.h"

#include <array>
#include <type_traits>

namespace simbridge::wire {
namespace {

std::string clean(std::string_view text) {
  std::string out;
  append_utf8(text, out);
  return out;
}

// ---- by hand ----

template <typename Sink>
void put(Sink& out, const Ack& ack) {
  put_varint(out, 1, ack.channel);
  put_varint(out, 2, ack.sequence);
  put_varint(out, 3, ack.window_bytes);
}

template <typename Sink>
void put(Sink& out, const Gap& gap) {
  put_varint(out, 1, gap.subscription);
  put_varint(out, 2, gap.channel);
  put_fixed64(out, 3, gap.epoch);
  put_varint(out, 4, gap.first);
  put_varint(out, 5, gap.last);
  put_varint(out, 6, static_cast<std::uint64_t>(gap.reason));
  put_varint(out, 7, gap.frames);
}

template <typename Sink>
void put(Sink& out, const Pong& pong) {
  put_fixed64(out, 1, pong.cookie);
  put_fixed64(out, 2, static_cast<std::uint64_t>(pong.sent_ns));
  put_fixed64(out, 3, static_cast<std::uint64_t>(pong.now_ns));
}

template <typename Body>
void append_by_hand(std::uint32_t number, const Body& body, std::string& out) {
  std::array<std::byte, 96> place{};  // seven varints of 11 bytes, and the envelope
  Writer writer(place);
  put_message(writer, number, [&body](auto& sink) { put(sink, body); });
  out.append(reinterpret_cast<const char*>(place.data()), writer.count());
}

// ---- by protobuf ----

void fill(v1::Vector3& out, const Vector3& in) {
  out.set_x(in.x);
  out.set_y(in.y);
  out.set_z(in.z);
}

void fill(v1::Quality& out, const Quality& in) {
  out.set_max_hz(in.max_hz);
  out.set_max_points(in.max_points);
  out.set_leaf(in.leaf);
  out.set_sampling(static_cast<v1::Sampling>(in.sampling));
  if (in.region) {
    fill(*out.mutable_region()->mutable_min(), in.region->front());
    fill(*out.mutable_region()->mutable_max(), in.region->back());
  }
  out.set_min_range(in.min_range);
  out.set_max_range(in.max_range);
  out.set_keep_invalid(in.keep_invalid);
  for (const std::string& field : in.fields) out.add_fields(clean(field));
  out.set_output(static_cast<v1::Output>(in.output));
}

void fill(v1::ChannelInfo& out, const ChannelInfo& in) {
  out.set_id(in.id);
  out.set_name(clean(in.name));
  out.set_frame_id(clean(in.frame_id));
  out.set_schema(clean(in.schema));
  out.set_encoding(clean(in.encoding));
  out.set_schema_data(in.schema_data);
  out.set_epoch(in.epoch);
  out.set_first_sequence(in.first_sequence);
  out.set_last_sequence(in.last_sequence);
  out.set_live(in.live);
  out.set_latched(in.latched);
  out.set_schema_encoding(clean(in.schema_encoding));
  out.set_policy(static_cast<v1::Policy>(in.policy));
}

void fill(v1::ServerMessage& out, const Welcome& in) {
  v1::Welcome& body = *out.mutable_welcome();
  body.set_bridge(clean(in.bridge));
  body.set_version(clean(in.version));
  body.set_boot_id(in.boot_id);
  body.set_session(in.session);
  body.set_max_message_bytes(in.max_message_bytes);
  body.set_max_frame_bytes(in.max_frame_bytes);
  body.set_ping_interval_ms(in.ping_interval_ms);
  body.set_now_ns(in.now_ns);
}

void fill(v1::ServerMessage& out, const Channels& in) {
  v1::Channels& body = *out.mutable_channels();
  for (const ChannelInfo& channel : in.channel) fill(*body.add_channel(), channel);
  for (const std::uint32_t id : in.removed) body.add_removed(id);
  body.set_complete(in.complete);
}

void fill(v1::ServerMessage& out, const Advertised& in) {
  v1::Advertised& body = *out.mutable_advertised();
  body.set_channel(in.channel);
  body.set_id(in.id);
  body.set_last_sequence(in.last_sequence);
  body.set_window_bytes(in.window_bytes);
  body.set_epoch(in.epoch);
}

void fill(v1::ServerMessage& out, const Reject& in) {
  v1::Reject& body = *out.mutable_reject();
  body.set_channel(in.channel);
  body.set_sequence(in.sequence);
  body.set_code(static_cast<v1::RejectCode>(in.code));
  body.set_detail(clean(in.detail));
  body.set_subscription(in.subscription);
  body.set_retry(in.retry);
}

void fill(v1::ServerMessage& out, const SubscriptionState& in) {
  v1::SubscriptionState& body = *out.mutable_subscription_state();
  body.set_id(in.id);
  for (const std::uint32_t channel : in.channel) body.add_channel(channel);
  fill(*body.mutable_applied(), in.applied);
  body.set_degraded(in.degraded);
  body.set_detail(clean(in.detail));
  body.set_ended(in.ended);
  v1::Counters& counters = *body.mutable_counters();
  counters.set_promised(in.counters.promised);
  counters.set_delivered(in.counters.delivered);
  counters.set_skipped(in.counters.skipped);
  counters.set_lost(in.counters.lost);
}

void fill(v1::ServerMessage& out, const Drain& in) {
  v1::Drain& body = *out.mutable_drain();
  body.set_reason(clean(in.reason));
  body.set_deadline_ms(in.deadline_ms);
  body.set_retry_after_ms(in.retry_after_ms);
}

void fill(v1::ServerMessage& out, const Status& in) {
  v1::Status& body = *out.mutable_status();
  body.set_level(static_cast<v1::Level>(in.level));
  body.set_code(clean(in.code));
  body.set_detail(clean(in.detail));
}

}  // namespace

std::string_view name_of(RejectCode code) {
  switch (code) {
    case RejectCode::kUnspecified:
      return "UNSPECIFIED";
    case RejectCode::kMalformed:
      return "MALFORMED";
    case RejectCode::kUnknownChannel:
      return "UNKNOWN_CHANNEL";
    case RejectCode::kNameTaken:
      return "NAME_TAKEN";
    case RejectCode::kSequence:
      return "SEQUENCE";
    case RejectCode::kTooLarge:
      return "TOO_LARGE";
    case RejectCode::kDataTooShort:
      return "DATA_TOO_SHORT";
    case RejectCode::kField:
      return "FIELD";
    case RejectCode::kLayout:
      return "LAYOUT";
    case RejectCode::kCodec:
      return "CODEC";
    case RejectCode::kChecksum:
      return "CHECKSUM";
    case RejectCode::kNoMemory:
      return "NO_MEMORY";
    case RejectCode::kWindow:
      return "WINDOW";
    case RejectCode::kPart:
      return "PART";
    case RejectCode::kUnauthorized:
      return "UNAUTHORIZED";
    case RejectCode::kEpoch:
      return "EPOCH";
    case RejectCode::kQuality:
      return "QUALITY";
    case RejectCode::kPattern:
      return "PATTERN";
    case RejectCode::kLimit:
      return "LIMIT";
    case RejectCode::kDraining:
      return "DRAINING";
    case RejectCode::kUnsupported:
      return "UNSUPPORTED";
  }
  return "UNKNOWN";
}

std::string_view name_of(GapReason reason) {
  switch (reason) {
    case GapReason::kUnspecified:
      return "UNSPECIFIED";
    case GapReason::kEvicted:
      return "EVICTED";
    case GapReason::kQueue:
      return "QUEUE";
    case GapReason::kAge:
      return "AGE";
    case GapReason::kShrink:
      return "SHRINK";
    case GapReason::kSource:
      return "SOURCE";
    case GapReason::kEpoch:
      return "EPOCH";
    case GapReason::kRejected:
      return "REJECTED";
    case GapReason::kDecimation:
      return "DECIMATION";
    case GapReason::kRestart:
      return "RESTART";
    case GapReason::kTooLarge:
      return "TOO_LARGE";
    case GapReason::kShutdown:
      return "SHUTDOWN";
  }
  return "UNKNOWN";
}

void encode(const ServerMessage& message, std::string& out) {
  std::visit(
      [&out](const auto& body) {
        using Body = std::remove_cvref_t<decltype(body)>;
        if constexpr (std::is_same_v<Body, Ack>) {
          append_by_hand(v1::ServerMessage::kAckFieldNumber, body, out);
        } else if constexpr (std::is_same_v<Body, Gap>) {
          append_by_hand(v1::ServerMessage::kGapFieldNumber, body, out);
        } else if constexpr (std::is_same_v<Body, Pong>) {
          append_by_hand(v1::ServerMessage::kPongFieldNumber, body, out);
        } else {
          v1::ServerMessage typed;
          fill(typed, body);
          typed.AppendToString(&out);
        }
      },
      message);
}

}  // namespace simbridge::wire
