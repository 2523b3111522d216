// The envelope by hand; Frame and FramePart by hand (their data is never copied); the control
// messages by protobuf's own code.
#include "simbridge/base/check.h"
#include "simbridge/wire/frame_head.h"
#include "wire/frame_parser.h"
#include "wire/reader.h"

#include <google/protobuf/io/coded_stream.h>

#include "simbridge/v1/bridge.pb.h"

#include <limits>
#include <optional>
#include <utility>

namespace simbridge::wire {
namespace {

constexpr std::uint32_t kPartNumber = v1::ClientMessage::kPartFieldNumber;
constexpr std::uint32_t kFrameNumber = v1::ClientMessage::kFrameFieldNumber;

Malformed malformed(const Reader& in) {
  return {in.describe_failure()};
}

// ---- control messages, as protobuf's code gives them ----

Hello from(v1::Hello& in) {
  return {.name = std::move(*in.mutable_name()),
          .agent = std::move(*in.mutable_agent()),
          .token = std::move(*in.mutable_token()),
          .peer_key = std::move(*in.mutable_peer_key()),
          .max_message_bytes = in.max_message_bytes()};
}

Policy from(v1::Policy policy) {
  switch (policy) {
    case v1::POLICY_DROP_OLDEST:
      return Policy::kDropOldest;
    case v1::POLICY_BACKPRESSURE:
      return Policy::kBackpressure;
    default:
      return Policy::kUnspecified;
  }
}

Advertise from(v1::Advertise& in) {
  return {.channel = in.channel(),
          .name = std::move(*in.mutable_name()),
          .frame_id = std::move(*in.mutable_frame_id()),
          .schema = std::move(*in.mutable_schema()),
          .encoding = std::move(*in.mutable_encoding()),
          .schema_data = std::move(*in.mutable_schema_data()),
          .schema_encoding = std::move(*in.mutable_schema_encoding()),
          .epoch = in.epoch(),
          .policy = from(in.policy()),
          .latched = in.latched()};
}

Vector3 from(const v1::Vector3& in) {
  return {.x = in.x(), .y = in.y(), .z = in.z()};
}

Quality from(v1::Quality& in) {
  Quality out{.max_hz = in.max_hz(),
              .max_points = in.max_points(),
              .leaf = in.leaf(),
              .sampling = static_cast<std::uint32_t>(in.sampling()),
              .region = std::nullopt,
              .min_range = in.min_range(),
              .max_range = in.max_range(),
              .keep_invalid = in.keep_invalid(),
              .fields = {},
              .output = static_cast<std::uint32_t>(in.output())};
  if (in.has_region()) out.region = {from(in.region().min()), from(in.region().max())};
  out.fields.reserve(static_cast<std::size_t>(in.fields_size()));
  for (std::string& field : *in.mutable_fields()) out.fields.push_back(std::move(field));
  return out;
}

Subscribe from(v1::Subscribe& in) {
  Subscribe out{.id = in.id(),
                .channel = std::move(*in.mutable_channel()),
                .quality = from(*in.mutable_quality()),
                .history = static_cast<std::uint32_t>(in.history()),
                .queue_frames = in.queue_frames(),
                .queue_bytes = in.queue_bytes(),
                .reliable = in.reliable(),
                .credit = in.credit(),
                .max_age_ms = in.max_age_ms(),
                .from = {}};
  out.from.reserve(static_cast<std::size_t>(in.from_size()));
  for (v1::Position& position : *in.mutable_from())
    out.from.push_back({.channel = std::move(*position.mutable_channel()),
                        .epoch = position.epoch(),
                        .sequence = position.sequence()});
  return out;
}

// The control bodies of one message: merged while they are of one kind, as protobuf's oneof does.
class ControlBody {
 public:
  static bool knows(std::uint32_t number) {
    return number >= v1::ClientMessage::kHelloFieldNumber &&
           number <= v1::ClientMessage::kGoodbyeFieldNumber;
  }

  bool merge(std::uint32_t number, std::string_view bytes, int depth_left) {
    google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                              static_cast<int>(bytes.size()));
    in.SetRecursionLimit(depth_left);
    return body(number).MergeFromCodedStream(&in) && in.ConsumedEntireMessage();
  }

