#pragma once
// What: encoded control messages that wait for the transport, in order. Bytes only, never
// references to frames. Owner: the session.   Threads: its strand.
#include "simbridge/session/peer.h"
#include "simbridge/wire/flat.h"
#include "simbridge/wire/messages.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

namespace simbridge::session {

/// A control message as a peer of this encoding reads it, appended to out.
inline void encode_for(Encoding encoding, const wire::ServerMessage& message, std::string& out) {
  if (encoding == Encoding::kFlat)
    wire::encode_json(message, out);
  else
    wire::encode(message, out);
}
inline MessageType control_type(Encoding encoding) {
  return encoding == Encoding::kFlat ? MessageType::kText : MessageType::kBinary;
}

class Outbox {
 public:
  explicit Outbox(Encoding encoding) : encoding_(encoding) {}

  void push(const wire::ServerMessage& message) {
    const std::size_t before = waiting_.size();
    encode_for(encoding_, message, waiting_);
    lengths_.push_back(static_cast<std::uint32_t>(waiting_.size() - before));
  }
  [[nodiscard]] bool empty() const { return lengths_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return waiting_.size() + (sending_.size() - sent_); }

  /// Adds as many messages as fit. The pieces stay valid until the next take(), which comes after
  /// batch_done().
  void take(Batch& batch) {
    if (lengths_.empty()) return;
    if (in_sending_ == 0) {  // all that was being sent is out: turn the page
      sending_.clear();
      sent_ = 0;
      sending_.swap(waiting_);
      in_sending_ = lengths_.size();
    }
    const auto* base = reinterpret_cast<const std::byte*>(sending_.data());
    while (in_sending_ > 0 && batch.count < Batch::kMaxMessages) {
      const std::size_t length = lengths_.front();
      if (batch.count > 0 && batch.bytes + length > Batch::kMaxBytes) return;
      batch.messages[batch.count++] =
          OutMessage{.prefix = {base + sent_, length}, .data = {}, .type = control_type(encoding_)};
      batch.bytes += length;
      sent_ += length;
      lengths_.pop_front();
      --in_sending_;
    }
  }
  /// After the last piece went out: an idle session keeps no buffers.
  void release_if_idle() {
    if (!lengths_.empty()) return;
    constexpr std::size_t kKeep = 512;
    sending_.clear();
    sent_ = 0;
    if (sending_.capacity() > kKeep) std::string().swap(sending_);
    if (waiting_.capacity() > kKeep) std::string().swap(waiting_);
    lengths_.shrink_to_fit();
  }

 private:
  Encoding encoding_;
  std::string waiting_;
  std::string sending_;
  std::size_t sent_ = 0;
  std::size_t in_sending_ = 0;  // of lengths_, those whose bytes are in sending_
  std::deque<std::uint32_t> lengths_;
};

}  // namespace simbridge::session
