#include "wire/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace simbridge::wire::test {
namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// proto3 has no unknown enumerators: all numbers are kept, as protobuf's generated code does.
template <typename Enum>
Enum open(std::uint32_t number) {
  return static_cast<Enum>(static_cast<std::int32_t>(number));
}

void fill(v1::Vector3& out, const Vector3& in) {
  out.set_x(in.x);
  out.set_y(in.y);
  out.set_z(in.z);
}

void fill(v1::PointCloud& out, const CloudHead& in, std::string_view data) {
  out.set_height(in.height);
  out.set_width(in.width);
  for (const FieldHead& field : in.fields) {
    v1::Field& one = *out.add_fields();
    one.set_name(std::string(field.name));
    one.set_offset(field.offset);
    one.set_type(open<v1::Type>(field.type));
    one.set_count(field.count);
  }
  out.set_point_step(in.point_step);
  out.set_row_step(in.row_step);
  out.set_is_bigendian(in.is_bigendian);
  out.set_is_dense(in.is_dense);
  out.set_layout(open<v1::Layout>(in.layout));
  out.set_codec(open<v1::Codec>(in.codec));
  out.set_raw_size(in.raw_size);
  out.set_time_field(std::string(in.time_field));
  out.set_time_scale_num(in.time_scale_num);
  out.set_time_scale_den(in.time_scale_den);
  out.set_time_absolute(in.time_absolute);
  out.set_data(std::string(data));
}

void fill(v1::DepthImage& out, const DepthHead& in, std::string_view data) {
  out.set_height(in.height);
  out.set_width(in.width);
  out.set_encoding(std::string(in.encoding));
  out.set_row_step(in.row_step);
  out.set_fx(in.fx);
  out.set_fy(in.fy);
  out.set_cx(in.cx);
  out.set_cy(in.cy);
  out.set_codec(open<v1::Codec>(in.codec));
  out.set_raw_size(in.raw_size);
  out.set_data(std::string(data));
}

void fill(v1::ClientMessage& out, const Hello& in) {
  v1::Hello& body = *out.mutable_hello();
  body.set_name(in.name);
  body.set_agent(in.agent);
  body.set_max_message_bytes(in.max_message_bytes);
  body.set_token(in.token);
  body.set_peer_key(in.peer_key);
}

void fill(v1::ClientMessage& out, const Advertise& in) {
  v1::Advertise& body = *out.mutable_advertise();
  body.set_channel(in.channel);
  body.set_name(in.name);
  body.set_epoch(in.epoch);
  body.set_frame_id(in.frame_id);
  body.set_schema(in.schema);
  body.set_encoding(in.encoding);
  body.set_schema_data(in.schema_data);
  body.set_policy(static_cast<v1::Policy>(in.policy));
  body.set_latched(in.latched);
  body.set_schema_encoding(in.schema_encoding);
}

void fill(v1::ClientMessage& out, const Unadvertise& in) {
  out.mutable_unadvertise()->set_channel(in.channel);
}

void fill(v1::Quality& out, const Quality& in) {
  out.set_max_hz(in.max_hz);
  out.set_max_points(in.max_points);
  out.set_leaf(in.leaf);
  out.set_sampling(open<v1::Sampling>(in.sampling));
  if (in.region) {
    fill(*out.mutable_region()->mutable_min(), in.region->front());
    fill(*out.mutable_region()->mutable_max(), in.region->back());
  }
  out.set_min_range(in.min_range);
  out.set_max_range(in.max_range);
  out.set_keep_invalid(in.keep_invalid);
  for (const std::string& field : in.fields) out.add_fields(field);
  out.set_output(open<v1::Output>(in.output));
}

void fill(v1::ClientMessage& out, const Subscribe& in) {
  v1::Subscribe& body = *out.mutable_subscribe();
  body.set_id(in.id);
  body.set_channel(in.channel);
  fill(*body.mutable_quality(), in.quality);
  body.set_history(open<v1::History>(in.history));
  body.set_queue_frames(in.queue_frames);
  body.set_queue_bytes(in.queue_bytes);
  body.set_reliable(in.reliable);
  body.set_credit(in.credit);
  body.set_max_age_ms(in.max_age_ms);
  for (const Position& position : in.from) {
    v1::Position& one = *body.add_from();
    one.set_channel(position.channel);
    one.set_epoch(position.epoch);
    one.set_sequence(position.sequence);
  }
}

