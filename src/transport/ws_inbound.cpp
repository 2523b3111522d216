#include "transport/ws_inbound.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace simbridge::transport::ws {

using session::Flow;

void Inbound::feed(std::span<std::byte> input) {
  reader_.set_max_message_bytes(session_.max_message_bytes());
  while (!paused_) {
    const Event event = reader_.next(input);
    switch (event.kind) {
      case Event::Kind::kNeedMore:
        return;
      case Event::Kind::kMessageBegin:
        begin(event, input.size());
        break;
      case Event::Kind::kPayload:
        payload(event.bytes, input);
        break;
      case Event::Kind::kMessageEnd:
        end(input);
        break;
      case Event::Kind::kPing:
        control_.on_ping(event.bytes);
        break;
      case Event::Kind::kPong:  // its bytes counted as life when they were read
        break;
      case Event::Kind::kClose:
        control_.on_peer_close(event.code, event.reason);
        return;
      case Event::Kind::kFailed:
        discarding_ = true;
        control_.on_failure(static_cast<CloseCode>(event.code), event.reason);
        return;
    }
  }
  // Paused by this very input: hold() has kept the rest.
}

void Inbound::begin(const Event& event, std::size_t at_hand) {
  mode_ = Mode::kDiscard;
  if (discarding_) return;
  const bool is_text = event.opcode == Opcode::kText;
  if (is_text && !takes_text_) {
    discarding_ = true;
    control_.on_failure(CloseCode::kUnacceptable,
                        "a text message, where this subprotocol has binary messages only");
    return;
  }
  type_ = is_text ? session::MessageType::kText : session::MessageType::kBinary;
  whole_ = {};
  if (event.final && event.frame_bytes <= at_hand) {
    mode_ = Mode::kWhole;
    expect_large_ = event.frame_bytes >= kDirectFrom;
    return;
  }
  mode_ = Mode::kPieces;
  session_.begin_message(event.final ? std::optional(event.frame_bytes) : std::nullopt, type_);
}

void Inbound::payload(std::span<std::byte> bytes, std::span<std::byte> rest) {
  if (mode_ == Mode::kDiscard || discarding_) return;
  if (mode_ == Mode::kWhole) {
    whole_ = bytes;
    return;
  }
  const session::Taken taken = session_.on_chunk(bytes);
  if (taken.flow == Flow::kPause) {
    hold(bytes.subspan(taken.bytes), rest);
  } else {
    obey(taken.flow);
  }
}

void Inbound::end(std::span<std::byte> rest) {
  control_.on_message_read();
  if (mode_ == Mode::kDiscard || discarding_) return;
  if (mode_ == Mode::kPieces) {
    const Flow flow = session_.end_message();
    if (flow == Flow::kPause) hold({}, rest);
    obey(flow);
    return;
  }
  const Flow flow = session_.on_message(whole_, type_);
  if (flow == Flow::kPause) hold(whole_, rest);
  obey(flow);
}

void Inbound::obey(Flow flow) {
  if (flow == Flow::kStop) discarding_ = true;
}

void Inbound::hold(std::span<const std::byte> offered, std::span<const std::byte> rest) {
  paused_ = true;
  offered_ = offered.size();
  held_.reserve(offered.size() + rest.size());
  held_.assign(offered.begin(), offered.end());
  held_.insert(held_.end(), rest.begin(), rest.end());
}

// True: it was taken.
bool Inbound::offer_again(std::span<const std::byte> offered) {
  if (discarding_ || mode_ == Mode::kDiscard) return true;
  if (mode_ == Mode::kWhole) {
    const Flow flow = session_.on_message(offered, type_);
    obey(flow);
    return flow != Flow::kPause;
  }
  if (offered.empty()) return true;  // the pause came after the message's last byte
  const session::Taken taken = session_.on_chunk(offered);
  obey(taken.flow);
  if (taken.flow != Flow::kPause) return true;
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(taken.bytes));
  offered_ -= taken.bytes;
  return false;
}

void Inbound::resume() {
  if (!paused_ || !offer_again(std::span(held_).first(offered_))) return;
  paused_ = false;
  std::vector<std::byte> held = std::exchange(held_, {});
  feed(std::span(held).subspan(offered_));
}

std::span<std::byte> Inbound::direct() {
  if (mode_ != Mode::kPieces || discarding_ || paused_ || reader_.payload_left() < kDirectFrom) {
    return {};
  }
  expect_large_ = true;
  const auto buffer = session_.direct_buffer();
  return buffer.first(std::min<std::uint64_t>(buffer.size(), reader_.payload_left()));
}

void Inbound::direct_filled(std::span<std::byte> bytes) {
  const Event event = reader_.direct(bytes);
  if (event.kind == Event::Kind::kFailed) {
    discarding_ = true;
    control_.on_failure(static_cast<CloseCode>(event.code), event.reason);
    return;
  }
  session_.direct_filled(bytes.size());
  // With the frame's last byte the message may be whole, whether or not anything came behind it.
  if (reader_.payload_left() == 0) feed({});
}

}  // namespace simbridge::transport::ws
