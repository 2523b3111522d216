// Flat messages out: header and table before the stored data, a #meta behind it.
#include "simbridge/base/check.h"
#include "simbridge/wire/flat.h"
#include "wire/field_type.h"
#include "wire/flat_layout.h"
#include "wire/strict_json.h"

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace simbridge::wire {
namespace {

using namespace flat;  // NOLINT(google-build-using-namespace): its names are this file's subject

/// The stored head, read anew for each question: its fields keep their capacity.
const FrameHead& loaded(std::span<const std::byte> stored) {
  thread_local FrameHead head;
  load_head(stored, head);
  return head;
}

constexpr std::uint32_t kComponentsMax = 255;  // what a byte holds

std::size_t blocks_of(const FrameHead& head) {
  return head.kind == PayloadKind::kCloud ? head.cloud.fields.size() : 1;
}

std::uint64_t header_bytes(std::size_t blocks) {
  return kHeaderBytes + blocks * kBlockBytes;
}

struct Entry {
  std::string_view name;
  std::uint32_t type = 0, components = 1;
  std::uint64_t offset = 0, bytes = 0;
};

void put_entry(std::span<std::byte> out, std::size_t index, const Entry& entry) {
  const auto to = out.subspan(kHeaderBytes + index * kBlockBytes, kBlockBytes);
  std::ranges::fill(to, std::byte{0});
  const auto name =
      std::as_bytes(std::span(entry.name)).first(std::min(entry.name.size(), kNameBytes));
  std::ranges::copy(name, to.begin());  // nothing, where it is empty
  put(to, kAtType, static_cast<std::uint8_t>(entry.type));
  put(to, kAtComponents, static_cast<std::uint8_t>(entry.components));
  put(to, kAtOffset, static_cast<std::uint32_t>(entry.offset));
  put(to, kAtBytes, entry.bytes);
}

void put_vector(std::span<std::byte> out, std::size_t at, const Vector3& vector) {
  put(out, at, vector.x);
  put(out, at + 8, vector.y);
  put(out, at + 16, vector.z);
}

std::uint32_t count_of(const FieldHead& field) {
  return field.count == 0 ? 1 : field.count;
}

std::uint32_t kind_of(PayloadKind kind) {
  switch (kind) {
    case PayloadKind::kDepth:
      return kDepth;
    case PayloadKind::kOpaque:
      return kOpaque;
    case PayloadKind::kCloud:
    case PayloadKind::kNone:
      break;
  }
  return kCloud;
}

std::uint32_t height_of(const FrameHead& head) {
  if (head.kind == PayloadKind::kCloud) return head.cloud.height;
  return head.kind == PayloadKind::kDepth ? head.depth.height : 0;
}

void put_place(std::span<std::byte> out, const FrameHead& head, std::uint32_t& flags) {
  if (head.origin) {
    flags |= kOriginGiven;
    put_vector(out, kAtOrigin, *head.origin);
  }
  if (!head.has_pose) return;
  flags |= kPoseGiven;
  put_vector(out, kAtPose, head.pose_position.value_or(Vector3{}));
  const Quaternion turn = head.pose_orientation.value_or(Quaternion{.w = 1});  // absent = identity
  put(out, kAtPose + 24, turn.x);
  put(out, kAtPose + 32, turn.y);
  put(out, kAtPose + 40, turn.z);
  put(out, kAtPose + 48, turn.w);
}

void put_result(std::span<std::byte> out,
                const FrameHead& head,
                const Outgoing& outgoing,
                std::uint32_t& flags) {
  put(out, kAtPointsIn, head.result ? head.result->points_in : outgoing.points_in);
  put(out, kAtSkipped, outgoing.skipped_frames);
  if (outgoing.degraded || (head.result && head.result->degraded)) flags |= kDegraded;
  if (!head.result) return;
  put(out, kAtLeaf, head.result->leaf);
  if (!head.result->box) return;
  flags |= kBoxValid;
  std::size_t at = kAtBox;
  for (const Vector3& corner : *head.result->box) {
    for (const double value : {corner.x, corner.y, corner.z}) {
      put(out, at, static_cast<float>(value));
      at += sizeof(float);
    }
  }
}

bool has_flat_blocks(const FrameHead& head, std::uint64_t data_bytes) {
  const CloudHead& cloud = head.cloud;
  if (!is_soa(cloud) || cloud.codec != 0 || cloud.is_bigendian) return false;
  const std::uint64_t begin = header_bytes(cloud.fields.size() + 1);
  if (begin > std::numeric_limits<std::uint16_t>::max() ||
      data_bytes > std::numeric_limits<std::uint32_t>::max() - begin)
    return false;
  std::uint64_t end = 0;  // of the blocks so far: one after the other, as the pipeline makes them
  for (const FieldHead& field : cloud.fields) {
    const bool fits = field.name.size() <= kNameBytes && field.offset % kAlign == 0 &&
                      field.count <= kComponentsMax && size_of(field.type) != 0;
    if (!fits || field.offset < end) return false;
    end = field.offset + head.points() * count_of(field) * size_of(field.type);
    if (end > data_bytes) return false;
  }
  const bool has_xyz = !cloud.fields.empty() && cloud.fields.front().name == "xyz" &&
                       cloud.fields.front().type == kTypeFloat32 && cloud.fields.front().count == 3;
  return has_xyz;
}

}  // namespace

bool has_flat_form(std::span<const std::byte> stored, std::uint64_t data_bytes) {
  const FrameHead& head = loaded(stored);
  switch (head.kind) {
    case PayloadKind::kOpaque:
      return true;
    case PayloadKind::kDepth: {
      const DepthHead& depth = head.depth;
      return depth.codec == 0 &&
             data_bytes == head.points() * depth_value_bytes(depth.encoding);  // no row is padded
    }
    case PayloadKind::kCloud:
      return has_flat_blocks(head, data_bytes);
    case PayloadKind::kNone:
      break;
  }
  return false;
}

std::uint64_t flat_prefix_max(std::span<const std::byte> stored) {
  return header_bytes(blocks_of(loaded(stored)) + 1);
}

std::string flat_meta(std::span<const std::byte> stored, const Outgoing& outgoing) {
  Outgoing without_data = outgoing;
  without_data.data_bytes = 0;
  std::vector<std::byte> bytes(frame_prefix_max(stored));
  const std::uint64_t length = frame_prefix(stored, without_data, false, bytes);
  v1::Frame frame;
  static_cast<void>(frame.ParseFromArray(bytes.data(), static_cast<int>(length)));
  std::string meta;
  write_json(frame, meta);
  return meta;
}

std::uint64_t flat_prefix(std::span<const std::byte> stored,
                          const Outgoing& outgoing,
                          std::uint64_t meta_bytes,
                          std::span<std::byte> out) {
  const FrameHead& head = loaded(stored);
  const std::size_t own = blocks_of(head);
  const std::size_t blocks = own + (meta_bytes > 0 ? 1 : 0);
  const std::uint64_t begin = header_bytes(blocks);
  SB_CHECK(out.size() >= begin, "a flat prefix has room for its table");
  std::ranges::fill(out.first(kHeaderBytes), std::byte{0});
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put(out, kAtHeaderBytes, static_cast<std::uint16_t>(begin));
  put(out, kAtBlocks, static_cast<std::uint16_t>(blocks));
  put(out, kAtSubscription, outgoing.subscription);
  put(out, kAtChannel, outgoing.channel);
  put(out, kAtSequence, outgoing.sequence);
  put(out, kAtEpoch, outgoing.epoch);
  put(out, kAtStamp, head.stamp_ns);
  put(out, kAtSent, head.sent_ns);
  put(out, kAtReceived, head.received_ns);
  put(out, kAtForwarded, outgoing.forwarded_ns);
  put(out, kAtPoints, static_cast<std::uint32_t>(head.points()));
  put(out, kAtHeight, height_of(head));
  std::uint32_t flags = (head.clock & kFourBits) << kClockShift | kind_of(head.kind) << kKindShift;
  if (height_of(head) > 1) flags |= kKeepsRows;
  if (head.kind == PayloadKind::kCloud && !head.cloud.is_dense) flags |= kNotDense;
  put_place(out, head, flags);
  put_result(out, head, outgoing, flags);
  put(out, kAtFlags, flags);

  if (head.kind == PayloadKind::kCloud) {
    for (std::size_t i = 0; i < own; ++i) {
      const FieldHead& field = head.cloud.fields[i];
      const std::uint32_t count = count_of(field);
      put_entry(out,
                i,
                {.name = field.name,
                 .type = field.type,
                 .components = count,
                 .offset = begin + field.offset,
                 .bytes = head.points() * count * size_of(field.type)});
    }
  } else {
    const bool opaque = head.kind == PayloadKind::kOpaque;
    const bool wide = depth_value_bytes(head.depth.encoding) == 4;
    put_entry(out,
              0,
              {.name = opaque ? "payload" : "depth",
               .type = opaque ? kTypeUint8
                       : wide ? kTypeFloat32
                              : kTypeUint16,
               .offset = begin,
               .bytes = outgoing.data_bytes});
  }
  if (meta_bytes > 0) {
    put_entry(out,
              own,
              {.name = kMetaName,
               .type = kTypeUint8,
               .offset = begin + aligned(outgoing.data_bytes),
               .bytes = meta_bytes});
  }
  return begin;
}

}  // namespace simbridge::wire
