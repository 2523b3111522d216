// Flat messages in: header and table read and judged, with every number that a peer chose taken as
// hostile; the payload becomes the same head as on the protobuf road.
#include "simbridge/wire/flat.h"
#include "wire/field_type.h"
#include "wire/flat_layout.h"
#include "wire/strict_json.h"
#include "wire/utf8.h"

#include <fmt/format.h>

#include "simbridge/v1/bridge.pb.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace simbridge::wire {
namespace {

using namespace flat;  // NOLINT(google-build-using-namespace): its names are this file's subject

// More than this behind the data is not streamed: the message is had whole.
constexpr std::uint64_t kTailStreamed = 64ULL * 1024;

struct Block {
  std::string_view name;
  std::uint32_t type = 0, components = 1, offset = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] std::uint64_t end() const { return offset + bytes; }  // after its bytes were judged
  [[nodiscard]] bool is_extra() const { return name.starts_with('#'); }
};

std::string shown(std::string_view name) {
  return name.empty() ? std::string("(no name)") : cut_detail(name);
}

Block block_at(std::span<const std::byte> message, std::size_t index) {
  const auto entry = message.subspan(kHeaderBytes + index * kBlockBytes, kBlockBytes);
  const std::string_view padded(reinterpret_cast<const char*>(entry.data()), kNameBytes);
  const auto components = get<std::uint8_t>(entry, kAtComponents);
  return {.name = padded.substr(0, padded.find('\0')),
          .type = get<std::uint8_t>(entry, kAtType),
          .components = components == 0 ? 1U : components,
          .offset = get<std::uint32_t>(entry, kAtOffset),
          .bytes = get<std::uint64_t>(entry, kAtBytes)};
}

Vector3 vector_at(std::span<const std::byte> message, std::size_t at) {
  return {.x = get<double>(message, at),
          .y = get<double>(message, at + 8),
          .z = get<double>(message, at + 16)};
}

/// Reads the header, then table and blocks of a message of `total` bytes, of which header and table
/// are here.
class FlatParser {
 public:
  FlatParser(std::span<const std::byte> message, std::uint64_t total, FrameHead& head)
      : message_(message), total_(total), head_(head) {}

  /// The fixed part is here.
  void read_header() {
    head_.channel = get<std::uint32_t>(message_, kAtChannel);
    head_.sequence = get<std::uint64_t>(message_, kAtSequence);
    head_.epoch = get<std::uint64_t>(message_, kAtEpoch);
    head_.stamp_ns = get<std::int64_t>(message_, kAtStamp);
    head_.sent_ns = get<std::int64_t>(message_, kAtSent);
    flags_ = get<std::uint32_t>(message_, kAtFlags);
    points_ = get<std::uint32_t>(message_, kAtPoints);
    height_ = std::max<std::uint32_t>(get<std::uint32_t>(message_, kAtHeight), 1);
    head_.clock = (flags_ >> kClockShift) & kFourBits;
    if ((flags_ & kOriginGiven) != 0) head_.origin = vector_at(message_, kAtOrigin);
    if ((flags_ & kPoseGiven) != 0) {
      head_.has_pose = true;
      head_.pose_position = vector_at(message_, kAtPose);
      head_.pose_orientation = Quaternion{.x = get<double>(message_, kAtPose + 24),
                                          .y = get<double>(message_, kAtPose + 32),
                                          .z = get<double>(message_, kAtPose + 40),
                                          .w = get<double>(message_, kAtPose + 48)};
    }
    header_bytes_ = get<std::uint16_t>(message_, kAtHeaderBytes);
    head_.head_bytes = header_bytes_;
    switch ((flags_ >> kKindShift) & kFourBits) {
      case kCloud:
        head_.kind = PayloadKind::kCloud;
        head_.cloud.height = height_;
        head_.cloud.width = points_ / height_;
        head_.cloud.is_dense = (flags_ & kNotDense) == 0;
        set_soa(head_.cloud, true);
        break;
      case kDepth:
        head_.kind = PayloadKind::kDepth;
        head_.depth.height = height_;
        head_.depth.width = points_ / height_;
        break;
      case kOpaque:
        head_.kind = PayloadKind::kOpaque;
        break;
      default:
        break;  // a payload that this version does not know
    }
  }

  /// Header and table are here. Sets where the payload lies; the first fault is head.flat_fault.
  void read_table() {
    head_.data_offset = std::min<std::uint64_t>(header_bytes_, total_);
    head_.data_bytes = total_ - head_.data_offset;
    if (head_.kind == PayloadKind::kNone || !check_header() || !check_blocks()) return;
    place_data();
  }

  [[nodiscard]] std::uint64_t header_bytes() const { return header_bytes_; }
  /// Blocks that are not to go out lie before or between those that are.
  [[nodiscard]] bool scattered() const { return scattered_; }
  /// Where the #meta is in the message; bytes 0: there is none.
  [[nodiscard]] const Block& meta() const { return meta_; }

 private:
  bool fault(std::string sentence) {
    head_.flat_fault = std::move(sentence);
    return false;
  }