void fill(v1::ClientMessage& out, const Unsubscribe& in) {
  out.mutable_unsubscribe()->set_id(in.id);
}

void fill(v1::ClientMessage& out, const Credit& in) {
  out.mutable_credit()->set_subscription(in.subscription);
  out.mutable_credit()->set_channel(in.channel);
  out.mutable_credit()->set_frames(in.frames);
}

void fill(v1::ClientMessage& out, const Ping& in) {
  out.mutable_ping()->set_cookie(in.cookie);
  out.mutable_ping()->set_sent_ns(in.sent_ns);
}

void fill(v1::ClientMessage& out, const Goodbye& in) {
  out.mutable_goodbye()->set_reason(in.reason);
}

void fill(v1::ClientMessage& out, const Part& in) {
  v1::FramePart& body = *out.mutable_part();
  body.set_transfer(in.transfer);
  body.set_index(in.index);
  body.set_count(in.count);
  body.set_total_bytes(in.total_bytes);
  body.set_channel(in.channel);
  body.set_sequence(in.sequence);
  body.set_data(std::string(as_text(in.data)));
}

void fill(v1::ClientMessage& /*out*/, const Malformed& /*in*/) {}
void fill(v1::ClientMessage& /*out*/, const Unsupported& /*in*/) {}
void fill(v1::ClientMessage& /*out*/, const FrameBody& /*in*/) {}

// What parse() does not keep: unknown fields, what only the bridge sets, and the difference between
// an absent and an empty message where the protocol makes none.
void forget(v1::Frame& frame) {
  frame.DiscardUnknownFields();
  frame.clear_subscription();
  frame.clear_forwarded_ns();
  frame.clear_result();
}

void forget(v1::ClientMessage& message) {
  message.DiscardUnknownFields();
  if (message.has_frame()) forget(*message.mutable_frame());
  if (message.has_advertise() && !v1::Policy_IsValid(message.advertise().policy()))
    message.mutable_advertise()->clear_policy();
  if (message.has_subscribe()) {
    v1::Quality& quality = *message.mutable_subscribe()->mutable_quality();
    if (quality.has_region()) {
      quality.mutable_region()->mutable_min();
      quality.mutable_region()->mutable_max();
    }
  }
}

// By bytes, so that NaN and -0.0 count.
bool equal(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

std::string show(const google::protobuf::Message& message) {
  return message.ShortDebugString();
}

std::span<const std::byte> data_of(const FrameHead& head, std::span<const std::byte> bytes) {
  return bytes.subspan(head.data_offset, head.data_bytes);
}

bool same_head(const FrameHead& a, const FrameHead& b) {
  return a.data_offset == b.data_offset && a.data_bytes == b.data_bytes &&
         a.head_bytes == b.head_bytes && equal(to_proto(a, {}), to_proto(b, {}));
}

// What peek says about one prefix, held against what the whole message turned out to be.
struct Whole {
  std::span<const std::byte> bytes;
  bool is_frame = false, is_part = false;
  const FrameHead* head = nullptr;
  const Part* part = nullptr;
};

std::string judge_peek(const PeekResult& peeked,
                       const FrameHead& head,
                       const Whole& whole,
                       std::size_t prefix) {
  const std::uint64_t size = whole.bytes.size();
  switch (peeked.what) {
    case Peek::kNeedMore:
      return prefix == size ? "peek wants more than the whole message" : std::string();
    case Peek::kWhole:
      return {};
    case Peek::kFrame:
      if (!whole.is_frame) return "peek sees a frame where there is none";
      if (peeked.message_bytes != size || head.data_offset + head.data_bytes != size)
        return "peek sees a frame that ends elsewhere";
      return same_head(head, *whole.head) ? std::string() : "peek's head differs from parse's";
    case Peek::kPart: {
      if (!whole.is_part) return "peek sees a part where there is none";
      if (peeked.part_data_offset + peeked.part_data_bytes != size)
        return "peek sees a part that ends elsewhere";
      Part part = peeked.part;
      part.data = whole.bytes.subspan(peeked.part_data_offset, peeked.part_data_bytes);
      v1::ClientMessage a;
      v1::ClientMessage b;
      fill(a, part);
      fill(b, *whole.part);
      return equal(a, b) ? std::string() : "peek's part differs from parse's";
    }
  }
  return "peek says nothing known";
}

template <typename PeekAt>
std::string judge_prefixes(const Whole& whole, std::size_t max_prefixes, PeekAt peek_at) {
  FrameHead head;
  std::optional<Peek> answer;
  for (std::size_t prefix = 0; prefix <= std::min(whole.bytes.size(), max_prefixes); ++prefix) {
    const PeekResult peeked = peek_at(prefix, head);
    if (std::string fault = judge_peek(peeked, head, whole, prefix); !fault.empty())
      return fmt::format("{} (prefix of {})", fault, prefix);
    if (peeked.what == Peek::kNeedMore) continue;
    answer = peeked.what;
    break;
  }
  // The answer stays, however much more is here.
  const PeekResult last = peek_at(whole.bytes.size(), head);
  if (answer && *answer != last.what) return "peek changes its mind";
  return judge_peek(last, head, whole, whole.bytes.size());
}

}  // namespace

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

