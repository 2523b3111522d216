#include "client/messages.h"

#include "client/crc32c.h"

#include <fmt/core.h>

#include "simbridge/v1/bridge.pb.h"

#include <chrono>

namespace simbridge::client {
namespace {

template <typename Descriptor>
std::string enum_name(const Descriptor* descriptor, int value, std::string_view prefix) {
  const auto* found = descriptor->FindValueByNumber(value);
  if (found == nullptr) return std::to_string(value);
  return found->name().substr(prefix.size());
}

/// Layouts of two ROS drivers whose per-point time is certain: Ouster's t in nanoseconds,
/// Velodyne's time in seconds. Anything else is left to who knows.
void fill_time_field(v1::PointCloud& message, const CloudField& field) {
  if (field.count != 1) return;
  if (field.name == "t" && field.type == FieldType::kUint32) {
    message.set_time_field(field.name);
  } else if (field.name == "time" && field.type == FieldType::kFloat32) {
    message.set_time_field(field.name);
    message.set_time_scale_num(1'000'000'000);
  }
}

}  // namespace

std::int64_t wall_ns() {
  return SystemClock().wall_ns();
}

void fill_hello(v1::Hello& hello, const PeerOptions& options) {
  hello.set_name(options.name);
  hello.set_agent(options.agent);
  hello.set_max_message_bytes(options.max_message_bytes);
  hello.set_token(options.token);
  hello.set_peer_key(options.peer_key);
}

void fill_advertise(v1::Advertise& advertise, const AdvertiseOptions& options) {
  advertise.set_channel(options.channel);
  advertise.set_name(options.name);
  advertise.set_epoch(options.epoch);
  advertise.set_frame_id(options.frame_id);
  advertise.set_schema(options.schema);
  advertise.set_encoding(options.encoding);
  advertise.set_latched(options.latched);
  switch (options.policy) {
    case SendPolicy::kDefault:
      break;
    case SendPolicy::kDropOldest:
      advertise.set_policy(v1::POLICY_DROP_OLDEST);
      break;
    case SendPolicy::kBackpressure:
      advertise.set_policy(v1::POLICY_BACKPRESSURE);
      break;
  }
}

void fill_quality(v1::Quality& message, double max_hz, const Quality& quality) {
  message.set_max_hz(static_cast<float>(max_hz));
  message.set_max_points(quality.max_points);
  message.set_leaf(quality.leaf);
  message.set_sampling(static_cast<v1::Sampling>(quality.sampling));
  if (quality.region) {
    const auto fill = [](v1::Vector3& corner, const std::array<double, 3>& from) {
      corner.set_x(from[0]);
      corner.set_y(from[1]);
      corner.set_z(from[2]);
    };
    fill(*message.mutable_region()->mutable_min(), quality.region->min);
    fill(*message.mutable_region()->mutable_max(), quality.region->max);
  }
  message.set_min_range(quality.min_range);
  message.set_max_range(quality.max_range);
  message.set_output(static_cast<v1::Output>(quality.output));
}

void fill_subscribe(v1::Subscribe& subscribe, const SubscribeOptions& options) {
  subscribe.set_id(options.id);
  subscribe.set_channel(options.channel);
  fill_quality(*subscribe.mutable_quality(), options.max_hz, options.quality);
  // With only defaults it is left out: frames as they are sent.
  if (subscribe.quality().ByteSizeLong() == 0) subscribe.clear_quality();
  switch (options.history) {
    case HistoryMode::kNone:
      subscribe.set_history(v1::HISTORY_NONE);
      break;
    case HistoryMode::kLast:
      subscribe.set_history(v1::HISTORY_LAST);
      break;
    case HistoryMode::kAllKept:
      subscribe.set_history(v1::HISTORY_ALL_KEPT);
      break;
    case HistoryMode::kFrom:
      subscribe.set_history(v1::HISTORY_FROM);
      break;
  }
  for (const auto& position : options.from) {
    auto* from = subscribe.add_from();
    from->set_channel(position.channel);
    from->set_epoch(position.epoch);
    from->set_sequence(position.sequence);
  }
  subscribe.set_reliable(options.reliable);
  subscribe.set_credit(options.credit);
  subscribe.set_max_age_ms(options.max_age_ms);
  subscribe.set_queue_frames(options.queue_frames);
  subscribe.set_queue_bytes(options.queue_bytes);
}

WelcomeInfo welcome_info(const v1::Welcome& welcome) {
  return {.bridge = welcome.bridge(),
          .version = welcome.version(),
          .boot_id = welcome.boot_id(),
          .session = welcome.session(),
          .max_message_bytes = welcome.max_message_bytes(),
          .max_frame_bytes = welcome.max_frame_bytes(),
          .ping_interval_ms = welcome.ping_interval_ms()};
}

void fill_header(v1::Frame& frame, const FrameHeader& header) {
  const auto now = wall_ns();
  frame.set_channel(header.channel);
  frame.set_sequence(header.sequence);
  frame.set_epoch(header.epoch);
  frame.set_stamp_ns(header.stamp_ns != 0 ? header.stamp_ns : now);
  frame.set_clock(v1::CLOCK_SOURCE_UNIX);
  frame.set_sent_ns(now);
  frame.set_frame_id(header.frame_id);
}

void fill_layout(v1::Frame& frame, const PointCloudData& cloud) {
  auto& message = *frame.mutable_cloud();
  message.set_height(cloud.height);
  message.set_width(cloud.width);
  message.set_point_step(cloud.point_step);
  // A row above 4 GiB has no number here; the bridge refuses such a frame by its size anyway.
  message.set_row_step(static_cast<std::uint32_t>(std::uint64_t{cloud.width} * cloud.point_step));
  message.set_is_dense(cloud.is_dense);
  for (const auto& field : cloud.fields) {
    if (field.name == "_") continue;
    auto& made = *message.add_fields();
    made.set_name(field.name);
    made.set_offset(field.offset);
    made.set_type(static_cast<v1::Type>(field.type));
    made.set_count(field.count);
    fill_time_field(message, field);
  }
  const auto& view = cloud.viewpoint;
  if (view == Viewpoint{}) return;
  auto& pose = *frame.mutable_pose();
  pose.mutable_position()->set_x(view.x);
  pose.mutable_position()->set_y(view.y);
  pose.mutable_position()->set_z(view.z);
  pose.mutable_orientation()->set_w(view.qw);
  pose.mutable_orientation()->set_x(view.qx);
  pose.mutable_orientation()->set_y(view.qy);
  pose.mutable_orientation()->set_z(view.qz);
}

void fill_cloud(v1::Frame& frame, const PointCloudData& cloud) {
  fill_layout(frame, cloud);
  frame.mutable_cloud()->set_data(cloud.data);
}

void fill_checksum(v1::Frame& frame) {
  frame.set_crc32c(crc32c(payload_data(frame)));
}

std::string_view payload_data(const v1::Frame& frame) {
  switch (frame.payload_case()) {
    case v1::Frame::kCloud:
      return frame.cloud().data();
    case v1::Frame::kDepth:
      return frame.depth().data();
    case v1::Frame::kOpaque:
      return frame.opaque().data();
    case v1::Frame::PAYLOAD_NOT_SET:
      break;
  }
  return {};
}

std::string describe(const v1::Reject& reject) {
  return fmt::format("{}: {}", reject_name(reject.code()), reject.detail());
}

std::string reject_name(int code) {
  return enum_name(v1::RejectCode_descriptor(), code, "REJECT_");
}

std::string gap_reason_name(int reason) {
  return enum_name(v1::GapReason_descriptor(), reason, "GAP_");
}

std::string level_name(int level) {
  return enum_name(v1::Level_descriptor(), level, "LEVEL_");
}

}  // namespace simbridge::client