  bool check_header() {
    const std::uint64_t blocks = get<std::uint16_t>(message_, kAtBlocks);
    const std::uint64_t least = kHeaderBytes + blocks * kBlockBytes;
    if (header_bytes_ % kAlign != 0)
      return fault(fmt::format("header_bytes: {} is not a multiple of 8", header_bytes_));
    if (header_bytes_ < least)
      return fault(
          fmt::format("header_bytes: {}, but {} blocks need {}", header_bytes_, blocks, least));
    if (points_ % height_ != 0)
      return fault(fmt::format("points: {} is not a multiple of height {}", points_, height_));
    blocks_.reserve(blocks);
    for (std::size_t i = 0; i < blocks; ++i) blocks_.push_back(block_at(message_, i));
    return true;
  }

  /// Of a block that carries what its name says and nothing about n points.
  [[nodiscard]] bool has_free_size(const Block& block) const {
    return block.is_extra() || (head_.kind == PayloadKind::kOpaque && block.name == "payload");
  }

  bool check_block(const Block& block) {
    if (!is_utf8(block.name)) return fault("a block's name is not UTF-8");
    if (block.offset % kAlign != 0)
      return fault(
          fmt::format("{}: its offset {} is not a multiple of 8", shown(block.name), block.offset));
    if (block.offset < header_bytes_)
      return fault(fmt::format("{}: it starts at byte {}, inside the header of {}",
                               shown(block.name),
                               block.offset,
                               header_bytes_));
    if (block.offset > total_ || block.bytes > total_ - block.offset)
      return fault(fmt::format("{}: {} bytes from byte {}, the message has {}",
                               shown(block.name),
                               block.bytes,
                               block.offset,
                               total_));
    const std::uint64_t size = size_of(block.type);
    if (has_free_size(block) || size == 0) return true;  // of a type to come, the size is not known
    const std::uint64_t due = points_ * size * block.components;  // below 2^32 x 8 x 255
    if (block.bytes == due) return true;
    return fault(fmt::format("{}: {} bytes, but {} points x {} components x {} bytes are {}",
                             shown(block.name),
                             block.bytes,
                             points_,
                             block.components,
                             size,
                             due));
  }

  bool check_blocks() {
    for (const Block& block : blocks_)
      if (!check_block(block)) return false;
    std::vector<const Block*> in_order;
    for (const Block& block : blocks_)
      if (block.bytes > 0) in_order.push_back(&block);
    std::ranges::sort(in_order, {}, &Block::offset);
    for (std::size_t i = 1; i < in_order.size(); ++i) {
      if (in_order[i]->offset < in_order[i - 1]->end())
        return fault(fmt::format("{}: it starts at byte {}, {} ends at {}",
                                 shown(in_order[i]->name),
                                 in_order[i]->offset,
                                 shown(in_order[i - 1]->name),
                                 in_order[i - 1]->end()));
    }
    return true;
  }

  void place_data() {
    std::uint64_t end = header_bytes_;
    if (head_.kind == PayloadKind::kCloud) {
      for (const Block& block : blocks_) {
        if (block.is_extra()) continue;
        end = std::max(end, block.end());
        head_.cloud.fields.push_back(
            {.name = block.name,
             .offset = static_cast<std::uint32_t>(block.offset - header_bytes_),
             .type = block.type,
             .count = block.components});
      }
      head_.data_offset = header_bytes_;
    } else if (const Block* only = the_block()) {
      head_.data_offset = only->offset;
      end = only->end();
    } else {
      return;
    }
    head_.data_bytes = end - head_.data_offset;
    for (const Block& block : blocks_) {
      if (block.is_extra()) scattered_ = scattered_ || (block.bytes > 0 && block.offset < end);
      if (block.name == kMetaName && meta_.bytes == 0) meta_ = block;
    }
    head_.tail_bytes = total_ - end;
    if (meta_.bytes > 0 && meta_.offset >= end) {
      head_.meta_at = meta_.offset - end;
      head_.meta_bytes = meta_.bytes;
    }
  }

  /// Of an opaque payload or a depth image.
  const Block* the_block() {
    const bool opaque = head_.kind == PayloadKind::kOpaque;
    const std::string_view name = opaque ? "payload" : "depth";
    const auto found = std::ranges::find(blocks_, name, &Block::name);
    if (found == blocks_.end()) {
      fault(fmt::format("there is no block named {}", name));
      return nullptr;
    }
    const bool fits = opaque ? found->type == kTypeUint8
                             : found->type == kTypeUint16 || found->type == kTypeFloat32;
    if (!fits || found->components != 1) {
      fault(fmt::format("{}: type {} x {}, {} is due",
                        name,
                        found->type,
                        found->components,
                        opaque ? "uint8" : "uint16 or float32"));
      return nullptr;
    }
    if (!opaque) head_.depth.encoding = found->type == kTypeUint16 ? "16UC1" : "32FC1";
    for (const Block& block : blocks_)
      scattered_ = scattered_ || (!block.is_extra() && &block != &*found && block.bytes > 0);
    return &*found;
  }

