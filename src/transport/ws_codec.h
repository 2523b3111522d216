#pragma once
// What: RFC 6455 frames: bytes of a connection to events, and messages to frame headers. Pure: no
// socket, no Asio, no clock. Extensions are not negotiated, so every reserved bit is an error.
// Owner: one connection has one Reader.   Threads: one at a time.
#include "transport/ws_mask.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace simbridge::transport::ws {

enum class Opcode : std::uint8_t {
  kContinuation = 0,
  kText = 1,
  kBinary = 2,
  kClose = 8,
  kPing = 9,
  kPong = 10,
};

/// Close codes that this side sends or names.
enum class CloseCode : std::uint16_t {
  kNormal = 1000,
  kGoingAway = 1001,
  kProtocolError = 1002,
  kUnacceptable = 1003,
  kNoneGiven = 1005,  // never on the wire
  kBadData = 1007,
  kPolicy = 1008,
  kTooBig = 1009,
  kInternal = 1011,
};

/// Which codes may stand in a close frame (RFC 6455 7.4 and the registry it founded).
[[nodiscard]] constexpr bool may_be_sent(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

/// Whose bytes are read: a server reads masked frames only, a client unmasked ones only.
enum class Role { kServer, kClient };

inline constexpr std::size_t kMaxHeaderBytes = 14;
inline constexpr std::size_t kMaxControlBytes = 125;
inline constexpr std::size_t kMaxReasonBytes = kMaxControlBytes - 2;

struct Event {
  enum class Kind {
    kNeedMore,      // all input is used up
    kMessageBegin,  // opcode, frame_bytes, final
    kPayload,       // bytes: unmasked, in place, in the caller's buffer; never empty
    kMessageEnd,
    kPing,    // bytes
    kPong,    // bytes
    kClose,   // code (kNoneGiven where the peer gave none), reason; nothing is read after it
    kFailed,  // code, reason: what to close with; nothing is read after it
  };

  Kind kind = Kind::kNeedMore;
  Opcode opcode = Opcode::kBinary;
  bool final = false;             // frame_bytes is the whole message
  std::uint64_t frame_bytes = 0;  // of the first frame of the message
  std::span<std::byte> bytes;     // control payload: valid until the next call
  std::uint16_t code = 0;
  std::string_view reason;  // valid until the next call
};

/// Reads one direction of one connection. It retains no input: what stands in the caller's buffer
/// is either handed back as an event or was a piece of a header or control frame, which is kept
/// inside.
class Reader {
 public:
  explicit Reader(Role role,
                  std::uint64_t max_message_bytes = std::numeric_limits<std::uint64_t>::max())
      : role_(role), max_message_bytes_(max_message_bytes) {}

  /// Takes bytes off the front of input until there is an event. Call until kNeedMore, kClose or
  /// kFailed.
  [[nodiscard]] Event next(std::span<std::byte>& input);

  /// Payload bytes of the current data frame that have not come yet. They may be read straight into
  /// their destination, which is then handed to direct().
  [[nodiscard]] std::uint64_t payload_left() const { return state_ == State::kPayload ? left_ : 0; }
  /// bytes: the next payload bytes of the frame, not empty, at most payload_left(). Gives kPayload
  /// with the same bytes unmasked in place, or kFailed.
  [[nodiscard]] Event direct(std::span<std::byte> bytes);

  /// Judged at each data frame's header from now on, summed over the fragments of a message.
  void set_max_message_bytes(std::uint64_t limit) { max_message_bytes_ = limit; }
  /// A message has begun and not ended.
  [[nodiscard]] bool inside_message() const { return in_message_; }

 private:
  enum class State : std::uint8_t { kHeader, kPayload, kControl, kDone, kFailed };

  [[nodiscard]] bool read_header(std::span<std::byte>& input);
  [[nodiscard]] std::size_t judge_header(std::span<const std::byte> header);
  [[nodiscard]] bool judge_start(std::uint8_t first);
  [[nodiscard]] bool judge_length(std::uint8_t length7, std::span<const std::byte> header);
  [[nodiscard]] bool begin_frame(std::span<const std::byte> header, Event& event);
  [[nodiscard]] Event take_payload(std::span<std::byte> bytes);
  [[nodiscard]] Event end_of_control();
  [[nodiscard]] Event end_of_close();
  std::size_t fail(CloseCode code, std::string reason);
  [[nodiscard]] Event failed() const;

  Role role_;
  State state_ = State::kHeader;
  bool in_message_ = false;
  bool text_ = false;
  bool final_ = false;              // of the current data frame
  Opcode control_ = Opcode::kPing;  // of the current control frame
  std::uint8_t header_filled_ = 0;
  std::uint8_t control_filled_ = 0;
  std::uint8_t control_size_ = 0;
  Utf8Checker utf8_;
  MaskKey mask_;
  CloseCode failure_ = CloseCode::kProtocolError;
  std::uint64_t left_ = 0;           // of the current data frame
  std::uint64_t message_bytes_ = 0;  // of the current message, by its headers so far
  std::uint64_t length_ = 0;         // of the frame whose header is being read
  std::uint64_t max_message_bytes_;
  std::array<std::byte, kMaxHeaderBytes> header_{};
  std::array<std::byte, kMaxControlBytes> control_bytes_{};
  std::string failure_reason_;
};

struct FrameHead {
  Opcode opcode = Opcode::kBinary;
  bool final = true;
  std::uint64_t payload_bytes = 0;
};

/// Writes the header of an unmasked (server's) frame; returns its size, 2, 4 or 10.
std::size_t write_head(std::span<std::byte, kMaxHeaderBytes> out, const FrameHead& head);
/// The same for a client's frame; the payload is then to be masked with the same key.
std::size_t write_masked_head(std::span<std::byte, kMaxHeaderBytes> out,
                              const FrameHead& head,
                              std::array<std::byte, 4> key);

/// A close frame's payload: code, and the reason cut to what a control frame holds, at a character.
std::size_t write_close_payload(std::span<std::byte, kMaxControlBytes> out,
                                std::uint16_t code,
                                std::string_view reason);

}  // namespace simbridge::transport::ws
