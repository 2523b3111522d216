#pragma once
// What: a Frame without its payload's data: parsed from a peer by hand (never a typed message: the
// data is not touched), judged, stored beside the data in the arena, and written anew for each
// consumer. Owner: nobody; views point into the parsed bytes, which must outlive the FrameHead.
// Threads: values; functions are pure, any.
#include "simbridge/wire/messages.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::wire {

enum class PayloadKind : std::uint8_t { kNone = 0, kCloud = 1, kDepth = 2, kOpaque = 3 };

struct FieldHead {
  std::string_view name;
  std::uint32_t offset = 0, type = 0, count = 0;
};
struct CloudHead {
  std::uint32_t height = 0, width = 0;
  std::vector<FieldHead> fields;  // capacity is kept when the FrameHead is reused
  std::uint32_t point_step = 0, row_step = 0;
  bool is_bigendian = false, is_dense = false;
  std::uint32_t layout = 0, codec = 0;
  std::uint64_t raw_size = 0;
  std::string_view time_field;
  std::int64_t time_scale_num = 0, time_scale_den = 0;
  bool time_absolute = false;
};
inline constexpr std::uint32_t kLayoutSoa = 1;  // the protocol's number
inline bool is_soa(const CloudHead& cloud) {
  return cloud.layout == kLayoutSoa;
}
inline void set_soa(CloudHead& cloud, bool soa) {
  cloud.layout = soa ? kLayoutSoa : 0;
}
struct DepthHead {
  std::uint32_t height = 0, width = 0;
  std::string_view encoding;
  std::uint32_t row_step = 0;
  double fx = 0, fy = 0, cx = 0, cy = 0;
  std::uint32_t codec = 0;
  std::uint64_t raw_size = 0;
};

struct Quaternion {
  double x = 0, y = 0, z = 0, w = 0;
};

/// Who thinned a frame; Result.decimator of the protocol.
enum class DecimatedBy : std::uint8_t { kNone = 0, kCpu, kGpu, kWorker, kPcl };
std::string_view name_of(DecimatedBy by);  // "none", "cpu" …

/// What the bridge did to a derived frame; the same for all who get it.
struct Result {
  std::uint64_t points_in = 0, points_out = 0;
  DecimatedBy by = DecimatedBy::kNone;
  double leaf = 0;                            // metres, as applied
  std::optional<std::array<Vector3, 2>> box;  // min, max of the points sent
  bool degraded = false;
  std::uint64_t dropped_nonfinite = 0, dropped_zero = 0, dropped_region = 0, dropped_extent = 0;
  friend bool operator==(const Result&, const Result&) = default;
};

struct FrameHead {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0, epoch = 0;
  std::int64_t stamp_ns = 0, sent_ns = 0, received_ns = 0;
  std::uint32_t clock = 0;
  std::string_view frame_id;
  std::optional<Vector3> pose_position, origin;
  std::optional<Quaternion> pose_orientation;
  bool has_pose = false;
  std::optional<std::uint32_t> crc32c;
  std::uint32_t hops = 0;
  std::uint64_t source_epoch = 0, source_sequence = 0;
  PayloadKind kind = PayloadKind::kNone;
  CloudHead cloud;
  DepthHead depth;
  std::optional<Result> result;  // set by the pipeline, never from a peer

  // Of a flat message (flat.h).
  std::string flat_fault;  // of header, table or blocks: answered with LAYOUT in its turn
  /// Behind the data and not read yet: a #meta, zeros, nothing.
  std::uint64_t tail_bytes = 0;
  std::uint64_t meta_at = 0, meta_bytes = 0;  // of the tail, where it has a #meta
  struct FlatMeta {
    std::string frame_id, encoding, time_field;
  };
  std::shared_ptr<const FlatMeta> flat_meta;  // memory of what a #meta set

  std::uint64_t head_bytes = 0;  // of the Frame without the data's content; judged against 64 KiB
  std::uint64_t data_offset =
      0;  // where the data's content starts, counted from the start of the parsed bytes
  std::uint64_t data_bytes = 0;
  void clear();                                // to defaults, keeping capacity
  [[nodiscard]] std::uint64_t points() const;  // width x height of a cloud or depth image
};

// ---- parsing
// -------------------------------------------------------------------------------------------

struct Malformed {
  std::string detail;
};
struct Unsupported {
  std::string detail;
};
/// The Frame is in the FrameHead given to parse().
struct FrameBody {};

using ClientMessage = std::variant<Malformed,
                                   Unsupported,
                                   Hello,
                                   Advertise,
                                   Unadvertise,
                                   Subscribe,
                                   Unsubscribe,
                                   Credit,
                                   Ping,
                                   Goodbye,
                                   Part,
                                   FrameBody>;

/// One whole ClientMessage, in any valid encoding: parses as protobuf's C++ parser does for proto3,
/// UTF-8 check included (a field given twice merges, of two bodies the last counts, unknown fields
/// are skipped, a known number with another wire type is unknown). Part::data and the views of head
/// point into message. Two pieces of one payload's data: the last counts; data_offset says where it
/// is.
ClientMessage parse(std::span<const std::byte> message, FrameHead& head);

/// The same for bytes that are a Frame (the content of reassembled parts). nullopt = parsed.
std::optional<Malformed> parse_frame(std::span<const std::byte> frame, FrameHead& head);

