#pragma once
// What: every knob, declared once. Validation, `simbridge config`, docs/configuration.md and the
// names of environment variables are made from these rows. Owner: nobody, constants.   Threads:
// any.
//
// To add one: a row, its place in kKnobs, its use in wiring.cpp, then SIMBRIDGE_UPDATE_GOLDEN=1
// app_test.
#include "simbridge/base/result.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace simbridge::app {

enum class Kind : std::uint8_t {
  kFlag,          // true or false
  kCount,         // a whole number
  kBytes,         // a whole number, or with a unit: 512MiB
  kMilliseconds,  // a whole number of them, or with a unit: 10s
  kSeconds,       // the same in seconds
  kRatio,         // a share, e.g. 0.25
  kRate,          // a number a second
  kText,          // any text up to high bytes
  kChoice,        // one of choices
  kPort,          // 0 to 65535; 0 = the kernel chooses, the choice is printed
  kAddress,       // a numeric IPv4 or IPv6 address
};

/// When a new value counts: at the next start, or also on SIGHUP while sessions run.
enum class Change : std::uint8_t { kRestart, kLive };

struct Knob {
  std::string_view key;
  Kind kind = Kind::kCount;
  double fallback = 0;       // default of numbers and flags
  std::string_view text;     // default of texts, choices and addresses
  double low = 0, high = 0;  // numbers: both allowed; kText: high = longest
  Change when = Change::kRestart;
  std::string_view help;
  std::span<const std::string_view> choices;  // of kChoice
};

inline constexpr double kKi = 1024;
inline constexpr double kMi = kKi * 1024;
inline constexpr double kGi = kMi * 1024;
inline constexpr double kTi = kGi * 1024;

inline constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
inline constexpr std::array<std::string_view, 2> kLogFormats{"text", "json"};

// clang-format off: one row a knob, readable as a table
inline constexpr Knob kBridgeName{.key = "bridge.name", .kind = Kind::kText, .text = "simbridge", .high = 256,
    .help = "Name that peers see in Welcome."};

inline constexpr Knob kWebSocketPort{.key = "websocket.port", .kind = Kind::kPort, .fallback = 8080, .high = 65535,
    .help = "Port of the WebSocket listener; 0 = any free one, which is printed."};
inline constexpr Knob kWebSocketBind{.key = "websocket.bind", .kind = Kind::kAddress, .text = "127.0.0.1",
    .help = "Address of the WebSocket listener; beyond loopback needs security.allow_anonymous."};
inline constexpr Knob kWebSocketHandshakeTimeout{.key = "websocket.handshake_timeout_ms", .kind = Kind::kMilliseconds,
    .fallback = 10'000, .low = 100, .high = 600'000,
    .help = "How long a peer may take for the HTTP upgrade."};
inline constexpr Knob kWebSocketMaxHandshakes{.key = "websocket.max_handshakes", .kind = Kind::kCount, .fallback = 1024, .low = 1, .high = 1'000'000,
    .help = "Peers at once whose HTTP upgrade is not done; beyond it the oldest is dropped."};

inline constexpr Knob kGrpcPort{.key = "grpc.port", .kind = Kind::kPort, .fallback = 9090, .high = 65535,
    .help = "Port of the gRPC listener; 0 = any free one, which is printed."};
inline constexpr Knob kGrpcBind{.key = "grpc.bind", .kind = Kind::kAddress, .text = "127.0.0.1",
    .help = "Address of the gRPC listener; beyond loopback needs security.allow_anonymous."};
inline constexpr Knob kGrpcQueues{.key = "grpc.queues", .kind = Kind::kCount, .fallback = 0, .low = 0, .high = 64,
    .help = "gRPC's completion queues, the most threads that it can use; io.threads says how many it does. 0 = one for each CPU of the host, at most 64."};
inline constexpr Knob kGrpcMemory{.key = "grpc.memory_bytes", .kind = Kind::kBytes, .fallback = 256 * kMi, .low = 16 * kMi, .high = kTi,
    .help = "Memory that gRPC may use for what it reads; under pressure it breaks calls off. Keep it some times session.max_message_bytes."};