  void clear() { message_.Clear(); }

  ClientMessage take() {
    switch (message_.body_case()) {
      case v1::ClientMessage::kHello:
        return from(*message_.mutable_hello());
      case v1::ClientMessage::kAdvertise:
        return from(*message_.mutable_advertise());
      case v1::ClientMessage::kUnadvertise:
        return Unadvertise{message_.unadvertise().channel()};
      case v1::ClientMessage::kSubscribe:
        return from(*message_.mutable_subscribe());
      case v1::ClientMessage::kUnsubscribe:
        return Unsubscribe{message_.unsubscribe().id()};
      case v1::ClientMessage::kCredit:
        return Credit{.subscription = message_.credit().subscription(),
                      .channel = message_.credit().channel(),
                      .frames = message_.credit().frames()};
      case v1::ClientMessage::kPing:
        return Ping{.cookie = message_.ping().cookie(), .sent_ns = message_.ping().sent_ns()};
      case v1::ClientMessage::kGoodbye:
        return Goodbye{std::move(*message_.mutable_goodbye()->mutable_reason())};
      case v1::ClientMessage::kPart:
      case v1::ClientMessage::kFrame:
      case v1::ClientMessage::BODY_NOT_SET:
        break;
    }
    SB_UNREACHABLE("only control bodies are merged here");
  }

 private:
  google::protobuf::Message& body(std::uint32_t number) {
    switch (number) {
      case v1::ClientMessage::kHelloFieldNumber:
        return *message_.mutable_hello();
      case v1::ClientMessage::kAdvertiseFieldNumber:
        return *message_.mutable_advertise();
      case v1::ClientMessage::kUnadvertiseFieldNumber:
        return *message_.mutable_unadvertise();
      case v1::ClientMessage::kSubscribeFieldNumber:
        return *message_.mutable_subscribe();
      case v1::ClientMessage::kUnsubscribeFieldNumber:
        return *message_.mutable_unsubscribe();
      case v1::ClientMessage::kCreditFieldNumber:
        return *message_.mutable_credit();
      case v1::ClientMessage::kPingFieldNumber:
        return *message_.mutable_ping();
      case v1::ClientMessage::kGoodbyeFieldNumber:
        return *message_.mutable_goodbye();
      default:
        SB_UNREACHABLE("knows() was asked first");
    }
  }

  v1::ClientMessage message_;
};

// ---- the envelope ----

class EnvelopeParser {
 public:
  EnvelopeParser(std::span<const std::byte> message, FrameHead& head)
      : message_(message), in_(message, message.size()), head_(head) {}

  ClientMessage parse() {
    head_.clear();
    while (!in_.at_end()) {
      std::uint32_t tag = 0;
      if (!in_.read_tag(tag)) return malformed(in_);
      const bool read = is_body(tag) ? read_body(tag >> 3U) : in_.skip_field(tag);
      if (!read) return failure_ ? std::move(*failure_) : malformed(in_);
    }
    if (number_ != kFrameNumber) head_.clear();
    switch (number_) {
      case 0:
        return Unsupported{"the message has no body that this version knows"};
      case kFrameNumber:
        return FrameBody{};
      case kPartNumber:
        part_.data = message_.subspan(part_offset_, part_bytes_);
        return part_;
      default:
        if (!control_) SB_UNREACHABLE("a control body that counts was merged");
        return control_->take();
    }
  }

 private:
  static bool is_body(std::uint32_t tag) {
    const std::uint32_t number = tag >> 3U;
    return tag == tag_of(number, WireType::kLength) &&
           (number == kFrameNumber || number == kPartNumber || ControlBody::knows(number));
  }

  // Of two bodies the last counts, but all must parse; the same body again merges.
  void begin_body(std::uint32_t number) {
    if (number == number_) return;
    number_ = number;
    part_ = Part{};
    part_offset_ = part_bytes_ = 0;
    if (number == kFrameNumber) head_.clear();
    if (control_) control_->clear();
  }

  bool read_body(std::uint32_t number) {
    begin_body(number);
    std::uint64_t outer_end = 0;
    if (!in_.enter(outer_end)) return false;
    if (!read_content(number)) return false;
    in_.leave(outer_end);
    return true;
  }