/// What the first bytes of a message that is not yet here in full already tell.
enum class Peek {
  kNeedMore,  // longer prefix wanted
  kFrame,     // canonical frame: head is complete, its data is the rest of the message, to its last
              // byte
  kPart,      // a FramePart whose data is the rest of the message; see part
  kWhole,     // must be had whole: a control message, or an encoding that is not the canonical one
};
struct PeekResult {
  Peek what = Peek::kNeedMore;
  Part part;  // kPart: data empty
  std::uint64_t part_data_offset = 0, part_data_bytes = 0;
  std::uint64_t message_bytes = 0;  // kFrame, kPart: the length the encoding itself claims
};
/// message_bytes: the message's whole length where the transport knows it (an encoding that claims
/// another is kWhole, and will turn out malformed or not canonical there). Linear in the prefix.
PeekResult peek(std::span<const std::byte> prefix,
                std::optional<std::uint64_t> message_bytes,
                FrameHead& head);
/// The same for the content of part 0, a Frame of total_bytes: kFrame, kWhole or kNeedMore.
PeekResult peek_frame(std::span<const std::byte> prefix,
                      std::uint64_t total_bytes,
                      FrameHead& head);

// ---- judging (protocol.md §3, in its order)
// ------------------------------------------------------------

struct FrameLimits {
  std::uint64_t max_frame_bytes = 0;  // of data, and of raw_size
  std::uint64_t max_points = 1ULL << 22;
  std::uint32_t max_fields = 256, max_field_name = 255, max_frame_id = 256,
                max_head_bytes = 64 * 1024;
  std::uint32_t max_hops = 8;  // this many or more are refused
};
struct Verdict {
  RejectCode code = RejectCode::kUnspecified;
  std::string detail;  // names the field, the number and the limit
  [[nodiscard]] bool ok() const { return code == RejectCode::kUnspecified; }
};
/// Names, header and field limits, hops: the step after parsing.
Verdict check_head(const FrameHead& head, const FrameLimits& limits);
/// Payload known, sizes, codec known, then (with points) LAYOUT, FIELD, DATA_TOO_SHORT. Of a DRACO
/// cloud, whose own attributes stand in for fields, steps and size, nothing after the codec.
/// warnings gets a bit for each oddity that is accepted but told once a channel.
enum CloudWarning : std::uint32_t {
  kWarnRowStep = 1,  // read as tight
  kWarnUnknownFieldType = 2,
  kWarnDuplicateField = 4,
  kWarnDataLonger = 8,
};
Verdict check_payload(const FrameHead& head, const FrameLimits& limits, std::uint32_t& warnings);
/// The distance of two rows as check_payload reads it: tight where the sender's row_step is not to
/// be used. Of an accepted cloud; 0 with LAYOUT_SOA.
std::uint64_t row_step_as_read(const CloudHead& cloud, std::uint64_t size);
/// With crc32c present: whether data has it. The last check.
Verdict check_crc(const FrameHead& head, std::span<const std::byte> data);
std::uint32_t crc32c(std::span<const std::byte> data);

// ---- storing and sending on
// ----------------------------------------------------------------------------

/// The stored head keeps all that passes on, canonically encoded; its form is this module's own
/// business.
std::uint64_t stored_head_bytes(const FrameHead& head);
/// received_ns: what goes out as such (the first bridge's, or ours). out is stored_head_bytes long.
void store_head(const FrameHead& head, std::int64_t received_ns, std::span<std::byte> out);
/// The reverse, for whoever needs the layout later (tests, pipelines). Views point into stored.
/// Channel, sequence, epoch and where the data is are not in it: the Frame has them.
void load_head(std::span<const std::byte> stored, FrameHead& head);

/// What differs from consumer to consumer.
struct Outgoing {
  std::uint32_t channel = 0, subscription = 0;
  std::uint64_t sequence = 0, epoch = 0;
  std::int64_t forwarded_ns = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t points_in = 0, points_out = 0, skipped_frames = 0;
  std::uint32_t queue_us = 0;
  bool degraded = false;
};
/// Bytes that frame_prefix may need at most for this stored head.
std::uint64_t frame_prefix_max(std::span<const std::byte> stored);
/// Writes the ServerMessage up to the data's content: prefix + data is the whole message. Returns
/// its length. Where the head has a result, that is sent with what differs from consumer to
/// consumer; else the points of outgoing, and decimator "none". envelope = false leaves the
/// ServerMessage's own tag and length out (for FramePart 0).
std::uint64_t frame_prefix(std::span<const std::byte> stored,
                           const Outgoing& outgoing,
                           bool envelope,
                           std::span<std::byte> out);
/// Writes a ServerMessage{FramePart} up to its data's content. out is at least kPartPrefixMax long.
inline constexpr std::uint64_t kPartPrefixMax = 96;
std::uint64_t part_prefix(const Part& part, std::uint64_t data_bytes, std::span<std::byte> out);

// ---- names and globs
// -----------------------------------------------------------------------------------

/// 1 to 256 bytes of UTF-8 without control characters (C0, DEL, C1), '*', '?'. Else LIMIT, with
/// text.
Verdict check_channel_name(std::string_view name, std::uint32_t max_bytes = 256);
/// A pattern: as a name, with '*' any bytes without '/', '**' any bytes, '?' one character that is
/// not '/'. Too long: LIMIT; else PATTERN.
Verdict check_pattern(std::string_view pattern, std::uint32_t max_bytes = 256);
bool has_wildcards(std::string_view pattern);
/// Linear time in pattern x name at worst (no exponential backtracking).
bool matches(std::string_view pattern, std::string_view name);
/// Contradictions, negatives, NaN, unknown enumerators: QUALITY.
Verdict check_quality(const Quality& quality);

}  // namespace simbridge::wire
