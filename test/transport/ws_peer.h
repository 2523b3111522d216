#pragma once
// What: the other side of the codec, written apart from it: builds frames byte by byte, right or
// wrong, and records what a Reader made of a stream that was cut into pieces.   Threads: values,
// any.
#include "transport/ws_codec.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace simbridge::test {

using transport::ws::Event;
using transport::ws::Reader;
using transport::ws::Role;

/// A frame as bits, so that any of them can be wrong.
struct RawFrame {
  unsigned first = 0x82;     // FIN, RSV1-3, opcode
  std::string payload = {};  // as the application sees it
  bool masked = true;
  std::array<std::uint8_t, 4> key = {0x37, 0xFA, 0x21, 0x3D};
  int length_form = 0;  // 0 the shortest, else 7, 16 or 64
  bool lie = false;     // declared instead of the payload's size
  std::uint64_t declared = 0;
};

inline std::string bytes_of(const RawFrame& frame) {
  const std::uint64_t length = frame.lie ? frame.declared : frame.payload.size();
  int form = frame.length_form;
  if (form == 0) form = length < 126 ? 7 : length < 65536 ? 16 : 64;
  const unsigned mask_bit = frame.masked ? 0x80 : 0;
  std::string out;
  out += static_cast<char>(frame.first);
  if (form == 7) {
    out += static_cast<char>(mask_bit | static_cast<unsigned>(length));
  } else {
    out += static_cast<char>(mask_bit | (form == 16 ? 126U : 127U));
    for (int shift = form - 8; shift >= 0; shift -= 8) {
      out += static_cast<char>((length >> static_cast<unsigned>(shift)) & 0xFFU);
    }
  }
  if (!frame.masked) return out + frame.payload;
  for (const auto byte : frame.key) out += static_cast<char>(byte);
  for (std::size_t i = 0; i < frame.payload.size(); ++i) {
    out += static_cast<char>(static_cast<unsigned char>(frame.payload[i]) ^ frame.key[i % 4]);
  }
  return out;
}

inline std::string close_payload(unsigned code, std::string_view reason = {}) {
  std::string out;
  out += static_cast<char>(code >> 8U);
  out += static_cast<char>(code & 0xFFU);
  return out + std::string(reason);
}

/// What a stream came to: whole messages and control frames in order, as "binary:…", "ping:…", and
/// how it ended.
struct Transcript {
  std::vector<std::string> events = {};
  unsigned code = 0;  // of a close that came, or of the failure; 0 while it goes on
  bool failed = false;
  std::string reason = {};
  bool inside = false;  // a message had begun and not ended

  friend bool operator==(const Transcript&, const Transcript&) = default;
};

struct Feeding {
  std::function<std::size_t(std::size_t left)> piece;  // how many bytes the next read gives, from 1
  std::size_t direct_from = SIZE_MAX;  // payload left from which it is read directly
};

inline Transcript read_all(Reader& reader, std::string_view stream, const Feeding& feeding) {
  Transcript result;
  std::string message;
  std::string kind;
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const auto record = [&](const Event& event) {
    switch (event.kind) {
      case Event::Kind::kNeedMore:
        return false;
      case Event::Kind::kMessageBegin:
        message.clear();
        kind = event.opcode == transport::ws::Opcode::kText ? "text:" : "binary:";
        return true;
      case Event::Kind::kPayload:
        message += text(event.bytes);
        return true;
      case Event::Kind::kMessageEnd:
        result.events.push_back(kind + message);
        return true;
      case Event::Kind::kPing:
        result.events.push_back("ping:" + text(event.bytes));
        return true;
      case Event::Kind::kPong:
        result.events.push_back("pong:" + text(event.bytes));
        return true;
      case Event::Kind::kClose:
      case Event::Kind::kFailed:
        result.failed = event.kind == Event::Kind::kFailed;
        result.code = event.code;
        result.reason = std::string(event.reason);
        return false;
    }
    return false;
  };
  std::size_t at = 0;
  while (at < stream.size() && result.code == 0) {
    const std::size_t left = stream.size() - at;
    std::size_t piece = std::clamp<std::size_t>(feeding.piece(left), 1, left);
    // As the transport reads: [destination, staging] in one call.
    std::vector<std::byte> destination;
    if (reader.payload_left() >= feeding.direct_from && reader.payload_left() > 0) {
      destination.resize(std::min<std::uint64_t>(reader.payload_left(), piece));
      std::memcpy(destination.data(), stream.data() + at, destination.size());
      if (!record(reader.direct(destination))) break;
    }
    std::vector<std::byte> staging(piece - destination.size());
    const auto rest =
        std::as_bytes(std::span(stream.substr(at + destination.size(), staging.size())));
    std::ranges::copy(rest, staging.begin());
    std::span<std::byte> input = staging;
    while (record(reader.next(input))) {
    }
    at += piece;
  }
  result.inside = reader.inside_message();
  return result;
}

inline Transcript read_whole(std::string_view stream,
                             std::uint64_t limit = 1U << 20U,
                             Role role = Role::kServer) {
  Reader reader(role, limit);
  return read_all(reader, stream, {.piece = [](std::size_t left) {
                    return left;
                  }});
}

}  // namespace simbridge::test