inline constexpr Knob kAdminPort{.key = "admin.port", .kind = Kind::kPort, .fallback = 8090, .high = 65535,
    .help = "Port of the admin server (/metrics, /healthz, /readyz, /api/v1); 0 = any free one."};
inline constexpr Knob kAdminBind{.key = "admin.bind", .kind = Kind::kAddress, .text = "127.0.0.1",
    .help = "Address of the admin server; beyond loopback needs security.allow_anonymous."};

inline constexpr Knob kAllowAnonymous{.key = "security.allow_anonymous", .kind = Kind::kFlag,
    .help = "Listen beyond loopback although peers need no credentials; every peer that reaches the port may read and write every channel."};

inline constexpr Knob kFrameBudget{.key = "frame.budget_bytes", .kind = Kind::kBytes, .fallback = kGi, .low = 8 * kMi, .high = kTi,
    .when = Change::kLive, .help = "Memory that frame payloads may use, all channels together. The largest frame is an eighth of it at the default shares."};
inline constexpr Knob kFrameWarmReserve{.key = "frame.warm_reserve_bytes", .kind = Kind::kBytes, .fallback = 64 * kMi, .low = 0, .high = kTi,
    .when = Change::kLive, .help = "Free memory populated ahead, so that a burst does not wait for page faults; never above the budget."};
inline constexpr Knob kFrameDepth{.key = "frame.depth", .kind = Kind::kCount, .fallback = 1024, .low = 1, .high = 4096,
    .when = Change::kLive, .help = "Recent frames kept for a channel, at most."};
inline constexpr Knob kFrameIdleReturn{.key = "frame.idle_return_ms", .kind = Kind::kMilliseconds, .fallback = 5'000, .low = 100, .high = 3'600'000,
    .help = "Free memory beyond the warm reserve goes back to the kernel after this long."};
inline constexpr Knob kFramePinShare{.key = "frame.pin_share", .kind = Kind::kRatio, .fallback = 0.25, .low = 0.01, .high = 0.9,
    .when = Change::kLive, .help = "Share of the budget for large frames that are being written to consumers."};
inline constexpr Knob kFrameIngestShare{.key = "frame.ingest_share", .kind = Kind::kRatio, .fallback = 0.25, .low = 0.01, .high = 0.9,
    .help = "Share of the budget for frames that are still arriving; one session has at most half of it."};

inline constexpr Knob kChannelsMax{.key = "channels.max", .kind = Kind::kCount, .fallback = 4096, .low = 1, .high = 1'000'000,
    .help = "Channels in all; beyond it an Advertise is refused with LIMIT."};
inline constexpr Knob kChannelsPerSession{.key = "channels.per_session", .kind = Kind::kCount, .fallback = 256, .low = 1, .high = 1'000'000,
    .help = "Channels that one session may advertise."};
inline constexpr Knob kChannelsRemoveAfter{.key = "channels.remove_after_s", .kind = Kind::kSeconds, .fallback = 600, .low = 1, .high = 31'536'000,
    .help = "A channel without producer and without a frame read is removed after this long."};
inline constexpr Knob kChannelsLatchedRemoveAfter{.key = "channels.latched_remove_after_s", .kind = Kind::kSeconds, .fallback = 86'400, .low = 1, .high = 31'536'000,
    .help = "The same for latched channels."};
inline constexpr Knob kChannelsSchema{.key = "channels.schema_bytes", .kind = Kind::kBytes, .fallback = kMi, .low = 0, .high = 64 * kMi,
    .help = "schema_data of one channel, at most."};
inline constexpr Knob kChannelsSchemaTotal{.key = "channels.schema_total_bytes", .kind = Kind::kBytes, .fallback = 16 * kMi, .low = 0, .high = kGi,
    .help = "schema_data of all channels together, at most."};

inline constexpr Knob kSubscriptionsPerSession{.key = "subscriptions.per_session", .kind = Kind::kCount, .fallback = 64, .low = 1, .high = 100'000,
    .help = "Subscriptions that one session may hold."};