v1::Frame to_proto(const FrameHead& head, std::span<const std::byte> data) {
  v1::Frame out;
  out.set_channel(head.channel);
  out.set_sequence(head.sequence);
  out.set_epoch(head.epoch);
  out.set_stamp_ns(head.stamp_ns);
  out.set_clock(open<v1::Clock>(head.clock));
  out.set_sent_ns(head.sent_ns);
  out.set_received_ns(head.received_ns);
  out.set_frame_id(std::string(head.frame_id));
  if (head.has_pose) out.mutable_pose();
  if (head.pose_position) fill(*out.mutable_pose()->mutable_position(), *head.pose_position);
  if (head.pose_orientation) {
    v1::Quaternion& quaternion = *out.mutable_pose()->mutable_orientation();
    quaternion.set_x(head.pose_orientation->x);
    quaternion.set_y(head.pose_orientation->y);
    quaternion.set_z(head.pose_orientation->z);
    quaternion.set_w(head.pose_orientation->w);
  }
  if (head.origin) fill(*out.mutable_origin(), *head.origin);
  if (head.crc32c) out.set_crc32c(*head.crc32c);
  out.set_hops(head.hops);
  out.set_source_epoch(head.source_epoch);
  out.set_source_sequence(head.source_sequence);
  switch (head.kind) {
    case PayloadKind::kNone:
      break;
    case PayloadKind::kCloud:
      fill(*out.mutable_cloud(), head.cloud, as_text(data));
      break;
    case PayloadKind::kDepth:
      fill(*out.mutable_depth(), head.depth, as_text(data));
      break;
    case PayloadKind::kOpaque:
      out.mutable_opaque()->set_data(std::string(as_text(data)));
      break;
  }
  return out;
}

v1::ClientMessage to_proto(const ClientMessage& message) {
  v1::ClientMessage out;
  std::visit([&out](const auto& body) { fill(out, body); }, message);
  return out;
}

std::string judge_message(std::span<const std::byte> message, std::size_t max_prefixes) {
  v1::ClientMessage theirs;
  const bool accepted = theirs.ParseFromArray(message.data(), static_cast<int>(message.size()));
  FrameHead head;
  const ClientMessage parsed = parse(message, head);
  const bool malformed = std::holds_alternative<Malformed>(parsed);
  if (accepted == malformed)
    return accepted ? "protobuf accepts it, parse does not: " + std::get<Malformed>(parsed).detail
                    : std::string("protobuf does not accept it, parse does");
  const bool is_frame = std::holds_alternative<FrameBody>(parsed);
  if (!malformed) {
    forget(theirs);
    v1::ClientMessage ours = to_proto(parsed);
    if (is_frame) *ours.mutable_frame() = to_proto(head, data_of(head, message));
    if (ours.body_case() != theirs.body_case())
      return fmt::format("protobuf sees body {}, parse sees {}",
                         static_cast<int>(theirs.body_case()),
                         static_cast<int>(ours.body_case()));
    if (!equal(ours, theirs))
      return "protobuf reads " + show(theirs) + ", parse reads " + show(ours);
  }
  const Whole whole{.bytes = message,
                    .is_frame = is_frame,
                    .is_part = std::holds_alternative<Part>(parsed),
                    .head = &head,
                    .part = std::get_if<Part>(&parsed)};
  return judge_prefixes(whole, max_prefixes, [message](std::size_t prefix, FrameHead& into) {
    return peek(message.first(prefix), message.size(), into);
  });
}

