#pragma once
// What: every metric, declared once: name, type, labels with all their values, scale, help. The
// scrape, docs/metrics.md and the golden list of test/metrics are made from these rows. Owner:
// nobody, constants.   Threads: any.
//
// To add one: a row here, its place in kCatalogue, a reference in the module's struct
// (instruments.h), then SIMBRIDGE_UPDATE_GOLDEN=1 metrics_test. Names: simbridge_<module>_…, base
// units (_bytes, _seconds), counters end in _total, label values from closed sets, so that a peer
// can never make a new series.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace simbridge::metrics {

enum class Type : std::uint8_t { kCounter, kGauge, kHistogram, kInfo };

/// One row. Instruments count whole numbers; scale turns them into the base unit at scrape (1e-9
/// for nanoseconds shown as seconds).
struct Metric {
  std::string_view name;
  Type type = Type::kCounter;
  std::string_view help;
  std::string_view label;  // empty = one series
  std::span<const std::string_view>
      values;                             // of the label; an empty value is a hole in the numbering
  std::span<const std::uint64_t> bounds;  // of a histogram, unscaled
  double scale = 1.0;
  std::span<const std::string_view>
      info_labels;  // of kInfo: names, the values are told once at start
};

// ---- closed sets of label values
// -------------------------------------------------------------------------

/// Why a frame left its ring: pushed out by newer ones, or because memory was taken away.
enum class EvictReason : std::uint8_t { kEvicted, kShrink, kCount };
inline constexpr std::array<std::string_view, 2> kEvictReasons{"evicted", "shrink"};

/// Why a session ended.
enum class CloseCause : std::uint8_t {
  kGoodbye,       // the peer said Goodbye or closed in order
  kLost,          // the connection broke without a word
  kDead,          // no byte for three ping intervals
  kHelloTimeout,  // no Hello in time
  kProtocol,      // broke the transport's or the session's rules (1002)
  kWrongType,     // text where binary is due, or the other way round (1003)
  kMalformed,     // sixteen messages in a row that do not parse (1007)
  kTooLarge,      // a message above max_message_bytes (1009)
  kUnauthorized,  // a refused token (1008)
  kStalled,       // held memory that others waited for (1008)
  kDrain,         // the bridge is going away (1001)
  kInternal,      // an error of ours (1011)
  kCount
};
inline constexpr std::array<std::string_view, 12> kCloseCauses{"goodbye",
                                                               "lost",
                                                               "dead",
                                                               "hello_timeout",
                                                               "protocol",
                                                               "wrong_type",
                                                               "malformed",
                                                               "too_large",
                                                               "unauthorized",
                                                               "stalled",
                                                               "drain",
                                                               "internal"};

/// Why a derived frame could not be made.
enum class DecimationFailure : std::uint8_t {
  kForm,      // the cloud cannot be had in the form that was asked for (a codec, a field)
  kNoMemory,  // nothing was left to evict for it
  kCount
};
inline constexpr std::array<std::string_view, 2> kDecimationFailures{"form", "no_memory"};

/// Why a peer got no session.
enum class RefuseCause : std::uint8_t { kMaxSessions, kAcceptRate, kDraining, kMemory, kCount };
inline constexpr std::array<std::string_view, 4> kRefuseCauses{
    "max_sessions", "accept_rate", "draining", "memory"};

/// Reject codes by their numbers in bridge.proto; 0 also takes numbers that are not known here.
inline constexpr std::array<std::string_view, 22> kRejectCodes{
    "UNSPECIFIED",  "MALFORMED",      "UNKNOWN_CHANNEL", "NAME_TAKEN", "SEQUENCE",
    "TOO_LARGE",    "DATA_TOO_SHORT", "FIELD",           "LAYOUT",     "",
    "CODEC",        "CHECKSUM",       "NO_MEMORY",       "WINDOW",     "PART",
    "UNAUTHORIZED", "EPOCH",          "QUALITY",         "PATTERN",    "LIMIT",
    "DRAINING",     "UNSUPPORTED"};

/// What a gRPC call asks for.
enum class GrpcMethod : std::uint8_t { kConnect, kInfo, kHealth, kReflection, kUnknown, kCount };
inline constexpr std::array<std::string_view, 5> kGrpcMethods{
    "connect", "get_info", "health", "reflection", "unknown"};