  std::span<const std::byte> message_;
  const std::uint64_t total_;
  FrameHead& head_;
  std::uint32_t flags_ = 0, height_ = 1;
  std::uint64_t points_ = 0, header_bytes_ = 0;
  std::vector<Block> blocks_;
  Block meta_;
  bool scattered_ = false;
};

std::optional<Malformed> not_flat(std::span<const std::byte> message) {
  const std::string_view begin(reinterpret_cast<const char*>(message.data()),
                               std::min(message.size(), kMagic.size()));
  if (begin != kMagic.substr(0, begin.size())) return Malformed{"a flat message begins with SBF1"};
  return std::nullopt;
}

std::optional<Malformed> read_meta(std::string_view text, FrameHead& head) {
  JsonLook look = look_at_json(text, *v1::Frame::descriptor());
  v1::Frame frame;
  std::optional<std::string> fault = std::move(look.fault);
  if (!fault && !look.unknown_body.empty())
    fault = fmt::format("Frame has no member {}", look.unknown_body);
  if (!fault) fault = read_json(text, frame);
  if (fault) return Malformed{cut_detail("#meta: " + *fault)};
  const auto made = std::make_shared<FrameHead::FlatMeta>();
  head.flat_meta = made;
  FrameHead::FlatMeta& kept = *made;
  kept.frame_id = frame.frame_id();
  head.frame_id = kept.frame_id;
  if (head.kind == PayloadKind::kCloud) {
    const v1::PointCloud& cloud = frame.cloud();
    kept.time_field = cloud.time_field();
    head.cloud.time_field = kept.time_field;
    head.cloud.time_scale_num = cloud.time_scale_num();
    head.cloud.time_scale_den = cloud.time_scale_den();
    head.cloud.time_absolute = cloud.time_absolute();
  }
  if (head.kind == PayloadKind::kDepth) {
    const v1::DepthImage& depth = frame.depth();
    head.depth.fx = depth.fx();
    head.depth.fy = depth.fy();
    head.depth.cx = depth.cx();
    head.depth.cy = depth.cy();
    if (!depth.encoding().empty()) {
      if (depth_value_bytes(depth.encoding()) != 0 && depth.encoding() != head.depth.encoding)
        head.flat_fault = fmt::format(
            "depth: its block is {}, #meta says {}", head.depth.encoding, depth.encoding());
      kept.encoding = depth.encoding();
      head.depth.encoding = kept.encoding;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Malformed> parse_flat(std::span<const std::byte> message, FrameHead& head) {
  head.clear();
  if (auto malformed = not_flat(message)) return malformed;
  if (message.size() < kHeaderBytes)
    return Malformed{
        fmt::format("{} bytes; a flat message has at least {}", message.size(), kHeaderBytes)};
  FlatParser parser(message, message.size(), head);
  parser.read_header();
  if (message.size() < parser.header_bytes())
    return Malformed{
        fmt::format("{} bytes; its header_bytes is {}", message.size(), parser.header_bytes())};
  parser.read_table();
  const Block& meta = parser.meta();
  head.tail_bytes = head.meta_at = head.meta_bytes = 0;
  if (meta.bytes == 0 || !head.flat_fault.empty()) return std::nullopt;
  head.head_bytes += meta.bytes;
  return read_meta({reinterpret_cast<const char*>(message.data()) + meta.offset, meta.bytes}, head);
}

PeekResult peek_flat(std::span<const std::byte> prefix,
                     std::optional<std::uint64_t> message_bytes,
                     FrameHead& head) {
  PeekResult result;
  head.clear();
  result.what = Peek::kWhole;
  if (not_flat(prefix) || !message_bytes || *message_bytes < kHeaderBytes) return result;
  result.message_bytes = *message_bytes;
  if (prefix.size() < kHeaderBytes) {
    result.what = Peek::kNeedMore;
    return result;
  }
  FlatParser parser(prefix, *message_bytes, head);
  parser.read_header();
  if (*message_bytes < parser.header_bytes()) return result;
  if (prefix.size() < parser.header_bytes()) {
    result.what = Peek::kNeedMore;
    return result;
  }
  parser.read_table();
  if (!head.flat_fault.empty() || head.kind == PayloadKind::kNone) {
    result.what = Peek::kFrame;
    return result;
  }
  if (parser.scattered() || head.tail_bytes > kTailStreamed) return result;
  head.head_bytes += head.meta_bytes;
  result.what = prefix.size() < head.data_offset ? Peek::kNeedMore : Peek::kFrame;
  return result;
}

std::optional<Malformed> read_flat_tail(std::span<const std::byte> tail, FrameHead& head) {
  if (head.meta_bytes == 0 || head.meta_at > tail.size() ||
      head.meta_bytes > tail.size() - head.meta_at)
    return std::nullopt;
  return read_meta({reinterpret_cast<const char*>(tail.data()) + head.meta_at, head.meta_bytes},
                   head);
}

}  // namespace simbridge::wire
