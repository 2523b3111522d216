#include "transport/grpc_inbound.h"

#include <fmt/core.h>

#include <cstring>
#include <memory>
#include <utility>

namespace simbridge::transport::rpc {
namespace {

using session::Flow;

// Up to here a message in several pieces is brought together: cheaper than a walk through the
// session for each.
constexpr std::size_t kFlatBytes = std::size_t{16} << 10U;

std::span<const std::byte> flat(const Received& message) {
  if (message.pieces() == 0) return {};
  if (message.pieces() == 1) return message.piece(0);
  thread_local const auto kBytes = std::make_unique_for_overwrite<std::byte[]>(kFlatBytes);
  std::byte* to = kBytes.get();
  for (std::size_t i = 0; i < message.pieces(); ++i) {
    const auto piece = message.piece(i);
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return {kBytes.get(), message.bytes()};
}

}  // namespace

Inbound::Took Inbound::take(Received message) {
  if (discarding_) return Took::kYes;
  // gRPC gives a message when all of it is there; here is the first place to judge its size.
  if (const std::uint64_t limit = session_.max_message_bytes(); message.bytes() > limit) {
    too_large_ = fmt::format("a message of {} bytes; {} are the limit (session.max_message_bytes)",
                             message.bytes(),
                             limit);
    discarding_ = true;
    return Took::kTooLarge;
  }
  message_ = std::move(message);
  piece_ = offset_ = 0;
  ended_ = false;
  in_pieces_ = message_.pieces() > 1 && message_.bytes() > kFlatBytes;
  if (in_pieces_) session_.begin_message(message_.bytes(), session::MessageType::kBinary);
  return go_on();
}

Inbound::Took Inbound::resume() {
  if (!paused_) return Took::kYes;
  paused_ = false;
  return go_on();
}

Inbound::Took Inbound::go_on() {
  if (!ended_) {
    Flow flow = Flow::kContinue;
    if (!in_pieces_) {
      flow = session_.on_message(flat(message_), session::MessageType::kBinary);
      if (flow == Flow::kPause) return pause();  // it was not taken: all of it again
    } else {
      if (!offer_pieces()) return pause();
      if (!discarding_) flow = session_.end_message();
    }
    if (flow == Flow::kStop) discarding_ = true;
    ended_ = true;
    message_ = {};
    if (flow == Flow::kPause) return pause();  // taken, but no more for now
  }
  return Took::kYes;
}

Inbound::Took Inbound::pause() {
  paused_ = true;
  return Took::kPaused;
}

/// False: paused in between.
bool Inbound::offer_pieces() {
  for (; piece_ < message_.pieces(); ++piece_, offset_ = 0) {
    const auto rest = message_.piece(piece_).subspan(offset_);
    const session::Taken taken = session_.on_chunk(rest);
    if (taken.flow == Flow::kStop) {
      discarding_ = true;
      return true;
    }
    if (taken.flow == Flow::kPause) {
      offset_ += taken.bytes;
      return false;
    }
  }
  return true;
}

}  // namespace simbridge::transport::rpc