/// Indexed by gRPC's status code; those that sessions end with.
inline constexpr std::array<std::string_view, 17> kGrpcCodes{"ok",
                                                             "",
                                                             "",
                                                             "invalid_argument",
                                                             "deadline_exceeded",
                                                             "",
                                                             "",
                                                             "",
                                                             "resource_exhausted",
                                                             "",
                                                             "aborted",
                                                             "",
                                                             "",
                                                             "",
                                                             "unavailable",
                                                             "",
                                                             "unauthenticated"};

/// Gap reasons by their numbers in bridge.proto.
inline constexpr std::array<std::string_view, 12> kGapReasons{"UNSPECIFIED",
                                                              "EVICTED",
                                                              "QUEUE",
                                                              "AGE",
                                                              "SHRINK",
                                                              "SOURCE",
                                                              "EPOCH",
                                                              "REJECTED",
                                                              "DECIMATION",
                                                              "RESTART",
                                                              "TOO_LARGE",
                                                              "SHUTDOWN"};

enum class Direction : std::uint8_t { kIn, kOut, kCount };
inline constexpr std::array<std::string_view, 2> kDirections{"in", "out"};

/// Close codes that the bridge sends.
enum class CloseCode : std::uint8_t {
  kNormal,
  kGoingAway,
  kProtocol,
  kUnacceptable,
  kInvalidData,
  kPolicy,
  kTooBig,
  kInternal,
  kOther,
  kCount
};
inline constexpr std::array<std::string_view, 9> kCloseCodes{
    "1000", "1001", "1002", "1003", "1007", "1008", "1009", "1011", "other"};
constexpr CloseCode close_code(std::uint16_t number) {
  switch (number) {
    case 1000:
      return CloseCode::kNormal;
    case 1001:
      return CloseCode::kGoingAway;
    case 1002:
      return CloseCode::kProtocol;
    case 1003:
      return CloseCode::kUnacceptable;
    case 1007:
      return CloseCode::kInvalidData;
    case 1008:
      return CloseCode::kPolicy;
    case 1009:
      return CloseCode::kTooBig;
    case 1011:
      return CloseCode::kInternal;
    default:
      return CloseCode::kOther;
  }
}

/// Why an HTTP request did not become a WebSocket.
enum class HandshakeCause : std::uint8_t {
  kMalformed,    // not HTTP, or a request that Beast refuses
  kPath,         // 404
  kNotUpgrade,   // plain HTTP
  kVersion,      // another Sec-WebSocket-Version, 426
  kSubprotocol,  // none that is known, 400
  kTooLarge,     // header above its limit
  kTimeout,      // slower than the handshake may be
  kLost,         // gone before the end
  kCount
};
inline constexpr std::array<std::string_view, 8> kHandshakeCauses{
    "malformed", "path", "not_upgrade", "version", "subprotocol", "too_large", "timeout", "lost"};

/// Why accept() failed.
enum class AcceptError : std::uint8_t { kDescriptors, kOther, kCount };
inline constexpr std::array<std::string_view, 2> kAcceptErrors{"descriptors", "other"};

enum class StatusClass : std::uint8_t { k2xx, k4xx, k5xx, kCount };
inline constexpr std::array<std::string_view, 3> kStatusClasses{"2xx", "4xx", "5xx"};

enum class AdminRefusal : std::uint8_t {
  kConnections,  // more than it serves at once
  kTimeout,      // too slow to ask, or to take the answer
  kTooLarge,
  kMalformed,
  kAccept,  // accept() failed: no descriptor is left
  kCount
};
inline constexpr std::array<std::string_view, 5> kAdminRefusals{
    "connections", "timeout", "too_large", "malformed", "accept"};

/// In the order of base's LogLevel.
inline constexpr std::array<std::string_view, 4> kLogLevels{"debug", "info", "warning", "error"};

inline constexpr std::array<std::string_view, 2> kBuildLabels{"version", "compiler"};
inline constexpr std::array<std::string_view, 1> kBootLabels{"boot_id"};

