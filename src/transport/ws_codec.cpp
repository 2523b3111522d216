#include "transport/ws_codec.h"

#include "simbridge/base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace simbridge::transport::ws {
namespace {

constexpr std::uint8_t kFinalBit = 0x80;
constexpr std::uint8_t kReservedBits = 0x70;
constexpr std::uint8_t kOpcodeBits = 0x0F;
constexpr std::uint8_t kControlBit = 0x08;
constexpr std::uint8_t kMaskedBit = 0x80;
constexpr std::uint8_t kLengthBits = 0x7F;
constexpr std::uint8_t kLength16 = 126;  // the length stands in the next two bytes
constexpr std::uint8_t kLength64 = 127;  // the length stands in the next eight bytes
constexpr std::size_t kKeyBytes = 4;

std::uint8_t number(std::byte byte) {
  return std::to_integer<std::uint8_t>(byte);
}

std::uint64_t big_endian(std::span<const std::byte> bytes) {
  std::uint64_t n = 0;
  for (const std::byte byte : bytes) n = (n << 8U) | number(byte);
  return n;
}

void put_big_endian(std::span<std::byte> out, std::uint64_t n) {
  for (std::size_t i = out.size(); i-- > 0; n >>= 8U) out[i] = static_cast<std::byte>(n & 0xFFU);
}

constexpr std::size_t length_bytes(std::uint8_t length7) {
  if (length7 == kLength16) return 2;
  if (length7 == kLength64) return 8;
  return 0;
}

bool known(std::uint8_t opcode) {
  return opcode <= 2 || (opcode >= 8 && opcode <= 10);
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t write_head_up_to_key(std::span<std::byte, kMaxHeaderBytes> out,
                                 const FrameHead& head,
                                 std::uint8_t masked_bit) {
  const std::uint8_t final_bit = head.final ? kFinalBit : 0;
  out[0] = static_cast<std::byte>(final_bit | static_cast<std::uint8_t>(head.opcode));
  if (head.payload_bytes < kLength16) {
    out[1] = static_cast<std::byte>(masked_bit | static_cast<std::uint8_t>(head.payload_bytes));
    return 2;
  }
  const std::uint8_t length7 = head.payload_bytes <= 0xFFFF ? kLength16 : kLength64;
  out[1] = static_cast<std::byte>(masked_bit | length7);
  put_big_endian(out.subspan(2, length_bytes(length7)), head.payload_bytes);
  return 2 + length_bytes(length7);
}

}  // namespace

// ---- headers in
// ----------------------------------------------------------------------------------------

bool Reader::judge_start(std::uint8_t first) {
  const std::uint8_t opcode = first & kOpcodeBits;
  if ((first & kReservedBits) != 0) {
    fail(CloseCode::kProtocolError, "a reserved bit is set, and no extension was agreed");
  } else if (!known(opcode)) {
    fail(CloseCode::kProtocolError, fmt::format("opcode {} is reserved", opcode));
  } else if ((opcode & kControlBit) != 0) {
    if ((first & kFinalBit) == 0) fail(CloseCode::kProtocolError, "a control frame is fragmented");
  } else if (opcode == 0 && !in_message_) {
    fail(CloseCode::kProtocolError, "a continuation frame without a message to continue");
  } else if (opcode != 0 && in_message_) {
    fail(CloseCode::kProtocolError, "a new message before the end of a fragmented one");
  }
  return state_ != State::kFailed;
}

bool Reader::judge_length(std::uint8_t length7, std::span<const std::byte> header) {
  length_ = length7 < kLength16 ? length7 : big_endian(header.subspan(2, length_bytes(length7)));
  if (length_ >> 63U != 0) {
    fail(CloseCode::kProtocolError, "the highest bit of a 64-bit length is set");
  } else if ((length7 == kLength16 && length_ < kLength16) ||
             (length7 == kLength64 && length_ <= 0xFFFF)) {
    fail(CloseCode::kProtocolError, "a length is not in its shortest form");
  } else if ((number(header[0]) & kControlBit) == 0 &&
             (message_bytes_ > max_message_bytes_ ||
              length_ > max_message_bytes_ - message_bytes_)) {
    fail(CloseCode::kTooBig,
         fmt::format("a message of at least {} bytes is above the limit of {} bytes",
                     message_bytes_ + length_,
                     max_message_bytes_));
  }
  return state_ != State::kFailed;
}

// Judges as much of the header as is there, so that what is wrong is told at the first byte that
// shows it. Returns how many bytes the whole header has, as far as is known; 0 after a failure.
std::size_t Reader::judge_header(std::span<const std::byte> header) {
  if (!judge_start(number(header[0]))) return 0;
  if (header.size() < 2) return 2;
  const std::uint8_t second = number(header[1]);
  const std::uint8_t length7 = second & kLengthBits;
  const bool masked = (second & kMaskedBit) != 0;
  if (masked != (role_ == Role::kServer)) {
    return fail(CloseCode::kProtocolError,
                masked ? "a frame from a server is masked" : "a frame from a client is not masked");
  }
  if ((number(header[0]) & kControlBit) != 0 && length7 > kMaxControlBytes) {
    return fail(CloseCode::kProtocolError, "a control frame is longer than 125 bytes");
  }
  const std::size_t until_key = 2 + length_bytes(length7);
  if (header.size() >= until_key && !judge_length(length7, header)) return 0;
  return until_key + (masked ? kKeyBytes : 0);
}

// True: header_ holds a whole header that was found good. False: more is needed, or it failed.
bool Reader::read_header(std::span<std::byte>& input) {
  while (!input.empty()) {
    const std::size_t had = header_filled_;
    const std::size_t takes = std::min(input.size(), header_.size() - had);
    std::memcpy(header_.data() + had, input.data(), takes);
    const std::size_t size = judge_header(std::span(header_).first(had + takes));
    if (size == 0) return false;
    if (size <= had + takes) {  // what was copied beyond the header stays in input
      input = input.subspan(size - had);
      header_filled_ = static_cast<std::uint8_t>(size);
      return true;
    }
    input = input.subspan(takes);
    header_filled_ = static_cast<std::uint8_t>(had + takes);
  }
  return false;
}

// True: there is an event to give (the begin of a message).
bool Reader::begin_frame(std::span<const std::byte> header, Event& event) {
  const std::uint8_t first = number(header[0]);
  const auto opcode = static_cast<Opcode>(first & kOpcodeBits);
  mask_ = MaskKey();
  if (role_ == Role::kServer) {
    std::array<std::byte, kKeyBytes> key{};
    std::memcpy(key.data(), header.last(kKeyBytes).data(), kKeyBytes);
    mask_ = MaskKey(key);
  }
  if ((first & kControlBit) != 0) {
    control_ = opcode;
    control_filled_ = 0;
    control_size_ = static_cast<std::uint8_t>(length_);
    state_ = State::kControl;
    return false;
  }
  final_ = (first & kFinalBit) != 0;
  left_ = length_;
  message_bytes_ += length_;
  state_ = State::kPayload;
  if (opcode == Opcode::kContinuation) return false;
  in_message_ = true;
  text_ = opcode == Opcode::kText;
  utf8_.reset();
  event = Event{.kind = Event::Kind::kMessageBegin,
                .opcode = opcode,
                .final = final_,
                .frame_bytes = length_};
  return true;
}

// ---- events
// --------------------------------------------------------------------------------------------

Event Reader::next(std::span<std::byte>& input) {
  for (;;) {
    switch (state_) {
      case State::kHeader: {
        if (!read_header(input)) {
          if (state_ == State::kFailed) continue;
          return Event{};
        }
        const std::size_t size = std::exchange(header_filled_, std::uint8_t{0});
        Event event;
        if (begin_frame(std::span<const std::byte>(header_).first(size), event)) return event;
        break;
      }
      case State::kPayload: {
        if (left_ != 0) {
          if (input.empty()) return Event{};
          const auto bytes = input.first(std::min<std::uint64_t>(left_, input.size()));
          input = input.subspan(bytes.size());
          return take_payload(bytes);
        }
        state_ = State::kHeader;
        if (!final_) break;
        if (text_ && !utf8_.complete()) {
          fail(CloseCode::kBadData, "a text ends inside a character");
          break;
        }
        in_message_ = false;
        message_bytes_ = 0;
        return Event{.kind = Event::Kind::kMessageEnd};
      }
      case State::kControl: {
        const auto bytes =
            input.first(std::min<std::size_t>(control_size_ - control_filled_, input.size()));
        std::copy(bytes.begin(), bytes.end(), control_bytes_.begin() + control_filled_);
        control_filled_ = static_cast<std::uint8_t>(control_filled_ + bytes.size());
        input = input.subspan(bytes.size());
        if (control_filled_ != control_size_) return Event{};
        return end_of_control();
      }
      case State::kDone:
        input = {};
        return Event{};
      case State::kFailed:
        input = {};
        return failed();
    }
  }
}

Event Reader::direct(std::span<std::byte> bytes) {
  const bool fits = state_ == State::kPayload && !bytes.empty() && bytes.size() <= left_;
  SB_CHECK(fits, "bytes read directly belong to the payload of the current frame");
  return take_payload(bytes);
}

Event Reader::take_payload(std::span<std::byte> bytes) {
  if (role_ == Role::kServer) mask_.apply(bytes);
  left_ -= bytes.size();
  if (text_ && !utf8_.feed(bytes)) {
    fail(CloseCode::kBadData, "a text is not valid UTF-8");
    return failed();
  }
  return Event{.kind = Event::Kind::kPayload, .bytes = bytes};
}

Event Reader::end_of_control() {
  const auto bytes = std::span(control_bytes_).first(control_size_);
  if (role_ == Role::kServer) mask_.apply(bytes);
  // Inside a fragmented message too the next thing is a header: control frames come between frames
  // only.
  state_ = State::kHeader;
  if (control_ == Opcode::kClose) return end_of_close();
  return Event{.kind = control_ == Opcode::kPing ? Event::Kind::kPing : Event::Kind::kPong,
               .bytes = bytes};
}

Event Reader::end_of_close() {
  const auto payload = std::span<const std::byte>(control_bytes_).first(control_size_);
  Event event{.kind = Event::Kind::kClose,
              .code = static_cast<std::uint16_t>(CloseCode::kNoneGiven)};
  state_ = State::kDone;
  if (payload.empty()) return event;
  if (payload.size() == 1) {
    fail(CloseCode::kProtocolError, "a close frame has half a code");
    return failed();
  }
  event.code = static_cast<std::uint16_t>(big_endian(payload.first(2)));
  if (!may_be_sent(event.code)) {
    fail(CloseCode::kProtocolError, fmt::format("close code {} may not be sent", event.code));
    return failed();
  }
  if (!valid_utf8(payload.subspan(2))) {
    fail(CloseCode::kBadData, "the reason of a close is not valid UTF-8");
    return failed();
  }
  event.reason = text(payload.subspan(2));
  return event;
}

std::size_t Reader::fail(CloseCode code, std::string reason) {
  state_ = State::kFailed;
  failure_ = code;
  failure_reason_ = std::move(reason);
  return 0;
}

Event Reader::failed() const {
  return Event{.kind = Event::Kind::kFailed,
               .code = static_cast<std::uint16_t>(failure_),
               .reason = failure_reason_};
}

// ---- headers out
// ---------------------------------------------------------------------------------------

std::size_t write_head(std::span<std::byte, kMaxHeaderBytes> out, const FrameHead& head) {
  return write_head_up_to_key(out, head, 0);
}

std::size_t write_masked_head(std::span<std::byte, kMaxHeaderBytes> out,
                              const FrameHead& head,
                              std::array<std::byte, 4> key) {
  const std::size_t size = write_head_up_to_key(out, head, kMaskedBit);
  std::copy(key.begin(), key.end(), out.begin() + static_cast<std::ptrdiff_t>(size));
  return size + key.size();
}

std::size_t write_close_payload(std::span<std::byte, kMaxControlBytes> out,
                                std::uint16_t code,
                                std::string_view reason) {
  if (code == static_cast<std::uint16_t>(CloseCode::kNoneGiven)) return 0;
  std::size_t size = std::min(reason.size(), kMaxReasonBytes);
  if (size < reason.size()) {  // never cut inside a character: continuation bytes are 10xxxxxx
    while (size > 0 && (static_cast<unsigned char>(reason[size]) & 0xC0U) == 0x80U) --size;
  }
  put_big_endian(out.first(2), code);
  std::transform(reason.begin(),
                 reason.begin() + static_cast<std::ptrdiff_t>(size),
                 out.begin() + 2,
                 [](char c) { return static_cast<std::byte>(c); });
  return 2 + size;
}

}  // namespace simbridge::transport::ws
