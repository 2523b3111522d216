#pragma once
// What: the seam between a transport (moves bytes) and a session (knows the protocol).
// A transport owns the connection, implements Peer, feeds a Session and pulls from it; it judges no
// message. Threads: everything here is called on the session's strand, unless said otherwise.
#include "simbridge/base/clock.h"
#include "simbridge/base/strand_role.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace simbridge::session {

/// Why a session ends; each transport has its own code for it (protocol.md §2: WebSocket, gRPC).
enum class CloseKind : std::uint8_t {
  kNormal,           // 1000, OK
  kGoingAway,        // 1001, UNAVAILABLE: drain
  kProtocol,         // 1002, INVALID_ARGUMENT: not Hello first
  kUnsupportedData,  // 1003, INVALID_ARGUMENT: text where binary is due
  kMalformed,        // 1007, INVALID_ARGUMENT: 16 in a row
  kPolicy,           // 1008, ABORTED: held memory that the bridge must have back
  kHelloTimeout,     // 1008, DEADLINE_EXCEEDED
  kUnauthorized,     // 1008, UNAUTHENTICATED
  kTooLarge,         // 1009, RESOURCE_EXHAUSTED
  kLost,             // no close possible: the connection broke off
  kDead,             // no byte for three ping intervals
};
inline constexpr std::size_t kCloseKinds = 11;

struct CloseReason {
  CloseKind kind = CloseKind::kNormal;
  std::string text;  // <= 123 bytes go out over WebSocket
};

/// What the session asks of its transport.
class Peer {
 public:
  virtual ~Peer() = default;
  /// There is something to take with next_batch(). Called at most once until next_batch() said
  /// false again; never from inside next_batch() or batch_done().
  virtual void output_ready() = 0;
  /// Ends a Flow::kPause: offer the same bytes again. Never called from inside on_message/on_chunk.
  virtual void resume_input() = 0;
  /// No more input is wanted. What next_batch() still gives goes out first, then the close. The
  /// transport bounds the wait (5 s) and calls Session::on_closed() at the end, as at every end.
  virtual void close(const CloseReason& reason) = 0;
  /// One timer a session: Session::on_timer() on the strand, not before that time; replaces the
  /// earlier wish.
  virtual void wake_at(Monotonic time) = 0;
  /// The connection's send buffer and receive window, from the plan; live.
  virtual void set_socket_bytes(std::uint64_t bytes_each_way) = 0;

 protected:
  Peer() = default;
  Peer(const Peer&) = default;
  Peer& operator=(const Peer&) = default;
};

/// What the messages of a session look like (protocol.md §1).
enum class Encoding : std::uint8_t {
  kProtobuf,  // ClientMessage and ServerMessage
  kFlat,      // control as JSON text, frames as flat binary messages
};
enum class MessageType : std::uint8_t { kBinary, kText };

/// Who it is, for logs, metrics and the admin page.
struct PeerInfo {
  std::string transport;  // "websocket"
  std::string address;    // "127.0.0.1:50412"
  Encoding encoding = Encoding::kProtobuf;
  /// The largest message that can go out to this peer in one piece, where the transport itself has
  /// a limit; 0 = none.
  std::uint64_t max_message_bytes = 0;
};

enum class Flow : std::uint8_t {
  kContinue,
  kPause,  // no room: nothing of what was offered was taken (on_message) or see Taken; wait for
           // resume_input()
  kStop,   // closing: whatever else arrives is discarded
};
struct Taken {
  std::size_t bytes =
      0;  // of the chunk; the transport keeps the rest (only with kPause) and offers it again
  Flow flow = Flow::kContinue;
};

/// One message to send: its bytes are prefix, data, suffix. Text and suffix are of the flat
/// encoding only.
struct OutMessage {
  std::span<const std::byte> prefix;
  std::span<const std::byte> data;
  std::span<const std::byte> suffix = {};
  MessageType type = MessageType::kBinary;
  [[nodiscard]] std::size_t size() const { return prefix.size() + data.size() + suffix.size(); }
};

/// What goes into one gathered write: several small messages, or one large alone.
struct Batch {
  static constexpr std::size_t kMaxMessages = 32;
  static constexpr std::size_t kMaxBytes = 128ULL * 1024;
  std::array<OutMessage, kMaxMessages> messages;
  std::size_t count = 0;
  std::size_t bytes = 0;
  [[nodiscard]] std::span<const OutMessage> view() const { return {messages.data(), count}; }
};

}  // namespace simbridge::session