inline constexpr Knob kSessionMax{.key = "session.max_sessions", .kind = Kind::kCount, .fallback = 4096, .low = 1, .high = 1'000'000,
    .when = Change::kLive, .help = "Sessions at once; beyond it a peer gets 503 with Retry-After. Open sessions stay when it is lowered."};
inline constexpr Knob kSessionAcceptRate{.key = "session.accept_rate", .kind = Kind::kRate, .fallback = 200, .low = 0.1, .high = 1'000'000,
    .help = "New sessions a second, with a burst of one second; beyond it a peer gets 503 with Retry-After."};
inline constexpr Knob kSessionHelloTimeout{.key = "session.hello_timeout_ms", .kind = Kind::kMilliseconds, .fallback = 10'000, .low = 100, .high = 600'000,
    .help = "How long a peer may take to say Hello."};
inline constexpr Knob kSessionPingInterval{.key = "session.ping_interval_ms", .kind = Kind::kMilliseconds, .fallback = 10'000, .low = 100, .high = 600'000,
    .help = "A silent peer is pinged this often, and given up after three times as long."};
inline constexpr Knob kSessionMaxMessage{.key = "session.max_message_bytes", .kind = Kind::kBytes, .fallback = 64 * kMi, .low = 64 * kKi, .high = kGi,
    .help = "The largest message; larger frames travel in parts, a larger message closes the session (1009)."};
inline constexpr Knob kSessionWindow{.key = "session.window_bytes", .kind = Kind::kBytes, .fallback = 16 * kMi, .low = 64 * kKi, .high = kGi,
    .help = "Unacknowledged payload that a producer may have under way on one channel."};
inline constexpr Knob kSessionQueueFrames{.key = "session.queue_frames", .kind = Kind::kCount, .fallback = 2, .low = 1, .high = 4096,
    .help = "How many frames a subscription may trail a channel before it jumps to the newest (it may ask for another figure)."};
inline constexpr Knob kSessionQueueBytes{.key = "session.queue_bytes", .kind = Kind::kBytes, .fallback = 32 * kMi, .low = 1, .high = kTi,
    .help = "The same in payload bytes."};
inline constexpr Knob kSessionReliableTimeout{.key = "session.reliable_timeout_ms", .kind = Kind::kMilliseconds, .fallback = 30'000, .low = 100, .high = 3'600'000,
    .help = "A reliable consumer that makes no progress this long while frames wait loses its claim."};
inline constexpr Knob kSessionMemoryWait{.key = "session.memory_wait_ms", .kind = Kind::kMilliseconds, .fallback = 250, .low = 0, .high = 60'000,
    .help = "How long an arriving frame waits for memory before it is refused with NO_MEMORY."};
inline constexpr Knob kSessionStallTimeout{.key = "session.stall_timeout_ms", .kind = Kind::kMilliseconds, .fallback = 10'000, .low = 100, .high = 600'000,
    .help = "A peer that holds memory others wait for, and takes no byte this long, is closed (1008); after 2 s where a shrink waits for it."};

inline constexpr Knob kValidateMaxPoints{.key = "validate.max_points", .kind = Kind::kCount, .fallback = 4'194'304, .low = 1, .high = 1'000'000'000,
    .help = "Points of one cloud; beyond it a frame is refused with TOO_LARGE."};

inline constexpr Knob kIoThreads{.key = "io.threads", .kind = Kind::kCount, .fallback = 0, .low = 0, .high = 256, .when = Change::kLive,
    .help = "Threads that run the sessions; 0 = one for each CPU that the process may use."};

inline constexpr Knob kDecimateThreads{.key = "decimate.threads", .kind = Kind::kCount, .fallback = 0, .low = 0, .high = 256, .when = Change::kLive,
    .help = "Threads that make derived frames; 0 = one for each CPU that the process may use."};
inline constexpr Knob kDecimateDepth{.key = "decimate.depth", .kind = Kind::kCount, .fallback = 16, .low = 1, .high = 4096, .when = Change::kLive,
    .help = "Derived frames kept of each channel and quality, so that consumers with the same wish share them."};

