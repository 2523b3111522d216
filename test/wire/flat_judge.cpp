#include "wire/flat_judge.h"

#include "simbridge/wire/flat.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace simbridge::wire::test {
namespace {

constexpr std::size_t kDetailMax = 320;  // bytes: about 200 of a peer's, and our words

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t number_at(std::string_view message, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i > 0; --i)
    value = value << 8U | static_cast<unsigned char>(message[at + i - 1]);
  return value;
}

double double_at(std::string_view message, std::size_t at) {
  const std::uint64_t bits = number_at(message, at, 8);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint64_t size_of_type(std::uint32_t type) {
  static const std::map<std::uint32_t, std::uint64_t> kBytes{
      {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 4}, {7, 4}, {8, 8}, {9, 8}, {10, 8}, {11, 1}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

bool is_text(const std::string& name) {
  v1::Goodbye typed;
  return typed.ParseFromString(packed<std::uint8_t>({0x0a, std::uint8_t(name.size())}) + name);
}

// ---- the second reader

enum class Answer { kMalformed, kUnsupported, kLayout, kFine };

struct Second {
  Answer answer = Answer::kMalformed;
  v1::Frame frame;
  std::optional<std::string> meta;
};

struct Entry {
  std::string name;
  std::uint32_t type = 0, components = 0;
  std::uint64_t offset = 0, bytes = 0;
  [[nodiscard]] bool is_extra() const { return !name.empty() && name.front() == '#'; }
};

Entry entry_of(std::string_view message, std::size_t index) {
  const std::size_t at = entry_at(index);
  std::string name(message.substr(at, 16));
  name.resize(std::min(name.size(), name.find('\0')));
  return {.name = name,
          .type = static_cast<std::uint32_t>(number_at(message, at + 16, 1)),
          .components = std::max<std::uint32_t>(1, std::uint32_t(number_at(message, at + 17, 1))),
          .offset = number_at(message, at + 20, 4),
          .bytes = number_at(message, at + 24, 8)};
}

/// Each block marks its bytes; one that finds a mark overlaps.
bool blocks_are_right(std::string_view message,
                      const std::vector<Entry>& entries,
                      std::uint64_t header,
                      std::uint64_t points,
                      bool opaque) {
  std::vector<bool> taken(message.size());
  for (const Entry& entry : entries) {
    if (!is_text(entry.name) || entry.offset % 8 != 0 || entry.offset < header) return false;
    if (entry.offset > message.size() || entry.bytes > message.size() - entry.offset) return false;
    const bool sized = !entry.is_extra() && !(opaque && entry.name == "payload");
    const std::uint64_t size = size_of_type(entry.type);
    if (sized && size != 0 && entry.bytes != points * entry.components * size) return false;
    for (std::uint64_t i = entry.offset; i < entry.offset + entry.bytes; ++i) {
      if (taken[i]) return false;
      taken[i] = true;
    }
  }
  return true;
}

void read_cloud(std::string_view message,
                const std::vector<Entry>& entries,
                std::uint64_t header,
                v1::PointCloud& cloud) {
  std::uint64_t end = header;
  for (const Entry& entry : entries) {
    if (entry.is_extra()) continue;
    v1::Field& field = *cloud.add_fields();
    field.set_name(entry.name);
    field.set_offset(static_cast<std::uint32_t>(entry.offset - header));
    field.set_type(static_cast<v1::Type>(entry.type));
    field.set_count(entry.components);
    end = std::max(end, entry.offset + entry.bytes);
  }
  cloud.set_data(std::string(message.substr(header, end - header)));
}

/// The one block of a depth image or an opaque frame, where it is there and of a right type.
const Entry* only_block(const std::vector<Entry>& entries, bool opaque) {
  for (const Entry& entry : entries) {
    if (entry.name != (opaque ? "payload" : "depth")) continue;
    const bool fits = opaque ? entry.type == v1::TYPE_UINT8
                             : entry.type == v1::TYPE_UINT16 || entry.type == v1::TYPE_FLOAT32;
    return fits && entry.components == 1 ? &entry : nullptr;
  }
  return nullptr;
}

Second read_again(std::string_view message) {
  Second second;
  if (message.size() < 208 || message.substr(0, 4) != "SBF1") return second;
  const std::uint64_t header = number_at(message, 4, 2);
  if (message.size() < header) return second;
  const std::uint64_t count = number_at(message, 6, 2);
  v1::Frame& frame = second.frame;
  frame.set_channel(static_cast<std::uint32_t>(number_at(message, 12, 4)));
  frame.set_sequence(number_at(message, 16, 8));
  frame.set_epoch(number_at(message, 24, 8));
  frame.set_stamp_ns(static_cast<std::int64_t>(number_at(message, 32, 8)));
  frame.set_sent_ns(static_cast<std::int64_t>(number_at(message, 40, 8)));
  const std::uint64_t points = number_at(message, 80, 4);
  const std::uint64_t flags = number_at(message, 84, 4);
  const std::uint64_t height = std::max<std::uint64_t>(1, number_at(message, 88, 4));
  frame.set_clock(static_cast<v1::Clock>(flags >> 16U & 15U));
  const std::uint64_t kind = flags >> 24U & 15U;
  if (kind > 2) {
    second.answer = Answer::kUnsupported;
    return second;
  }
  second.answer = Answer::kLayout;
  if (header % 8 != 0 || header < 208 + 32 * count || points % height != 0) return second;
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) entries.push_back(entry_of(message, i));
  if (!blocks_are_right(message, entries, header, points, kind == 2)) return second;

  if ((flags & 32U) != 0) {
    frame.mutable_origin()->set_x(double_at(message, 104));
    frame.mutable_origin()->set_y(double_at(message, 112));
    frame.mutable_origin()->set_z(double_at(message, 120));
  }
  if ((flags & 16U) != 0) {
    v1::Pose& pose = *frame.mutable_pose();
    pose.mutable_position()->set_x(double_at(message, 128));
    pose.mutable_position()->set_y(double_at(message, 136));
    pose.mutable_position()->set_z(double_at(message, 144));
    pose.mutable_orientation()->set_x(double_at(message, 152));
    pose.mutable_orientation()->set_y(double_at(message, 160));
    pose.mutable_orientation()->set_z(double_at(message, 168));
    pose.mutable_orientation()->set_w(double_at(message, 176));
  }
  const Entry* only = nullptr;
  if (kind == 0) {
    v1::PointCloud& cloud = *frame.mutable_cloud();
    cloud.set_height(static_cast<std::uint32_t>(height));
    cloud.set_width(static_cast<std::uint32_t>(points / height));
    cloud.set_layout(v1::LAYOUT_SOA);
    cloud.set_is_dense((flags & 4U) == 0);
    read_cloud(message, entries, header, cloud);
  } else {
    only = only_block(entries, kind == 2);
    if (only == nullptr) return second;
    const std::string data(message.substr(only->offset, only->bytes));
    if (kind == 2) {
      frame.mutable_opaque()->set_data(data);
    } else {
      v1::DepthImage& depth = *frame.mutable_depth();
      depth.set_height(static_cast<std::uint32_t>(height));
      depth.set_width(static_cast<std::uint32_t>(points / height));
      depth.set_encoding(only->type == v1::TYPE_UINT16 ? "16UC1" : "32FC1");
      depth.set_data(data);
    }
  }
  second.answer = Answer::kFine;
  for (const Entry& entry : entries) {
    if (entry.name != "#meta" || entry.bytes == 0) continue;
    second.meta = std::string(message.substr(entry.offset, entry.bytes));
    break;
  }
  return second;
}

/// What a #meta adds. False: protobuf's own parser refuses it.
bool apply_meta(Second& second) {
  v1::Frame meta;
  if (!google::protobuf::util::JsonStringToMessage(*second.meta, &meta).ok()) return false;
  v1::Frame& frame = second.frame;
  frame.set_frame_id(meta.frame_id());
  if (frame.has_cloud()) {
    frame.mutable_cloud()->set_time_field(meta.cloud().time_field());
    frame.mutable_cloud()->set_time_scale_num(meta.cloud().time_scale_num());
    frame.mutable_cloud()->set_time_scale_den(meta.cloud().time_scale_den());
    frame.mutable_cloud()->set_time_absolute(meta.cloud().time_absolute());
  }
  if (frame.has_depth()) {
    v1::DepthImage& depth = *frame.mutable_depth();
    depth.set_fx(meta.depth().fx());
    depth.set_fy(meta.depth().fy());
    depth.set_cx(meta.depth().cx());
    depth.set_cy(meta.depth().cy());
    const std::string& said = meta.depth().encoding();
    const bool known = said == "16UC1" || said == "32FC1";
    if (known && said != depth.encoding()) second.answer = Answer::kLayout;
    if (!said.empty()) depth.set_encoding(said);
  }
  return true;
}

bool equal(const google::protobuf::Message& a, const google::protobuf::Message& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

v1::Frame frame_of(const FrameHead& head, std::string_view message) {
  return to_proto(head, as_bytes(message).subspan(head.data_offset, head.data_bytes));
}

std::string judge_parsed(std::string_view message,
                         const std::optional<Malformed>& malformed,
                         const FrameHead& head) {
  Second second = read_again(message);
  if (second.answer == Answer::kMalformed)
    return malformed ? std::string() : "it is malformed, says the page";
  if (!malformed &&
      (head.channel != second.frame.channel() || head.sequence != second.frame.sequence() ||
       head.epoch != second.frame.epoch()))
    return "channel, sequence or epoch differ";
  if (second.answer == Answer::kFine && second.meta) {
    const bool taken = apply_meta(second);
    if (malformed) {
      // Stricter than protobuf's parser is right here; the tables say where.
      return malformed->detail.starts_with("#meta") ? std::string() : malformed->detail;
    }
    if (!taken) return "protobuf refuses the #meta";
  }
  if (malformed) return "it is not malformed, says the page: " + malformed->detail;
  if ((second.answer == Answer::kLayout) != !head.flat_fault.empty())
    return "LAYOUT differs: " + head.flat_fault;
  if ((second.answer == Answer::kUnsupported) != (head.kind == PayloadKind::kNone))
    return "whether the kind is known differs";
  if (head.flat_fault.size() > kDetailMax) return "a fault of " + head.flat_fault;
  if (second.answer != Answer::kFine) return {};
  const v1::Frame ours = frame_of(head, message);
  return equal(ours, second.frame) ? std::string()
                                   : "the page reads " + second.frame.ShortDebugString() +
                                         ", parse_flat reads " + ours.ShortDebugString();
}

std::string written(const FrameHead& head, std::uint64_t data_bytes, std::span<std::byte> stored) {
  std::string out(frame_prefix_max(stored), '\0');
  out.resize(frame_prefix(stored,
                          {.channel = 5, .sequence = head.sequence, .data_bytes = data_bytes},
                          true,
                          std::as_writable_bytes(std::span(out))));
  return out;
}

/// peek_flat() said kFrame to a prefix: on by the road of a stream, to the same end.
std::string judge_streamed(std::string_view message,
                           FrameHead& head,
                           const std::optional<Malformed>& malformed,
                           const FrameHead& whole) {
  if (head.data_offset + head.data_bytes + head.tail_bytes != message.size())
    return "head, data and tail are not the message";
  // As a session does: stored when the head is known, and again when the tail is.
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, 99, stored);
  static_cast<void>(written(head, head.data_bytes, stored));
  const std::string tail(message.substr(message.size() - head.tail_bytes));
  const auto refused = read_flat_tail(as_bytes(tail), head);
  if (refused.has_value() != malformed.has_value())
    return "the tail is judged otherwise than in the whole message";
  if (refused)
    return refused->detail == malformed->detail ? std::string() : "another detail than the whole's";
  if (head.flat_fault != whole.flat_fault) return "another fault than the whole's";
  if (head.data_offset != whole.data_offset || head.data_bytes != whole.data_bytes ||
      head.head_bytes != whole.head_bytes)
    return "the data lies elsewhere than in the whole";
  if (!equal(to_proto(head, {}), to_proto(whole, {}))) return "another head than the whole's";
  store_head(head, 99, stored);
  std::vector<std::byte> at_once(stored_head_bytes(whole));
  store_head(whole, 99, at_once);
  if (written(head, head.data_bytes, stored) != written(whole, whole.data_bytes, at_once))
    return "what is stored twice goes out otherwise";
  FrameHead loaded;
  load_head(stored, loaded);
  loaded.channel = whole.channel;
  loaded.sequence = whole.sequence;
  loaded.epoch = whole.epoch;
  loaded.received_ns = 0;
  return equal(to_proto(loaded, {}), to_proto(whole, {})) ? std::string()
                                                          : "what is stored twice loads otherwise";
}

std::string judge_prefixes(std::string_view message,
                           std::size_t max_prefixes,
                           const std::optional<Malformed>& malformed,
                           const FrameHead& whole) {
  FrameHead head;
  std::optional<Peek> answer;
  int answered = 0;
  std::vector<std::size_t> prefixes;
  for (std::size_t prefix = 0; prefix < std::min(message.size(), max_prefixes); ++prefix)
    prefixes.push_back(prefix);
  prefixes.push_back(message.size());
  for (const std::size_t prefix : prefixes) {
    // What is behind the prefix is not there.
    const std::vector<char> here(message.begin(),
                                 message.begin() + static_cast<std::ptrdiff_t>(prefix));
    const auto bytes = std::as_bytes(std::span(here));
    const PeekResult seen = peek_flat(bytes, message.size(), head);
    if (seen.what == Peek::kPart) return "a part on the flat road";
    if (seen.what == Peek::kNeedMore && prefix == message.size()) return "more than all is wanted";
    if (answer && *answer != seen.what) return fmt::format("peek changes its mind at {}", prefix);
    if (seen.what == Peek::kNeedMore) continue;
    answer = seen.what;
    // How much of the data is here makes no difference: most of those prefixes are passed over.
    const bool looked_at = prefix == message.size() || answered++ < 4;
    if (seen.what == Peek::kFrame && looked_at) {
      if (seen.message_bytes != message.size()) return "peek says another length";
      if (head.data_offset > prefix) return "peek says kFrame before the data begins";
      if (malformed && head.meta_bytes == 0) return "peek sees a frame in what is malformed";
      if (auto fault = judge_streamed(message, head, malformed, whole); !fault.empty())
        return fmt::format("{} (prefix of {})", fault, prefix);
    }
    if (looked_at && peek_flat(bytes, std::nullopt, head).what != Peek::kWhole)
      return "peek does not want a message whole whose length it does not know";
  }
  return {};
}

/// What was accepted goes out flat as it came in.
std::string judge_flat_out(const FrameHead& head, std::string_view message) {
  std::vector<std::byte> stored(stored_head_bytes(head));
  store_head(head, 1234, stored);
  if (!has_flat_form(stored, head.data_bytes)) return {};
  const Outgoing outgoing{.channel = head.channel,
                          .subscription = 3,
                          .sequence = head.sequence,
                          .epoch = head.epoch,
                          .forwarded_ns = 4321,
                          .data_bytes = head.data_bytes,
                          .points_in = head.points(),
                          .points_out = head.points(),
                          .skipped_frames = 9};
  const std::string meta = flat_meta(stored, outgoing);
  const std::string_view data = message.substr(head.data_offset, head.data_bytes);
  for (const bool with_meta : {true, false}) {
    std::string out(flat_prefix_max(stored), '\xAA');
    const std::uint64_t length = flat_prefix(
        stored, outgoing, with_meta ? meta.size() : 0, std::as_writable_bytes(std::span(out)));
    if (length % 8 != 0 || length > out.size()) return "a prefix of an odd length";
    out.resize(length);
    out += data;
    if (with_meta) {
      out.resize((out.size() + 7) / 8 * 8);
      out += meta;
    }
    Second again = read_again(out);
    if (again.answer != Answer::kFine) return "what goes out is faulty";
    if (again.meta.has_value() != with_meta) return "the #meta is not where it belongs";
    if (with_meta && !apply_meta(again)) return "what goes out has a faulty #meta";
    v1::Frame expected = frame_of(head, message);
    if (!with_meta) {
      // It says what the rest does not.
      expected.clear_frame_id();
      if (expected.has_depth()) {
        expected.mutable_depth()->clear_fx();
        expected.mutable_depth()->clear_fy();
        expected.mutable_depth()->clear_cx();
        expected.mutable_depth()->clear_cy();
        expected.mutable_depth()->set_encoding(again.frame.depth().encoding());
      }
      if (expected.has_cloud()) {
        expected.mutable_cloud()->clear_time_field();
        expected.mutable_cloud()->clear_time_scale_num();
        expected.mutable_cloud()->clear_time_scale_den();
        expected.mutable_cloud()->clear_time_absolute();
      }
    }
    if (!equal(again.frame, expected))
      return "it came as " + expected.ShortDebugString() + " and goes out as " +
             again.frame.ShortDebugString();
    if (number_at(out, 8, 4) != 3 || number_at(out, 48, 8) != 1234 ||
        number_at(out, 56, 8) != 4321 || number_at(out, 72, 8) != 9)
      return "what the bridge sets is not in the header";
  }
  return {};
}

}  // namespace

std::string FlatMessage::encode() const {
  const std::size_t header = 208 + 32 * blocks.size() + grown_bytes;
  std::string out = "SBF1";
  out += packed({static_cast<std::uint16_t>(header), static_cast<std::uint16_t>(blocks.size())});
  out += packed<std::uint32_t>({0, channel});
  out += packed({sequence, epoch});
  out += packed<std::int64_t>({stamp_ns, sent_ns, -1, -1});
  out += packed<std::uint64_t>({~0ULL, ~0ULL});  // fields that only the bridge sets
  out += packed<std::uint32_t>({points, flags, height, 0});
  out += packed({0.5, origin[0], origin[1], origin[2]});
  for (const double number : pose) out += packed({number});
  out += packed({1.F, 2.F, 3.F, 4.F, 5.F, 6.F});
  std::size_t at = header;
  for (const FlatBlock& block : blocks) {
    std::string name = block.name;
    name.resize(16);
    out += name + packed<std::uint8_t>({block.type, block.components, 0, 0}) +
           packed({static_cast<std::uint32_t>(at)}) +
           packed({static_cast<std::uint64_t>(block.bytes.size())});
    at += (block.bytes.size() + 7) / 8 * 8;
  }
  out.append(grown_bytes, 'G');
  for (const FlatBlock& block : blocks) {
    out.resize((out.size() + 7) / 8 * 8);
    out += block.bytes;
  }
  return out;
}

FlatMessage random_flat(Random& random) {
  const auto below = [&random](std::uint64_t bound) {
    return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
  };
  const auto bytes = [&](std::uint64_t size) {
    std::string out(size, '\0');
    for (char& byte : out) byte = static_cast<char>(random());
    return out;
  };
  FlatMessage message;
  message.sequence = random();
  message.stamp_ns = static_cast<std::int64_t>(random());
  message.sent_ns = static_cast<std::int64_t>(below(1000));
  message.grown_bytes = below(3) * 8;
  const std::uint64_t kind = below(8) == 0 ? 3 + below(13) : below(3);
  message.flags = static_cast<std::uint32_t>(below(64) | below(16) << 16U | kind << 24U);
  message.height = static_cast<std::uint32_t>(below(4));
  message.points = static_cast<std::uint32_t>(below(6) * std::max(message.height, 1U));
  for (double& number : message.origin) number = static_cast<double>(below(100));
  for (double& number : message.pose) number = static_cast<double>(below(100));
  const std::uint64_t n = message.points;
  if (kind == 0) message.blocks.push_back({"xyz", 7, 3, bytes(n * 12)});
  if (kind == 1) {
    const bool wide = below(2) == 0;
    message.blocks.push_back({"depth", std::uint8_t(wide ? 7 : 4), 1, bytes(n * (wide ? 4 : 2))});
  }
  if (kind == 2) message.blocks.push_back({"payload", 2, 1, bytes(below(40))});
  for (std::uint64_t more = below(4); more > 0; --more) {
    static const std::vector<std::string> kNames{
        "ring", "time", "", "_", "rgba", "intensity", "x", "y", "z", "sixteen_bytes_16", "payload"};
    const auto type = static_cast<std::uint8_t>(1 + below(11));
    const auto components = static_cast<std::uint8_t>(1 + below(4));
    const std::string& name = kNames.at(below(kNames.size()));
    message.blocks.insert(
        message.blocks.begin() + static_cast<std::ptrdiff_t>(below(message.blocks.size() + 1)),
        {name, type, components, bytes(n * size_of_type(type) * components)});
  }
  if (below(2) == 0) {
    v1::Frame meta;
    fill_random(meta, random);
    if (below(2) == 0) {
      meta = {};
      meta.set_frame_id("lidar");
      meta.mutable_depth()->set_fx(1);
    }
    FlatBlock block{"#meta", 2, 1, {}};
    static_cast<void>(google::protobuf::util::MessageToJsonString(meta, &block.bytes));
    const std::uint64_t behind = below(4) == 0 ? below(message.blocks.size() + 1) : 0;
    message.blocks.insert(message.blocks.end() - static_cast<std::ptrdiff_t>(behind), block);
  }
  return message;
}

std::string judge_flat(std::span<const std::byte> message, std::size_t max_prefixes) {
  const std::string_view text = as_text(message);
  FrameHead head;
  const auto malformed = parse_flat(message, head);
  if (auto fault = judge_parsed(text, malformed, head); !fault.empty()) return fault;
  if (malformed && malformed->detail.size() > kDetailMax) return "a long detail";
  if (auto fault = judge_prefixes(text, max_prefixes, malformed, head); !fault.empty())
    return fault;
  if (malformed) return {};
  const FrameLimits limits{.max_frame_bytes = 1 << 20U};
  if (auto fault = judge_accepted_payload(head, limits); !fault.empty()) return fault;
  std::uint32_t warnings = 0;
  const bool accepted = check_head(head, limits).ok() && check_payload(head, limits, warnings).ok();
  if (!accepted) return {};
  if (!head.flat_fault.empty()) return "a fault was accepted";
  return judge_flat_out(head, text);
}

std::string judge_json(std::string_view text) {
  const ClientMessage parsed = parse_json(text);
  if (std::holds_alternative<FrameBody>(parsed) || std::holds_alternative<Part>(parsed)) return {};
  const std::string* detail = nullptr;
  if (const auto* malformed = std::get_if<Malformed>(&parsed)) detail = &malformed->detail;
  if (const auto* unsupported = std::get_if<Unsupported>(&parsed)) detail = &unsupported->detail;
  if (detail != nullptr) {
    if (detail->empty() || detail->size() > kDetailMax) return "a detail that is no sentence";
    std::string sent;
    encode_json(Reject{.detail = *detail}, sent);
    v1::ServerMessage told;
    const bool reads = google::protobuf::util::JsonStringToMessage(sent, &told).ok();
    return reads && told.reject().detail() == *detail ? std::string() : "a detail that is no text";
  }
  v1::ClientMessage theirs;
  if (!google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &theirs).ok())
    return "protobuf refuses the text";
  const v1::ClientMessage ours = to_proto(parsed);
  const auto by_bytes = [](const v1::ClientMessage& message) {
    const std::string bytes = message.SerializeAsString();
    FrameHead head;
    return to_proto(parse(as_bytes(bytes), head));
  };
  if (!equal(ours, by_bytes(theirs))) return "protobuf reads " + theirs.ShortDebugString();
  std::string printed;
  if (!google::protobuf::util::MessageToJsonString(theirs, &printed).ok()) return {};
  return equal(to_proto(parse_json(printed)), ours) ? std::string()
                                                    : "printed by protobuf it reads otherwise";
}

}  // namespace simbridge::wire::test
