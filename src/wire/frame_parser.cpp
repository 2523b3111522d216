#include "wire/frame_parser.h"

#include <initializer_list>

namespace simbridge::wire {
namespace {

constexpr std::uint32_t varint(std::uint32_t number) {
  return tag_of(number, WireType::kVarint);
}
constexpr std::uint32_t length(std::uint32_t number) {
  return tag_of(number, WireType::kLength);
}
constexpr std::uint32_t fixed64(std::uint32_t number) {
  return tag_of(number, WireType::kFixed64);
}
constexpr std::uint32_t fixed32(std::uint32_t number) {
  return tag_of(number, WireType::kFixed32);
}

// All fields of the message that the reader is in. on_field reads one, or skips it.
template <typename OnField>
bool read_fields(Reader& in, OnField on_field) {
  while (!in.at_end()) {
    std::uint32_t tag = 0;
    if (!in.read_tag(tag) || !on_field(tag)) return false;
  }
  return true;
}

// A message field: into it, its fields, and out.
template <typename OnField>
bool read_message(Reader& in, OnField on_field) {
  std::uint64_t outer_end = 0;
  if (!in.enter(outer_end) || !read_fields(in, on_field)) return false;
  in.leave(outer_end);
  return true;
}

/// A message of doubles alone, numbered from 1.
bool read_doubles(Reader& in, std::initializer_list<double*> values) {
  return read_message(in, [&](std::uint32_t tag) {
    std::uint32_t number = 0;
    for (double* value : values) {
      if (tag == fixed64(++number)) return in.read_fixed(*value);
    }
    return in.skip_field(tag);
  });
}

bool read_vector(Reader& in, std::optional<Vector3>& out) {
  if (!out) out.emplace();
  return read_doubles(in, {&out->x, &out->y, &out->z});
}

bool read_quaternion(Reader& in, std::optional<Quaternion>& out) {
  if (!out) out.emplace();
  return read_doubles(in, {&out->x, &out->y, &out->z, &out->w});
}

bool read_pose(Reader& in, FrameHead& head) {
  head.has_pose = true;
  return read_message(in, [&](std::uint32_t tag) {
    switch (tag) {
      case length(1):
        return read_vector(in, head.pose_position);
      case length(2):
        return read_quaternion(in, head.pose_orientation);
      default:
        return in.skip_field(tag);
    }
  });
}

// From the bridge only, so ignored from a peer; but it must parse.
bool read_result(Reader& in) {
  return read_message(in, [&](std::uint32_t tag) {
    std::string_view text;
    std::optional<Vector3> vector;
    switch (tag) {
      case length(3):
        return in.read_string(text);
      case length(5):
      case length(6):
        return read_vector(in, vector);
      default:
        return in.skip_field(tag);
    }
  });
}

bool read_field(Reader& in, FieldHead& field) {
  return read_message(in, [&](std::uint32_t tag) {
    switch (tag) {
      case length(1):
        return in.read_string(field.name);
      case varint(2):
        return in.read(field.offset);
      case varint(3):
        return in.read(field.type);
      case varint(4):
        return in.read(field.count);
      default:
        return in.skip_field(tag);
    }
  });
}

constexpr std::uint32_t kDataTag = length(100);

bool read_cloud_field(Reader& in, std::uint32_t tag, CloudHead& cloud) {
  switch (tag) {
    case varint(1):
      return in.read(cloud.height);
    case varint(2):
      return in.read(cloud.width);
    case length(3):
      return read_field(in, cloud.fields.emplace_back());
    case varint(4):
      return in.read(cloud.point_step);
    case varint(5):
      return in.read(cloud.row_step);
    case varint(6):
      return in.read(cloud.is_bigendian);
    case varint(7):
      return in.read(cloud.is_dense);
    case varint(8):
      return in.read(cloud.layout);
    case varint(9):
      return in.read(cloud.codec);
    case varint(10):
      return in.read(cloud.raw_size);
    case length(11):
      return in.read_string(cloud.time_field);
    case varint(12):
      return in.read_zigzag(cloud.time_scale_num);
    case varint(13):
      return in.read_zigzag(cloud.time_scale_den);
    case varint(14):
      return in.read(cloud.time_absolute);
    default:
      return in.skip_field(tag);
  }
}

bool read_depth_field(Reader& in, std::uint32_t tag, DepthHead& depth) {
  switch (tag) {
    case varint(1):
      return in.read(depth.height);
    case varint(2):
      return in.read(depth.width);
    case length(3):
      return in.read_string(depth.encoding);
    case varint(4):
      return in.read(depth.row_step);
    case fixed64(5):
      return in.read_fixed(depth.fx);
    case fixed64(6):
      return in.read_fixed(depth.fy);
    case fixed64(7):
      return in.read_fixed(depth.cx);
    case fixed64(8):
      return in.read_fixed(depth.cy);
    case varint(9):
      return in.read(depth.codec);
    case varint(10):
      return in.read(depth.raw_size);
    default:
      return in.skip_field(tag);
  }
}

bool read_payload_field(Reader& in, std::uint32_t tag, PayloadKind kind, FrameHead& head) {
  switch (kind) {
    case PayloadKind::kCloud:
      return read_cloud_field(in, tag, head.cloud);
    case PayloadKind::kDepth:
      return read_depth_field(in, tag, head.depth);
    case PayloadKind::kOpaque:
    case PayloadKind::kNone:
      break;
  }
  return in.skip_field(tag);
}

void clear(CloudHead& cloud) {
  std::vector<FieldHead> kept = std::move(cloud.fields);
  kept.clear();
  cloud = CloudHead{};
  cloud.fields = std::move(kept);
}

class FrameParser {
 public:
  FrameParser(Reader& in, ParseMode mode, FrameHead& head)
      : in_(in), mode_(mode), head_(head), start_(in.position()) {}