/// Nanoseconds: 50 µs to 30 s.
inline constexpr std::array<std::uint64_t, 18> kAgeBounds{50'000,
                                                          100'000,
                                                          250'000,
                                                          500'000,
                                                          1'000'000,
                                                          2'500'000,
                                                          5'000'000,
                                                          10'000'000,
                                                          25'000'000,
                                                          50'000'000,
                                                          100'000'000,
                                                          250'000'000,
                                                          500'000'000,
                                                          1'000'000'000,
                                                          2'500'000'000,
                                                          5'000'000'000,
                                                          10'000'000'000,
                                                          30'000'000'000};
/// Nanoseconds: 100 µs to 1 s.
inline constexpr std::array<std::uint64_t, 9> kRequestBounds{100'000,
                                                             500'000,
                                                             1'000'000,
                                                             5'000'000,
                                                             10'000'000,
                                                             50'000'000,
                                                             100'000'000,
                                                             500'000'000,
                                                             1'000'000'000};

// ---- frame
// -----------------------------------------------------------------------------------------------

inline constexpr Metric kFrameBudget{
    .name = "simbridge_frame_budget_bytes",
    .type = Type::kGauge,
    .help = "What the arena may charge for frame payloads (frame.budget_bytes)."};
inline constexpr Metric kFrameCharged{
    .name = "simbridge_frame_charged_bytes",
    .type = Type::kGauge,
    .help = "Whole slabs that are in use; never above the budget."};
inline constexpr Metric kFrameCommitted{
    .name = "simbridge_frame_committed_bytes",
    .type = Type::kGauge,
    .help = "Memory of the arena that the kernel has given: touched and not punched yet."};
inline constexpr Metric kFramePinned{
    .name = "simbridge_frame_pinned_bytes",
    .type = Type::kGauge,
    .help = "Frames evicted from their ring that a reader still holds."};
inline constexpr Metric kFrameWarmReserve{
    .name = "simbridge_frame_warm_reserve_bytes",
    .type = Type::kGauge,
    .help = "Populated ahead and free, so that a burst does not wait for page faults."};
inline constexpr Metric kFrameIngest{
    .name = "simbridge_frame_ingest_bytes",
    .type = Type::kGauge,
    .help =
        "Reserved for frames that are still arriving; at most frame.ingest_share of the budget."};
inline constexpr Metric kFrameLent{.name = "simbridge_frame_lent_bytes",
                                   .type = Type::kGauge,
                                   .help =
                                       "Large frames held by tickets while they are written; at "
                                       "most frame.pin_share of the budget."};
inline constexpr Metric kFrameRings{
    .name = "simbridge_frame_rings",
    .type = Type::kGauge,
    .help = "Rings that exist: one a channel, with or without a live producer."};
inline constexpr Metric kFrameHugePages{
    .name = "simbridge_frame_huge_pages",
    .type = Type::kGauge,
    .help =
        "1 where the kernel backs the arena with huge pages (shmem_enabled = advise); without them "
        "growth is ten times slower."};
inline constexpr Metric kFrameEvictedFrames{
    .name = "simbridge_frame_evicted_frames_total",
    .type = Type::kCounter,
    .help =
        "Frames that left their ring: evicted (pushed out by newer ones, of this channel or "
        "another), shrink (memory was taken away).",
    .label = "reason",
    .values = kEvictReasons};
inline constexpr Metric kFrameEvictedBytes{.name = "simbridge_frame_evicted_bytes_total",
                                           .type = Type::kCounter,
                                           .help = "Payload bytes of evicted frames.",
                                           .label = "reason",
                                           .values = kEvictReasons};
inline constexpr Metric kFrameReserveFailed{
    .name = "simbridge_frame_reservations_failed_total",
    .type = Type::kCounter,
    .help = "Reservations that found no room; the frame was refused with NO_MEMORY."};

// ---- session
// ---------------------------------------------------------------------------------------------

inline constexpr Metric kSessionOpen{
    .name = "simbridge_session_open",
    .type = Type::kGauge,
    .help = "Sessions whose Hello was accepted and that have not ended."};
inline constexpr Metric kSessionOpened{.name = "simbridge_session_opened_total",
                                       .type = Type::kCounter,
                                       .help = "Sessions whose Hello was accepted."};
inline constexpr Metric kSessionClosed{
    .name = "simbridge_session_closed_total",
    .type = Type::kCounter,
    .help = "Conversations that ended, by cause; those that ended before their Hello count too.",
    .label = "cause",
    .values = kCloseCauses};
inline constexpr Metric kSessionRefused{.name = "simbridge_session_refused_total",
                                        .type = Type::kCounter,
                                        .help = "Peers turned away before a session began.",
                                        .label = "cause",
                                        .values = kRefuseCauses};
inline constexpr Metric kSessionTakeovers{
    .name = "simbridge_session_takeovers_total",
    .type = Type::kCounter,
    .help = "Channels taken over by a peer that came back with the same peer_key."};
inline constexpr Metric kSessionReceivedFrames{.name = "simbridge_session_received_frames_total",
                                               .type = Type::kCounter,
                                               .help =
                                                   "Frames that arrived whole on a known channel; "
                                                   "received = published + duplicate + rejected."};
inline constexpr Metric kSessionReceivedBytes{.name = "simbridge_session_received_bytes_total",
                                              .type = Type::kCounter,
                                              .help = "Payload bytes of received frames."};
inline constexpr Metric kSessionPublishedFrames{
    .name = "simbridge_session_published_frames_total",
    .type = Type::kCounter,
    .help = "Received frames that went into their ring."};
inline constexpr Metric kSessionPublishedBytes{.name = "simbridge_session_published_bytes_total",
                                               .type = Type::kCounter,
                                               .help = "Payload bytes of published frames."};
inline constexpr Metric kSessionDuplicateFrames{
    .name = "simbridge_session_duplicate_frames_total",
    .type = Type::kCounter,
    .help = "Received frames that the ring had had already; acknowledged and dropped."};
inline constexpr Metric kSessionRejectedFrames{
    .name = "simbridge_session_rejected_frames_total",
    .type = Type::kCounter,
    .help = "Received frames that were refused, by Reject code.",
    .label = "code",
    .values = kRejectCodes};
inline constexpr Metric kSessionRejectedRequests{
    .name = "simbridge_session_rejected_requests_total",
    .type = Type::kCounter,
    .help = "Messages other than frames of a known channel that were refused, by Reject code.",
    .label = "code",
    .values = kRejectCodes};
inline constexpr Metric kSessionSubscriptions{.name = "simbridge_session_subscriptions",
                                              .type = Type::kGauge,
                                              .help = "Subscriptions that exist now."};
inline constexpr Metric kSessionPromisedFrames{.name = "simbridge_session_promised_frames_total",
                                               .type = Type::kCounter,
                                               .help =
                                                   "Frames promised to subscriptions; promised = "
                                                   "delivered + skipped + gap frames + broken off "
                                                   "+ on their way."};
inline constexpr Metric kSessionDeliveredFrames{
    .name = "simbridge_session_delivered_frames_total",
    .type = Type::kCounter,
    .help = "Frames handed to a transport in full, each subscription counted."};
inline constexpr Metric kSessionDeliveredBytes{.name = "simbridge_session_delivered_bytes_total",
                                               .type = Type::kCounter,
                                               .help = "Payload bytes of delivered frames."};
inline constexpr Metric kSessionSkippedFrames{
    .name = "simbridge_session_skipped_frames_total",
    .type = Type::kCounter,
    .help = "Frames left out by a subscription's own max_hz."};
inline constexpr Metric kSessionBrokenOffFrames{
    .name = "simbridge_session_broken_off_frames_total",
    .type = Type::kCounter,
    .help =
        "Frames that were on their way when their consumer's connection ended; whether they "
        "arrived is not known."};
inline constexpr Metric kSessionGapFrames{
    .name = "simbridge_session_gap_frames_total",
    .type = Type::kCounter,
    .help = "Promised frames that did not come, by the reason that the consumer was told.",
    .label = "reason",
    .values = kGapReasons};
inline constexpr Metric kSessionGaps{
    .name = "simbridge_session_gaps_total",
    .type = Type::kCounter,
    .help =
        "Gap messages sent, by reason; SOURCE, EPOCH, REJECTED and RESTART explain numbers only.",
    .label = "reason",
    .values = kGapReasons};
inline constexpr Metric kSessionReliableEnded{.name = "simbridge_session_reliable_ended_total",
                                              .type = Type::kCounter,
                                              .help =
                                                  "Reliable claims ended because the consumer made "
                                                  "no progress (session.reliable_timeout_ms)."};
inline constexpr Metric kSessionAge{
    .name = "simbridge_session_age_seconds",
    .type = Type::kHistogram,
    .help = "Time of a frame in the bridge: arrived whole to handed to the transport in full.",
    .bounds = kAgeBounds,
    .scale = 1e-9};
inline constexpr Metric kSessionOutbox{
    .name = "simbridge_session_outbox_bytes",
    .type = Type::kGauge,
    .help = "Control messages and write remainders that wait in the outboxes of all sessions."};

// ---- transport
// -------------------------------------------------------------------------------------------

inline constexpr Metric kWsConnections{.name = "simbridge_transport_websocket_connections",
                                       .type = Type::kGauge,
                                       .help = "TCP connections of the WebSocket listener."};
inline constexpr Metric kWsAccepted{
    .name = "simbridge_transport_websocket_accepted_total",
    .type = Type::kCounter,
    .help = "TCP connections that the WebSocket listener accepted."};
inline constexpr Metric kWsAcceptErrors{
    .name = "simbridge_transport_accept_errors_total",
    .type = Type::kCounter,
    .help = "accept() failures; descriptors = the descriptor table is full.",
    .label = "cause",
    .values = kAcceptErrors};
inline constexpr Metric kWsHandshakesRefused{
    .name = "simbridge_transport_websocket_handshakes_refused_total",
    .type = Type::kCounter,
    .help = "HTTP requests that did not become a WebSocket.",
    .label = "cause",
    .values = kHandshakeCauses};
inline constexpr Metric kWsMessages{.name = "simbridge_transport_websocket_messages_total",
                                    .type = Type::kCounter,
                                    .help = "Data messages, whole.",
                                    .label = "direction",
                                    .values = kDirections};
inline constexpr Metric kWsBytes{
    .name = "simbridge_transport_websocket_bytes_total",
    .type = Type::kCounter,
    .help = "Bytes on the sockets after the handshake, framing included.",
    .label = "direction",
    .values = kDirections};
inline constexpr Metric kWsPings{.name = "simbridge_transport_websocket_pings_total",
                                 .type = Type::kCounter,
                                 .help = "Ping frames.",
                                 .label = "direction",
                                 .values = kDirections};
inline constexpr Metric kWsWrites{
    .name = "simbridge_transport_websocket_writes_total",
    .type = Type::kCounter,
    .help = "Write system calls; messages out by writes is how many small frames share one."};
inline constexpr Metric kWsCloses{.name = "simbridge_transport_websocket_closes_total",
                                  .type = Type::kCounter,
                                  .help =
                                      "Close frames that the bridge sent first or in answer, by "
                                      "code; 1002, 1003, 1007, 1009 are a "
                                      "peer's protocol errors.",
                                  .label = "code",
                                  .values = kCloseCodes};
inline constexpr Metric kGrpcStreams{.name = "simbridge_transport_grpc_streams",
                                     .type = Type::kGauge,
                                     .help = "Calls of Bridge.Connect that are open."};
inline constexpr Metric kGrpcCalls{.name = "simbridge_transport_grpc_calls_total",
                                   .type = Type::kCounter,
                                   .help = "Calls that arrived.",
                                   .label = "method",
                                   .values = kGrpcMethods};
inline constexpr Metric kGrpcMessages{.name = "simbridge_transport_grpc_messages_total",
                                      .type = Type::kCounter,
                                      .help = "Messages of Bridge.Connect, whole.",
                                      .label = "direction",
                                      .values = kDirections};
inline constexpr Metric kGrpcBytes{
    .name = "simbridge_transport_grpc_bytes_total",
    .type = Type::kCounter,
    .help = "Bytes of these messages, HTTP/2's framing not included.",
    .label = "direction",
    .values = kDirections};
inline constexpr Metric kGrpcEndings{
    .name = "simbridge_transport_grpc_endings_total",
    .type = Type::kCounter,
    .help = "Calls of Bridge.Connect that this side ended, by status; broken off ones have none.",
    .label = "code",
    .values = kGrpcCodes};
inline constexpr Metric kGrpcPollers{
    .name = "simbridge_transport_grpc_pollers",
    .type = Type::kGauge,
    .help =
        "Threads that poll a completion queue; above the permits while queues that are not "
        "wanted any more still have calls."};
inline constexpr Metric kGrpcPermits{.name = "simbridge_transport_grpc_permits",
                                     .type = Type::kGauge,
                                     .help = "How many of them may handle events at one time."};
inline constexpr Metric kIoThreads{.name = "simbridge_transport_io_threads",
                                   .type = Type::kGauge,
                                   .help = "Threads that run the sessions (io.threads)."};

// ---- pipeline
// -----------------------------------------------------------------------------------------------

inline constexpr Metric kPipelineStreams{
    .name = "simbridge_pipeline_streams",
    .type = Type::kGauge,
    .help =
        "Different (channel, quality) pairs that somebody subscribes to; each is computed once."};
inline constexpr Metric kPipelineThreads{.name = "simbridge_pipeline_threads",
                                         .type = Type::kGauge,
                                         .help = "Threads that decimate (decimate.threads)."};
inline constexpr Metric kPipelineWaiting{.name = "simbridge_pipeline_waiting_frames",
                                         .type = Type::kGauge,
                                         .help = "Frames that wait for a decimation thread."};
inline constexpr Metric kPipelineFrames{.name = "simbridge_pipeline_frames_total",
                                        .type = Type::kCounter,
                                        .help = "Derived frames made."};
inline constexpr Metric kPipelineFailures{
    .name = "simbridge_pipeline_failures_total",
    .type = Type::kCounter,
    .help = "Derived frames that could not be made; their consumers get Gap{DECIMATION}.",
    .label = "cause",
    .values = kDecimationFailures};
inline constexpr Metric kPipelineWithdrawn{
    .name = "simbridge_pipeline_withdrawn_total",
    .type = Type::kCounter,
    .help = "Frames that waited for a thread until nobody wanted them any more."};
inline constexpr Metric kPipelineRefused{
    .name = "simbridge_pipeline_refused_total",
    .type = Type::kCounter,
    .help = "Frames that were not even let wait, because too many waited."};
inline constexpr Metric kPipelinePointsIn{.name = "simbridge_pipeline_points_in_total",
                                          .type = Type::kCounter,
                                          .help = "Points of the clouds that were decimated."};
inline constexpr Metric kPipelinePointsOut{.name = "simbridge_pipeline_points_out_total",
                                           .type = Type::kCounter,
                                           .help = "Points of the derived frames made."};
inline constexpr Metric kPipelineSeconds{.name = "simbridge_pipeline_seconds",
                                         .type = Type::kHistogram,
                                         .help = "Time of a thread for one derived frame.",
                                         .bounds = kAgeBounds,
                                         .scale = 1e-9};

// ---- admin
// -----------------------------------------------------------------------------------------------

inline constexpr Metric kAdminRequests{.name = "simbridge_admin_requests_total",
                                       .type = Type::kCounter,
                                       .help = "HTTP requests answered by the admin server.",
                                       .label = "status",
                                       .values = kStatusClasses};
inline constexpr Metric kAdminRefused{.name = "simbridge_admin_refused_total",
                                      .type = Type::kCounter,
                                      .help = "Admin connections closed without serving a request.",
                                      .label = "cause",
                                      .values = kAdminRefusals};
inline constexpr Metric kAdminConnections{.name = "simbridge_admin_connections",
                                          .type = Type::kGauge,
                                          .help = "Open connections of the admin server."};
inline constexpr Metric kAdminSeconds{.name = "simbridge_admin_request_seconds",
                                      .type = Type::kHistogram,
                                      .help = "Time to make an answer, without writing it.",
                                      .bounds = kRequestBounds,
                                      .scale = 1e-9};

// ---- app
// -------------------------------------------------------------------------------------------------

inline constexpr Metric kAppBuild{.name = "simbridge_app_build_info",
                                  .type = Type::kInfo,
                                  .help = "1, with what was built as labels.",
                                  .info_labels = kBuildLabels};
inline constexpr Metric kAppBoot{
    .name = "simbridge_app_boot_info",
    .type = Type::kInfo,
    .help = "1, with this life of the process as label (Welcome.boot_id).",
    .info_labels = kBootLabels};
inline constexpr Metric kAppStart{.name = "simbridge_app_start_time_seconds",
                                  .type = Type::kGauge,
                                  .help = "When this boot began, since 1970.",
                                  .scale = 1e-3};
inline constexpr Metric kAppReady{
    .name = "simbridge_app_ready", .type = Type::kGauge, .help = "1 while /readyz says yes."};
inline constexpr Metric kAppDraining{.name = "simbridge_app_draining",
                                     .type = Type::kGauge,
                                     .help = "1 while the bridge is going away."};
inline constexpr Metric kAppResident{.name = "simbridge_app_resident_bytes",
                                     .type = Type::kGauge,
                                     .help = "Resident memory of the process, the arena included."};
inline constexpr Metric kAppCpu{.name = "simbridge_app_cpu_seconds_total",
                                .type = Type::kCounter,
                                .help = "CPU time used by all threads.",
                                .scale = 1e-6};
inline constexpr Metric kAppDescriptors{.name = "simbridge_app_open_descriptors",
                                        .type = Type::kGauge,
                                        .help = "File descriptors in use."};
inline constexpr Metric kAppDescriptorLimit{.name = "simbridge_app_descriptor_limit",
                                            .type = Type::kGauge,
                                            .help = "File descriptors that the process may have."};
inline constexpr Metric kAppLogLines{.name = "simbridge_app_log_lines_total",
                                     .type = Type::kCounter,
                                     .help = "Log lines written, by level.",
                                     .label = "level",
                                     .values = kLogLevels};

/// All of them, in the order in which they are shown.
inline constexpr std::array kCatalogue{&kFrameBudget,
                                       &kFrameCharged,
                                       &kFrameCommitted,
                                       &kFramePinned,
                                       &kFrameWarmReserve,
                                       &kFrameIngest,
                                       &kFrameLent,
                                       &kFrameRings,
                                       &kFrameHugePages,
                                       &kFrameEvictedFrames,
                                       &kFrameEvictedBytes,
                                       &kFrameReserveFailed,
                                       &kSessionOpen,
                                       &kSessionOpened,
                                       &kSessionClosed,
                                       &kSessionRefused,
                                       &kSessionTakeovers,
                                       &kSessionReceivedFrames,
                                       &kSessionReceivedBytes,
                                       &kSessionPublishedFrames,
                                       &kSessionPublishedBytes,
                                       &kSessionDuplicateFrames,
                                       &kSessionRejectedFrames,
                                       &kSessionRejectedRequests,
                                       &kSessionSubscriptions,
                                       &kSessionPromisedFrames,
                                       &kSessionDeliveredFrames,
                                       &kSessionDeliveredBytes,
                                       &kSessionSkippedFrames,
                                       &kSessionGapFrames,
                                       &kSessionGaps,
                                       &kSessionBrokenOffFrames,
                                       &kSessionReliableEnded,
                                       &kSessionAge,
                                       &kSessionOutbox,
                                       &kWsConnections,
                                       &kWsAccepted,
                                       &kWsAcceptErrors,
                                       &kWsHandshakesRefused,
                                       &kWsMessages,
                                       &kWsBytes,
                                       &kWsPings,
                                       &kWsWrites,
                                       &kWsCloses,
                                       &kGrpcStreams,
                                       &kGrpcCalls,
                                       &kGrpcMessages,
                                       &kGrpcBytes,
                                       &kGrpcEndings,
                                       &kGrpcPollers,
                                       &kGrpcPermits,
                                       &kIoThreads,
                                       &kPipelineStreams,
                                       &kPipelineThreads,
                                       &kPipelineWaiting,
                                       &kPipelineFrames,
                                       &kPipelineFailures,
                                       &kPipelineWithdrawn,
                                       &kPipelineRefused,
                                       &kPipelinePointsIn,
                                       &kPipelinePointsOut,
                                       &kPipelineSeconds,
                                       &kAdminRequests,
                                       &kAdminRefused,
                                       &kAdminConnections,
                                       &kAdminSeconds,
                                       &kAppBuild,
                                       &kAppBoot,
                                       &kAppStart,
                                       &kAppReady,
                                       &kAppDraining,
                                       &kAppResident,
                                       &kAppCpu,
                                       &kAppDescriptors,
                                       &kAppDescriptorLimit,
                                       &kAppLogLines};

}  // namespace simbridge::metrics