inline constexpr Knob kDrainDeadline{.key = "drain.deadline_ms", .kind = Kind::kMilliseconds, .fallback = 10'000, .low = 0, .high = 3'600'000,
    .when = Change::kLive, .help = "After SIGTERM all sessions are closed within this time; keep it below the pod's terminationGracePeriodSeconds."};
inline constexpr Knob kDrainRetryAfter{.key = "drain.retry_after_ms", .kind = Kind::kMilliseconds, .fallback = 2'000, .low = 0, .high = 3'600'000,
    .when = Change::kLive, .help = "When drained peers may come back; each is told another time around it."};

inline constexpr Knob kLogLevel{.key = "log.level", .kind = Kind::kChoice, .text = "info",
    .when = Change::kLive, .help = "The least level that is written.", .choices = kLevels};
inline constexpr Knob kLogFormat{.key = "log.format", .kind = Kind::kChoice, .text = "text",
    .help = "Lines for people, or one JSON object a line.", .choices = kLogFormats};
// clang-format on

/// All of them, in the order in which they are shown.
inline constexpr std::array kKnobs{&kBridgeName,
                                   &kWebSocketPort,
                                   &kWebSocketBind,
                                   &kWebSocketHandshakeTimeout,
                                   &kWebSocketMaxHandshakes,
                                   &kGrpcPort,
                                   &kGrpcBind,
                                   &kGrpcQueues,
                                   &kGrpcMemory,
                                   &kAdminPort,
                                   &kAdminBind,
                                   &kAllowAnonymous,
                                   &kFrameBudget,
                                   &kFrameWarmReserve,
                                   &kFrameDepth,
                                   &kFrameIdleReturn,
                                   &kFramePinShare,
                                   &kFrameIngestShare,
                                   &kChannelsMax,
                                   &kChannelsPerSession,
                                   &kChannelsRemoveAfter,
                                   &kChannelsLatchedRemoveAfter,
                                   &kChannelsSchema,
                                   &kChannelsSchemaTotal,
                                   &kSubscriptionsPerSession,
                                   &kSessionMax,
                                   &kSessionAcceptRate,
                                   &kSessionHelloTimeout,
                                   &kSessionPingInterval,
                                   &kSessionMaxMessage,
                                   &kSessionWindow,
                                   &kSessionQueueFrames,
                                   &kSessionQueueBytes,
                                   &kSessionReliableTimeout,
                                   &kSessionMemoryWait,
                                   &kSessionStallTimeout,
                                   &kValidateMaxPoints,
                                   &kIoThreads,
                                   &kDecimateThreads,
                                   &kDecimateDepth,
                                   &kDrainDeadline,
                                   &kDrainRetryAfter,
                                   &kLogLevel,
                                   &kLogFormat};

/// A knob's value: numbers and flags (0, 1) as number, the rest as text. Whole numbers up to 2^53
/// are exact.
struct Value {
  double number = 0;
  std::string text;
  friend bool operator==(const Value&, const Value&) = default;
};

/// nullptr when there is none.
[[nodiscard]] const Knob* find_knob(std::string_view key);
/// The knob whose key looks most like this; nullptr when none is near.
[[nodiscard]] const Knob* nearest_knob(std::string_view key);
[[nodiscard]] Value fallback_of(const Knob& knob);
/// Reads and judges a value. The error's detail goes on after "key: ", quotes the value and says
/// what is allowed.
[[nodiscard]] Result<Value> parse_value(const Knob& knob, std::string_view given);
/// As parse_value reads it: "64MiB", "0.25", "true".
[[nodiscard]] std::string show_value(const Knob& knob, const Value& value);
/// "bytes", "ms", "1/s", empty for none.
[[nodiscard]] std::string_view unit_of(Kind kind);
/// "8MiB to 1TiB", "true or false", "text, info".
[[nodiscard]] std::string range_of(const Knob& knob);
/// SIMBRIDGE_FRAME_BUDGET_BYTES.
[[nodiscard]] std::string environment_name(std::string_view key);
/// docs/configuration.md, whole.
[[nodiscard]] std::string knobs_markdown();

}  // namespace simbridge::app