  Parsed parse() {
    head_.head_bytes += in_.end() - start_;
    const bool to_the_end = read_fields(in_, [this](std::uint32_t tag) { return read(tag); });
    return to_the_end ? Parsed::kEnd : stopped_;
  }

 private:
  bool read(std::uint32_t tag) {
    switch (tag) {
      case varint(1):
        return in_.read(head_.channel);
      case varint(3):
        return in_.read(head_.sequence);
      case fixed64(4):
        return in_.read_fixed(head_.epoch);
      case fixed64(5):
        return in_.read_fixed(head_.stamp_ns);
      case varint(6):
        return in_.read(head_.clock);
      case fixed64(7):
        return in_.read_fixed(head_.sent_ns);
      case fixed64(8):
        return in_.read_fixed(head_.received_ns);
      case length(10):
        return in_.read_string(head_.frame_id);
      case length(11):
        return read_pose(in_, head_);
      case length(12):
        return read_vector(in_, head_.origin);
      case length(13):
        return read_result(in_);
      case fixed32(14):
        return in_.read_fixed(head_.crc32c.emplace(0));
      case varint(15):
        return in_.read(head_.hops);
      case fixed64(16):
        return in_.read_fixed(head_.source_epoch);
      case varint(17):
        return in_.read(head_.source_sequence);
      case length(100):
        return read_payload(PayloadKind::kCloud);
      case length(101):
        return read_payload(PayloadKind::kDepth);
      case length(102):
        return read_payload(PayloadKind::kOpaque);
      default:
        return in_.skip_field(tag);  // 2, 9: from the bridge only
    }
  }

  // Of two kinds of payload the last counts; the same kind again merges.
  void begin_payload(PayloadKind kind) {
    if (head_.kind == kind) return;
    if (head_.kind != PayloadKind::kNone) {
      clear(head_.cloud);
      head_.depth = DepthHead{};
      head_.data_offset = head_.data_bytes = 0;
    }
    head_.kind = kind;
  }

  bool read_payload(PayloadKind kind) {
    begin_payload(kind);
    std::uint64_t frame_end = 0;
    if (!in_.enter(frame_end)) return false;
    const bool last = in_.end() == frame_end;
    const bool to_the_end = read_fields(in_, [&](std::uint32_t tag) {
      return tag == kDataTag ? read_data(last) : read_payload_field(in_, tag, kind, head_);
    });
    if (!to_the_end) return false;
    in_.leave(frame_end);
    return true;
  }

  bool read_data(bool payload_is_last) {
    std::uint64_t bytes = 0;
    if (!in_.read_length(bytes)) return false;
    head_.data_offset = in_.position();
    head_.data_bytes = bytes;
    if (mode_ == ParseMode::kPrefix) {
      const bool data_is_last = payload_is_last && in_.position() + bytes == in_.end();
      if (data_is_last) head_.head_bytes = in_.position() - start_;
      stopped_ = data_is_last ? Parsed::kData : Parsed::kNotCanonical;
      return false;
    }
    head_.head_bytes -= bytes;  // all of the frame but its data counts
    return in_.skip_bytes(bytes);
  }

  Reader& in_;
  const ParseMode mode_;
  FrameHead& head_;
  const std::uint64_t start_;
  Parsed stopped_ = Parsed::kFailed;
};

}  // namespace

void FrameHead::clear() {
  CloudHead kept = std::move(cloud);
  wire::clear(kept);
  *this = FrameHead{};
  cloud = std::move(kept);
}

std::uint64_t FrameHead::points() const {
  switch (kind) {
    case PayloadKind::kCloud:
      return std::uint64_t{cloud.width} * cloud.height;
    case PayloadKind::kDepth:
      return std::uint64_t{depth.width} * depth.height;
    case PayloadKind::kOpaque:
    case PayloadKind::kNone:
      break;
  }
  return 0;
}

Parsed parse_frame_content(Reader& in, ParseMode mode, FrameHead& head) {
  return FrameParser(in, mode, head).parse();
}

Parsed parse_part_content(
    Reader& in, ParseMode mode, Part& part, std::uint64_t& data_offset, std::uint64_t& data_bytes) {
  Parsed stopped = Parsed::kFailed;
  const auto read_data = [&] {
    if (!in.read_length(data_bytes)) return false;
    data_offset = in.position();
    if (mode == ParseMode::kWhole) return in.skip_bytes(data_bytes);
    stopped = in.position() + data_bytes == in.end() ? Parsed::kData : Parsed::kNotCanonical;
    return false;
  };
  const bool to_the_end = read_fields(in, [&](std::uint32_t tag) {
    switch (tag) {
      case varint(1):
        return in.read(part.transfer);
      case varint(2):
        return in.read(part.index);
      case varint(3):
        return in.read(part.count);
      case varint(4):
        return in.read(part.total_bytes);
      case varint(5):
        return in.read(part.channel);
      case varint(6):
        return in.read(part.sequence);
      case kDataTag:
        return read_data();
      default:
        return in.skip_field(tag);
    }
  });
  return to_the_end ? Parsed::kEnd : stopped;
}

bool parse_payload_content(Reader& in, PayloadKind kind, FrameHead& head) {
  head.kind = kind;
  return read_fields(in,
                     [&](std::uint32_t tag) { return read_payload_field(in, tag, kind, head); });
}

}  // namespace simbridge::wire
