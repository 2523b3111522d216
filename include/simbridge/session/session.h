#pragma once
// What: one peer's conversation: the one protocol state machine, used by every transport.
// Owner: the transport's connection holds the shared_ptr; the hub a weak one.
// Threads: the session's strand, except where said.
#include "simbridge/base/ids.h"
#include "simbridge/session/peer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace simbridge::session {

class Hub;

class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] virtual SessionId id() const = 0;

  // ---- in: a message either whole, or in pieces
  /// A whole message, in one piece of memory. Text comes from transports that have it, to sessions
  /// of the flat encoding only. kPause: it was not taken, offer it again after
  /// resume_input().
  virtual Flow on_message(std::span<const std::byte> message, MessageType type) = 0;
  /// The start of a message that is not here in full. total_bytes where the transport knows it (an
  /// unfragmented WebSocket frame); the transport has already judged it against
  /// max_message_bytes().
  virtual void begin_message(std::optional<std::uint64_t> total_bytes, MessageType type) = 0;
  /// The message's next bytes.
  virtual Taken on_chunk(std::span<const std::byte> chunk) = 0;
  /// Arena memory for the message's next bytes, at most as many as it still lacks; empty: use
  /// on_chunk(). Valid until the next call of this session. Ask again after each on_chunk() and
  /// direct_filled().
  virtual std::span<std::byte> direct_buffer() = 0;
  /// So many bytes of direct_buffer() were filled (and, for WebSocket, unmasked).
  virtual void direct_filled(std::size_t bytes) = 0;
  virtual Flow end_message() = 0;
  /// The largest message accepted now; beyond it the transport closes with kTooLarge, limit and
  /// size in the text.
  [[nodiscard]] virtual std::uint64_t max_message_bytes() const = 0;

  // ---- out: pulled by the transport when it can write
  /// Fills the batch with what goes next, control messages first. false: nothing now;
  /// output_ready() will tell. The pieces stay valid until batch_done(). One batch at a time.
  virtual bool next_batch(Batch& batch) = 0;
  /// Bytes of the batch moved into the kernel: keeps a slow but living peer from being taken for a
  /// stalled one.
  virtual void batch_progress(std::size_t bytes) = 0;
  /// The batch was handed to the kernel in full, or its rest was copied by the transport.
  virtual void batch_done() = 0;
  /// Before on_closed(), where somebody may still read the batch that was lent: the references to
  /// its frames, to be dropped, in any thread, when nobody does.
  virtual std::shared_ptr<void> take_references() { return nullptr; }

  // ---- around
  /// After the waker given to Hub::open() fired: look at rings, tickets, drain.
  virtual void on_wake() = 0;
  virtual void on_timer() = 0;
  /// The peer said that it will send no more (gRPC half-close) but still reads.
  virtual void on_half_close() = 0;
  /// The connection is gone, for this reason; last call from the transport, exactly once. Frees
  /// everything. clean: the peer closed properly (its channels end cleanly), else it broke off.
  virtual void on_closed(const CloseReason& reason, bool clean) = 0;

 protected:
  Session() = default;
};

}  // namespace simbridge::session
