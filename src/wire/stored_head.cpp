// The head as it is kept beside the data: the fields of the Frame that pass on, already encoded in
// pieces that frame_prefix() copies between the fields that differ from consumer to consumer.
#include "simbridge/base/check.h"
#include "simbridge/wire/frame_head.h"
#include "wire/frame_parser.h"
#include "wire/reader.h"
#include "wire/writer.h"

#include <cstring>
#include <type_traits>

namespace simbridge::wire {
namespace {

// The pieces follow in this order, each the encoded fields of its numbers.
struct Index {
  std::uint32_t times_bytes;    // 5 to 8: stamp, clock, sent, received
  std::uint32_t place_bytes;    // 10 to 12: frame_id, pose, origin
  std::uint32_t origin_bytes;   // 14 to 17: checksum, hops, the first producer's numbers
  std::uint32_t payload_bytes;  // the payload's fields before its data
  PayloadKind kind;
  bool has_result;  // a Result stands behind the index
};
constexpr std::uint64_t kIndexBytes = 4 * sizeof(std::uint32_t) + 2;
static_assert(std::is_trivially_copyable_v<Result>, "it is kept as it lies in memory");

std::uint64_t result_record_bytes(bool has_result) {
  return has_result ? sizeof(Result) : 0;
}

void put_index(const Index& index, std::byte* out) {
  std::memcpy(out, &index.times_bytes, 4);
  std::memcpy(out + 4, &index.place_bytes, 4);
  std::memcpy(out + 8, &index.origin_bytes, 4);
  std::memcpy(out + 12, &index.payload_bytes, 4);
  std::memcpy(out + 16, &index.kind, 1);
  const std::uint8_t has_result = index.has_result ? 1 : 0;
  std::memcpy(out + 17, &has_result, 1);
}

Index get_index(std::span<const std::byte> stored) {
  SB_CHECK(stored.size() >= kIndexBytes, "a stored head begins with its index");
  Index index{};
  std::memcpy(&index.times_bytes, stored.data(), 4);
  std::memcpy(&index.place_bytes, stored.data() + 4, 4);
  std::memcpy(&index.origin_bytes, stored.data() + 8, 4);
  std::memcpy(&index.payload_bytes, stored.data() + 12, 4);
  std::memcpy(&index.kind, stored.data() + 16, 1);
  index.has_result = stored[17] != std::byte{0};
  SB_CHECK(kIndexBytes + result_record_bytes(index.has_result) + index.times_bytes +
                   index.place_bytes + index.origin_bytes + index.payload_bytes <=
               stored.size(),
           "a stored head holds what its index says");
  return index;
}

template <typename Sink>
void put_times(Sink& out, const FrameHead& head, std::int64_t received_ns) {
  put_fixed64(out, 5, static_cast<std::uint64_t>(head.stamp_ns));
  put_varint(out, 6, sign_extended(head.clock));
  put_fixed64(out, 7, static_cast<std::uint64_t>(head.sent_ns));
  put_fixed64(out, 8, static_cast<std::uint64_t>(received_ns));
}

template <typename Sink>
void put_vector(Sink& out, const Vector3& vector) {
  put_double(out, 1, vector.x);
  put_double(out, 2, vector.y);
  put_double(out, 3, vector.z);
}

template <typename Sink>
void put_place(Sink& out, const FrameHead& head) {
  put_string(out, 10, head.frame_id);
  if (head.has_pose) {
    put_message(out, 11, [&](auto& pose) {
      if (head.pose_position)
        put_message(pose, 1, [&](auto& position) { put_vector(position, *head.pose_position); });
      if (head.pose_orientation)
        put_message(pose, 2, [&](auto& orientation) {
          const Quaternion& q = *head.pose_orientation;
          put_double(orientation, 1, q.x);
          put_double(orientation, 2, q.y);
          put_double(orientation, 3, q.z);
          put_double(orientation, 4, q.w);
        });
    });
  }
  if (head.origin) put_message(out, 12, [&](auto& origin) { put_vector(origin, *head.origin); });
}

template <typename Sink>
void put_origin(Sink& out, const FrameHead& head) {
  if (head.crc32c) {  // present even when zero
    out.varint(tag_of(14, WireType::kFixed32));
    out.raw(&*head.crc32c, sizeof *head.crc32c);
  }
  put_varint(out, 15, head.hops);
  put_fixed64(out, 16, head.source_epoch);
  put_varint(out, 17, head.source_sequence);
}

template <typename Sink>
void put_cloud(Sink& out, const CloudHead& cloud) {
  put_varint(out, 1, cloud.height);
  put_varint(out, 2, cloud.width);
  for (const FieldHead& field : cloud.fields) {
    put_message(out, 3, [&](auto& one) {
      put_string(one, 1, field.name);
      put_varint(one, 2, field.offset);
      put_varint(one, 3, sign_extended(field.type));
      put_varint(one, 4, field.count);
    });
  }
  put_varint(out, 4, cloud.point_step);
  put_varint(out, 5, cloud.row_step);
  put_varint(out, 6, cloud.is_bigendian ? 1 : 0);
  put_varint(out, 7, cloud.is_dense ? 1 : 0);
  put_varint(out, 8, sign_extended(cloud.layout));
  put_varint(out, 9, sign_extended(cloud.codec));
  put_varint(out, 10, cloud.raw_size);
  put_string(out, 11, cloud.time_field);
  put_varint(out, 12, zigzag(cloud.time_scale_num));
  put_varint(out, 13, zigzag(cloud.time_scale_den));
  put_varint(out, 14, cloud.time_absolute ? 1 : 0);
}

template <typename Sink>
void put_depth(Sink& out, const DepthHead& depth) {
  put_varint(out, 1, depth.height);
  put_varint(out, 2, depth.width);
  put_string(out, 3, depth.encoding);
  put_varint(out, 4, depth.row_step);
  put_double(out, 5, depth.fx);
  put_double(out, 6, depth.fy);
  put_double(out, 7, depth.cx);
  put_double(out, 8, depth.cy);
  put_varint(out, 9, sign_extended(depth.codec));
  put_varint(out, 10, depth.raw_size);
}

template <typename Sink>
void put_payload(Sink& out, const FrameHead& head) {
  if (head.kind == PayloadKind::kCloud) put_cloud(out, head.cloud);
  if (head.kind == PayloadKind::kDepth) put_depth(out, head.depth);
}

constexpr std::uint32_t payload_number(PayloadKind kind) {
  switch (kind) {
    case PayloadKind::kCloud:
      return 100;
    case PayloadKind::kDepth:
      return 101;
    case PayloadKind::kOpaque:
      return 102;
    case PayloadKind::kNone:
      break;
  }
  return 0;
}

constexpr std::uint32_t kDataNumber = 100;
constexpr std::uint32_t kPartNumber = 14;
constexpr std::uint32_t kFrameNumber = 15;

std::uint64_t length_field_bytes(std::uint32_t number, std::uint64_t length) {
  return varint_bytes(tag_of(number, WireType::kLength)) + varint_bytes(length);
}

std::uint64_t data_field_bytes(std::uint64_t data_bytes) {
  return data_bytes == 0 ? 0 : length_field_bytes(kDataNumber, data_bytes) + data_bytes;
}

template <typename Sink>
void put_result(Sink& out, const Result& result, const Outgoing& o) {
  put_varint(out, 1, result.points_in);
  put_varint(out, 2, result.points_out);
  put_string(out, 3, name_of(result.by));
  put_double(out, 4, result.leaf);
  if (result.box) {
    put_message(out, 5, [&](auto& min) { put_vector(min, result.box->front()); });
    put_message(out, 6, [&](auto& max) { put_vector(max, result.box->back()); });
  }
  put_varint(out, 7, o.skipped_frames);
  put_varint(out, 8, o.queue_us);
  put_varint(out, 9, o.degraded || result.degraded ? 1 : 0);
  put_varint(out, 10, result.dropped_nonfinite);
  put_varint(out, 11, result.dropped_zero);
  put_varint(out, 12, result.dropped_region);
  put_varint(out, 13, result.dropped_extent);
}

/// The result that goes out: the stored one, or that of a frame that passes unchanged.
Result result_of(const Index& index, std::span<const std::byte> stored, const Outgoing& o) {
  Result result{.points_in = o.points_in, .points_out = o.points_out};
  if (index.has_result) std::memcpy(&result, stored.data() + kIndexBytes, sizeof result);
  return result;
}

// All that frame_prefix adds to the pieces, each number at its longest: envelope 11, channel and
// subscription 12, sequence 11, epoch and forwarded 18, result 4 + 22 + 8 + 9 + 2 x 29 + 11 + 6 + 2
// + 4 x 11, payload and data 24.
constexpr std::uint64_t kPrefixExtra = 11 + 12 + 11 + 18 + 164 + 24;

}  // namespace

std::string_view name_of(DecimatedBy by) {
  switch (by) {
    case DecimatedBy::kNone:
      return "none";
    case DecimatedBy::kCpu:
      return "cpu";
    case DecimatedBy::kGpu:
      return "gpu";
    case DecimatedBy::kWorker:
      return "worker";
    case DecimatedBy::kPcl:
      return "pcl";
  }
  return "none";
}

std::uint64_t stored_head_bytes(const FrameHead& head) {
  // Of any length, received_ns takes the 9 bytes that a value other than zero takes.
  Counter count;
  put_times(count, head, 1);
  put_place(count, head);
  put_origin(count, head);
  put_payload(count, head);
  // What a #meta that is not read yet may add: strings out of it, and a few numbers.
  constexpr std::uint64_t kMetaExtra = 128;
  const std::uint64_t later = head.meta_bytes == 0 ? 0 : head.meta_bytes + kMetaExtra;
  return kIndexBytes + result_record_bytes(head.result.has_value()) + count.count() + later;
}

void store_head(const FrameHead& head, std::int64_t received_ns, std::span<std::byte> out) {
  const std::uint64_t before_pieces = kIndexBytes + result_record_bytes(head.result.has_value());
  SB_CHECK(out.size() >= before_pieces, "the place for a stored head is stored_head_bytes long");
  if (head.result) std::memcpy(out.data() + kIndexBytes, &*head.result, sizeof *head.result);
  Writer writer(out.subspan(before_pieces));
  std::uint64_t before = 0;
  const auto piece = [&writer, &before] {
    const std::uint64_t bytes = writer.count() - before;
    before = writer.count();
    return static_cast<std::uint32_t>(bytes);
  };
  Index index{};
  put_times(writer, head, received_ns);
  index.times_bytes = piece();
  put_place(writer, head);
  index.place_bytes = piece();
  put_origin(writer, head);
  index.origin_bytes = piece();
  put_payload(writer, head);
  index.payload_bytes = piece();
  index.kind = head.kind;
  index.has_result = head.result.has_value();
  put_index(index, out.data());
  SB_CHECK(before_pieces + writer.count() <= out.size(),
           "the place for a stored head is stored_head_bytes long");
}

void load_head(std::span<const std::byte> stored, FrameHead& head) {
  head.clear();
  const Index index = get_index(stored);
  if (index.has_result)
    std::memcpy(&head.result.emplace(), stored.data() + kIndexBytes, sizeof(Result));
  std::span<const std::byte> rest =
      stored.subspan(kIndexBytes + result_record_bytes(index.has_result));
  const std::uint64_t outer =
      std::uint64_t{index.times_bytes} + index.place_bytes + index.origin_bytes;
  Reader frame(rest, outer);
  SB_CHECK(parse_frame_content(frame, ParseMode::kWhole, head) == Parsed::kEnd,
           "a stored head is what store_head wrote");
  rest = rest.subspan(outer);
  Reader payload(rest, index.payload_bytes);
  SB_CHECK(parse_payload_content(payload, index.kind, head),
           "a stored head is what store_head wrote");
  head.head_bytes = outer + index.payload_bytes;
}

std::uint64_t frame_prefix_max(std::span<const std::byte> stored) {
  return stored.size() + kPrefixExtra;
}

std::uint64_t frame_prefix(std::span<const std::byte> stored,
                           const Outgoing& outgoing,
                           bool envelope,
                           std::span<std::byte> out) {
  const Index index = get_index(stored);
  const std::byte* times = stored.data() + kIndexBytes + result_record_bytes(index.has_result);
  const std::byte* place = times + index.times_bytes;
  const std::byte* origin = place + index.place_bytes;
  const std::byte* payload = origin + index.origin_bytes;
  const std::uint32_t number = payload_number(index.kind);
  const std::uint64_t payload_length =
      index.payload_bytes + (number == 0 ? 0 : data_field_bytes(outgoing.data_bytes));
  const Result result = result_of(index, stored, outgoing);
  Counter result_counter;
  put_result(result_counter, result, outgoing);
  const std::uint64_t result_length = result_counter.count();
  SB_CHECK(out.size() >= frame_prefix_max(stored), "a prefix has room for its longest form");

  Writer writer(out);
  if (envelope) {
    std::uint64_t frame_length =
        varint_field_bytes(1, outgoing.channel) + varint_field_bytes(2, outgoing.subscription) +
        varint_field_bytes(3, outgoing.sequence) + (outgoing.epoch == 0 ? 0 : 9) +
        index.times_bytes + (outgoing.forwarded_ns == 0 ? 0 : 9) + index.place_bytes +
        length_field_bytes(13, result_length) + result_length + index.origin_bytes;
    if (number != 0) frame_length += length_field_bytes(number, payload_length) + payload_length;
    put_length(writer, kFrameNumber, frame_length);
  }
  put_varint(writer, 1, outgoing.channel);
  put_varint(writer, 2, outgoing.subscription);
  put_varint(writer, 3, outgoing.sequence);
  put_fixed64(writer, 4, outgoing.epoch);
  writer.raw(times, index.times_bytes);
  put_fixed64(writer, 9, static_cast<std::uint64_t>(outgoing.forwarded_ns));
  writer.raw(place, index.place_bytes);
  put_length(writer, 13, result_length);
  put_result(writer, result, outgoing);
  writer.raw(origin, index.origin_bytes);
  if (number == 0) return writer.count();
  put_length(writer, number, payload_length);
  writer.raw(payload, index.payload_bytes);
  if (outgoing.data_bytes != 0) put_length(writer, kDataNumber, outgoing.data_bytes);
  return writer.count();
}

std::uint64_t part_prefix(const Part& part, std::uint64_t data_bytes, std::span<std::byte> out) {
  SB_CHECK(out.size() >= kPartPrefixMax, "a part's prefix has room for its longest form");
  const std::uint64_t length =
      varint_field_bytes(1, part.transfer) + varint_field_bytes(2, part.index) +
      varint_field_bytes(3, part.count) + varint_field_bytes(4, part.total_bytes) +
      varint_field_bytes(5, part.channel) + varint_field_bytes(6, part.sequence) +
      data_field_bytes(data_bytes);
  Writer writer(out);
  put_length(writer, kPartNumber, length);
  put_varint(writer, 1, part.transfer);
  put_varint(writer, 2, part.index);
  put_varint(writer, 3, part.count);
  put_varint(writer, 4, part.total_bytes);
  put_varint(writer, 5, part.channel);
  put_varint(writer, 6, part.sequence);
  if (data_bytes != 0) put_length(writer, kDataNumber, data_bytes);
  return writer.count();
}

}  // namespace simbridge::wire