  bool read_content(std::uint32_t number) {
    if (number == kFrameNumber)
      return parse_frame_content(in_, ParseMode::kWhole, head_) == Parsed::kEnd;
    if (number == kPartNumber)
      return parse_part_content(in_, ParseMode::kWhole, part_, part_offset_, part_bytes_) ==
             Parsed::kEnd;
    if (!control_) control_.emplace();
    const std::uint64_t start = in_.position();
    const std::string_view bytes(reinterpret_cast<const char*>(message_.data()) + start,
                                 in_.end() - start);
    if (control_->merge(number, bytes, in_.depth_left())) return in_.skip_bytes(bytes.size());
    const auto* field =
        v1::ClientMessage::descriptor()->FindFieldByNumber(static_cast<int>(number));
    failure_ = Malformed{"the " + field->name() + " does not parse"};
    return false;
  }

  std::span<const std::byte> message_;
  Reader in_;
  FrameHead& head_;
  std::uint32_t number_ = 0;  // of the body that counts so far
  Part part_;
  std::uint64_t part_offset_ = 0, part_bytes_ = 0;
  std::optional<ControlBody> control_;
  std::optional<Malformed> failure_;
};

PeekResult not_yet_or_whole(const Reader& in) {
  return {.what = in.failure() == Reader::Failure::kShort ? Peek::kNeedMore : Peek::kWhole};
}

PeekResult peek_frame_content(Reader& in, FrameHead& head) {
  switch (parse_frame_content(in, ParseMode::kPrefix, head)) {
    case Parsed::kData:
      return {.what = Peek::kFrame, .message_bytes = in.end()};
    case Parsed::kFailed:
      return not_yet_or_whole(in);
    case Parsed::kEnd:  // without data: all of it is here, and nothing is gained by haste
    case Parsed::kNotCanonical:
      break;
  }
  return {.what = Peek::kWhole};
}

PeekResult peek_part_content(Reader& in) {
  PeekResult result;
  switch (parse_part_content(
      in, ParseMode::kPrefix, result.part, result.part_data_offset, result.part_data_bytes)) {
    case Parsed::kData:
      result.what = Peek::kPart;
      result.message_bytes = in.end();
      return result;
    case Parsed::kFailed:
      return not_yet_or_whole(in);
    case Parsed::kEnd:
    case Parsed::kNotCanonical:
      break;
  }
  return {.what = Peek::kWhole};
}

}  // namespace

ClientMessage parse(std::span<const std::byte> message, FrameHead& head) {
  return EnvelopeParser(message, head).parse();
}

std::optional<Malformed> parse_frame(std::span<const std::byte> frame, FrameHead& head) {
  head.clear();
  Reader in(frame, frame.size());
  if (parse_frame_content(in, ParseMode::kWhole, head) == Parsed::kEnd) return std::nullopt;
  return malformed(in);
}

PeekResult peek(std::span<const std::byte> prefix,
                std::optional<std::uint64_t> message_bytes,
                FrameHead& head) {
  head.clear();
  Reader in(prefix, message_bytes.value_or(std::numeric_limits<std::uint64_t>::max()));
  if (in.at_end()) return {.what = Peek::kWhole};
  std::uint32_t tag = 0;
  if (!in.read_tag(tag)) return not_yet_or_whole(in);
  const bool frame = tag == tag_of(kFrameNumber, WireType::kLength);
  if (!frame && tag != tag_of(kPartNumber, WireType::kLength)) return {.what = Peek::kWhole};
  std::uint64_t message_end = 0;
  if (!in.enter(message_end)) return not_yet_or_whole(in);
  if (message_bytes && in.end() != message_end) return {.what = Peek::kWhole};
  return frame ? peek_frame_content(in, head) : peek_part_content(in);
}

PeekResult peek_frame(std::span<const std::byte> prefix,
                      std::uint64_t total_bytes,
                      FrameHead& head) {
  head.clear();
  Reader in(prefix, total_bytes);
  return peek_frame_content(in, head);
}

}  // namespace simbridge::wire
