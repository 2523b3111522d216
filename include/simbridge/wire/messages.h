#pragma once
// What: the messages of proto/simbridge/v1/bridge.proto as plain values, with its numbers and its
// words; the frame itself is in frame_head.h.   Owner: nobody, values.   Threads: any.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace simbridge::wire {

// The enumerators carry the protocol's numbers; test/wire compares them with the generated code.
enum class RejectCode : std::uint8_t {
  kUnspecified = 0,
  kMalformed = 1,
  kUnknownChannel = 2,
  kNameTaken = 3,
  kSequence = 4,
  kTooLarge = 5,
  kDataTooShort = 6,
  kField = 7,
  kLayout = 8,
  kCodec = 10,
  kChecksum = 11,
  kNoMemory = 12,
  kWindow = 13,
  kPart = 14,
  kUnauthorized = 15,
  kEpoch = 16,
  kQuality = 17,
  kPattern = 18,
  kLimit = 19,
  kDraining = 20,
  kUnsupported = 21,
};
inline constexpr std::size_t kRejectCodes = 22;
/// "MALFORMED", as in the protocol without its prefix; also the metric label.
std::string_view name_of(RejectCode code);

enum class GapReason : std::uint8_t {
  kUnspecified = 0,
  kEvicted = 1,
  kQueue = 2,
  kAge = 3,
  kShrink = 4,
  kSource = 5,
  kEpoch = 6,
  kRejected = 7,
  kDecimation = 8,
  kRestart = 9,
  kTooLarge = 10,
  kShutdown = 11,
};
inline constexpr std::size_t kGapReasons = 12;
std::string_view name_of(GapReason reason);

enum class Policy : std::uint8_t { kUnspecified = 0, kDropOldest = 1, kBackpressure = 2 };
enum class History : std::uint8_t { kNone = 0, kLast = 1, kAllKept = 2, kFrom = 3 };
enum class Level : std::uint8_t { kUnspecified = 0, kInfo = 1, kWarning = 2, kError = 3 };

// ---- from a peer
// ---------------------------------------------------------------------------------------

struct Hello {
  std::string name, agent, token, peer_key;
  std::uint64_t max_message_bytes = 0;
};
struct Advertise {
  std::uint32_t channel = 0;
  std::string name, frame_id, schema, encoding, schema_data, schema_encoding;
  std::uint64_t epoch = 0;
  Policy policy = Policy::kUnspecified;  // an unknown number reads as unspecified
  bool latched = false;
};
struct Unadvertise {
  std::uint32_t channel = 0;
};
struct Vector3 {
  double x = 0, y = 0, z = 0;
  friend bool operator==(const Vector3&, const Vector3&) = default;
};
struct Quality {
  float max_hz = 0;
  std::uint64_t max_points = 0;
  double leaf = 0;
  std::uint32_t sampling = 0;
  std::optional<std::array<Vector3, 2>> region;  // min, max
  double min_range = 0, max_range = 0;
  bool keep_invalid = false;
  std::vector<std::string> fields;
  std::uint32_t output = 0;
  friend bool operator==(const Quality&, const Quality&) = default;
  /// Whether frames pass unchanged, byte for byte: everything but max_hz is at its default.
  [[nodiscard]] bool unchanged() const {
    Quality rest = *this;
    rest.max_hz = 0;
    return rest == Quality{};
  }
};
struct Position {
  std::string channel;
  std::uint64_t epoch = 0, sequence = 0;
};
struct Subscribe {
  std::uint32_t id = 0;
  std::string channel;  // exact name or glob
  Quality quality;
  std::uint32_t history = 0;  // as sent: an unknown number is the session's business
  std::uint32_t queue_frames = 0;
  std::uint64_t queue_bytes = 0;
  bool reliable = false;
  std::uint32_t credit = 0;
  std::uint32_t max_age_ms = 0;
  std::vector<Position> from;
};
struct Unsubscribe {
  std::uint32_t id = 0;
};
struct Credit {
  std::uint32_t subscription = 0, channel = 0, frames = 0;
};
struct Ping {
  std::uint64_t cookie = 0;
  std::int64_t sent_ns = 0;
};
struct Goodbye {
  std::string reason;
};
/// What stands before the data of a FramePart. data is what of it was in the parsed bytes.
struct Part {
  std::uint64_t transfer = 0;
  std::uint32_t index = 0, count = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::span<const std::byte> data;
};

// ---- from the bridge
// -----------------------------------------------------------------------------------

struct Welcome {
  std::string bridge, version;
  std::uint64_t boot_id = 0, session = 0, max_message_bytes = 0, max_frame_bytes = 0;
  std::uint32_t ping_interval_ms = 0;
  std::int64_t now_ns = 0;
};
struct Drain {
  std::string reason;
  std::uint32_t deadline_ms = 0, retry_after_ms = 0;
};
struct Pong {
  std::uint64_t cookie = 0;
  std::int64_t sent_ns = 0, now_ns = 0;
};
struct Status {
  Level level = Level::kInfo;
  std::string code, detail;
};
struct Advertised {
  std::uint32_t channel = 0, id = 0;
  std::uint64_t last_sequence = 0, window_bytes = 0, epoch = 0;
};
struct ChannelInfo {
  std::uint32_t id = 0;
  std::string name, frame_id, schema, encoding, schema_data, schema_encoding;
  std::uint64_t epoch = 0, first_sequence = 0, last_sequence = 0;
  bool live = false, latched = false;
  Policy policy = Policy::kUnspecified;
};
struct Channels {
  std::vector<ChannelInfo> channel;
  std::vector<std::uint32_t> removed;
  bool complete = false;
};
struct Ack {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0, window_bytes = 0;
};
struct Reject {
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  RejectCode code = RejectCode::kUnspecified;
  std::string detail;
  std::uint32_t subscription = 0;
  bool retry = false;
};
struct Counters {
  std::uint64_t promised = 0, delivered = 0, skipped = 0, lost = 0;
};
struct SubscriptionState {
  std::uint32_t id = 0;
  std::vector<std::uint32_t> channel;
  Quality applied;
  bool degraded = false;
  std::string detail;
  bool ended = false;
  Counters counters;
};
struct Gap {
  std::uint32_t subscription = 0, channel = 0;
  std::uint64_t epoch = 0, first = 0, last = 0;
  GapReason reason = GapReason::kUnspecified;
  std::uint64_t frames = 0;
};

using ServerMessage = std::variant<Welcome,
                                   Channels,
                                   Advertised,
                                   Ack,
                                   Reject,
                                   SubscriptionState,
                                   Gap,
                                   Drain,
                                   Pong,
                                   Status>;

/// The encoded ServerMessage, appended to out. In strings each byte that is not UTF-8 becomes '?':
/// details quote peers.
void encode(const ServerMessage& message, std::string& out);

}  // namespace simbridge::wire