std::string judge_frame(std::span<const std::byte> frame, std::size_t max_prefixes) {
  v1::Frame theirs;
  const bool accepted = theirs.ParseFromArray(frame.data(), static_cast<int>(frame.size()));
  FrameHead head;
  const std::optional<Malformed> malformed = parse_frame(frame, head);
  if (accepted == malformed.has_value())
    return accepted ? "protobuf accepts it, parse_frame does not: " + malformed->detail
                    : std::string("protobuf does not accept it, parse_frame does");
  if (accepted) {
    forget(theirs);
    const v1::Frame ours = to_proto(head, data_of(head, frame));
    if (!equal(ours, theirs))
      return "protobuf reads " + show(theirs) + ", parse_frame reads " + show(ours);
    if (std::string fault = judge_pass_through(head, data_of(head, frame)); !fault.empty())
      return fault;
  }
  const Whole whole{.bytes = frame, .is_frame = accepted, .head = &head};
  return judge_prefixes(whole, max_prefixes, [frame](std::size_t prefix, FrameHead& into) {
    return peek_frame(frame.first(prefix), frame.size(), into);
  });
}

std::string judge_pass_through(const FrameHead& head, std::span<const std::byte> data) {
  const std::int64_t received_ns = head.hops > 0 ? head.received_ns : 1234;
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, received_ns, stored);

  v1::Frame expected = to_proto(head, data);
  expected.set_received_ns(received_ns);
  FrameHead loaded;
  load_head(stored, loaded);
  v1::Frame reloaded = to_proto(loaded, data);
  reloaded.set_channel(head.channel);
  reloaded.set_sequence(head.sequence);
  reloaded.set_epoch(head.epoch);
  if (!equal(reloaded, expected)) return "stored " + show(expected) + ", loaded " + show(reloaded);

  const Outgoing outgoing{.channel = 77,
                          .subscription = head.hops,
                          .sequence = head.sequence,
                          .epoch = head.epoch,
                          .forwarded_ns = head.sent_ns,
                          .data_bytes = data.size(),
                          .points_in = head.points(),
                          .points_out = head.points(),
                          .skipped_frames = head.source_sequence,
                          .queue_us = head.clock,
                          .degraded = head.has_pose};
  expected.set_channel(77);
  expected.set_subscription(outgoing.subscription);
  expected.set_forwarded_ns(outgoing.forwarded_ns);
  v1::Result& result = *expected.mutable_result();
  result.set_points_in(outgoing.points_in);
  result.set_points_out(outgoing.points_out);
  result.set_decimator("none");
  result.set_skipped_frames(outgoing.skipped_frames);
  result.set_queue_us(outgoing.queue_us);
  result.set_degraded(outgoing.degraded);
  for (const bool envelope : {false, true}) {
    std::string sent(frame_prefix_max(stored), '\0');
    const std::uint64_t length =
        frame_prefix(stored, outgoing, envelope, std::as_writable_bytes(std::span(sent)));
    if (length > sent.size()) return "the prefix is longer than frame_prefix_max";
    sent.resize(length);
    sent.append(as_text(data));
    // protobuf's own encoding is the canonical one: fields in number order, each once.
    std::string canonical;
    if (envelope) {
      v1::ServerMessage message;
      *message.mutable_frame() = expected;
      canonical = message.SerializeAsString();
    } else {
      canonical = expected.SerializeAsString();
    }
    if (sent != canonical) return "the frame written is not the canonical " + show(expected);
  }
  return {};
}

namespace {

__extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): see frame_check.cpp

std::uint64_t bytes_of(std::uint32_t type) {
  static const std::map<std::uint32_t, std::uint64_t> kBytes{
      {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 4}, {7, 4}, {8, 8}, {9, 8}, {10, 8}, {11, 1}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

std::uint64_t elements(const FieldHead& field) {
  return std::max(field.count, 1U);
}

// The last byte that a reader of an AOS cloud or a depth image touches, row by row.
bool rows_fit(std::uint32_t height, Wide row_step, Wide row_bytes, std::uint64_t size) {
  if (height <= 64) {
    for (std::uint32_t row = 0; row < height; ++row)
      if (row * row_step + row_bytes > size) return false;
    return true;
  }
  return (height - 1) * row_step + row_bytes <= size;
}

// protocol.md: 0, a single row, or a step that only the data's whole size contradicts.
Wide row_step_read(
    std::uint32_t given, std::uint32_t height, Wide tight, std::uint64_t size, bool cloud) {
  if (given == 0 || (cloud && height == 1)) return tight;
  if (Wide{given} * height > size && tight * height == size) return tight;
  return given;
}

std::string judge_accepted_soa(const CloudHead& cloud, std::uint64_t points, std::uint64_t size) {
  std::vector<std::pair<Wide, Wide>> blocks;
  for (const FieldHead& field : cloud.fields) {
    const Wide bytes = Wide{points} * elements(field) * bytes_of(field.type);
    if (field.offset % 8 != 0) return "a block is not aligned";
    if (field.offset + bytes > size) return "a block ends past the data";
    for (const auto& [begin, end] : blocks)
      if (bytes != 0 && begin != end && field.offset < end && begin < field.offset + bytes)
        return "two blocks overlap";
    blocks.emplace_back(field.offset, field.offset + bytes);
  }
  return {};
}

std::string judge_accepted_aos(const CloudHead& cloud, std::uint64_t size) {
  for (const FieldHead& field : cloud.fields)
    if (field.offset + Wide{elements(field)} * bytes_of(field.type) > cloud.point_step)
      return "a field leaves its point";
  const Wide tight = Wide{cloud.width} * cloud.point_step;
  const Wide step = row_step_read(cloud.row_step, cloud.height, tight, size, true);
  if (step < tight) return "two rows overlap";
  return rows_fit(cloud.height, step, tight, size) ? std::string() : "a row ends past the data";
}

}  // namespace

std::string judge_accepted_payload(const FrameHead& head, const FrameLimits& limits) {
  std::uint32_t warnings = 0;
  if (!check_payload(head, limits, warnings).ok()) return {};
  if (head.data_bytes > limits.max_frame_bytes) return "the data is above the limit";
  const std::uint64_t points = head.points();
  if (points > limits.max_points) return "there are too many points";
  if (points == 0) return {};
  if (head.kind == PayloadKind::kDepth) {
    const DepthHead& depth = head.depth;
    const std::uint64_t size = depth.codec == 0 ? head.data_bytes : depth.raw_size;
    if (size > limits.max_frame_bytes) return "the decoded data is above the limit";
    const Wide tight = Wide{depth.width} * (depth.encoding == "16UC1" ? 2U : 4U);
    const Wide step = row_step_read(depth.row_step, depth.height, tight, size, false);
    if (step < tight) return "two rows overlap";
    return rows_fit(depth.height, step, tight, size) ? std::string() : "a row ends past the data";
  }
  const CloudHead& cloud = head.cloud;
  if (cloud.codec == 4) return {};  // Draco: its stream's own attributes count
  const std::uint64_t size = cloud.codec == 0 ? head.data_bytes : cloud.raw_size;
  if (size > limits.max_frame_bytes) return "the decoded data is above the limit";
  std::set<std::string_view> names;
  for (const FieldHead& field : cloud.fields) names.insert(field.name);
  const bool has_axes = names.contains("x") && names.contains("y") && names.contains("z");
  if (!has_axes && !names.contains("xyz")) return "there are no coordinates";
  if (cloud.layout == 0) return judge_accepted_aos(cloud, size);
  if (cloud.layout != 1) return "the layout is not known";
  return cloud.codec == 0 ? judge_accepted_soa(cloud, points, size) : std::string();
}

}  // namespace simbridge::wire::test
