#pragma once
// What: messages that arrive in pieces, and the frame that is being received in them.
// Owner: the session.   Threads: its strand.
#include "simbridge/base/clock.h"
#include "simbridge/frame/ring.h"
#include "simbridge/session/peer.h"
#include "simbridge/wire/frame_head.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace simbridge::session {

/// What is to become of a frame. Until its last byte is here it is only a plan: a frame that is cut
/// off was never received.
struct Outcome {
  enum class What : std::uint8_t {
    kOpen,       // judged and fine, or not judged yet
    kDuplicate,  // dropped, acknowledged
    kReject,     // refused with code and detail; retry = go back n
  } what = What::kOpen;
  wire::RejectCode code = wire::RejectCode::kUnspecified;
  std::string detail;
  bool retry = false;
};

inline Outcome reject(wire::RejectCode code, std::string detail, bool retry = false) {
  return Outcome{Outcome::What::kReject, code, std::move(detail), retry};
}

/// Of a control message; Advertise may have its schema on top (protocol.md §2.7).
inline constexpr std::uint64_t kControlBytes = 64ULL * 1024;

/// A frame between its first and its last byte. Used for a message of its own, and for a transfer
/// in parts.
struct FrameInProgress {
  enum class State : std::uint8_t {
    kHead,     // collecting the head, until it can be judged
    kRoom,     // judged, waits for memory
    kData,     // data goes into the reservation
    kWhole,    // not the canonical form: collected whole, then parsed
    kDiscard,  // the outcome is known, the rest is only counted
  } state = State::kHead;

  std::vector<std::byte> collected;  // the head, or (kWhole, small) everything
  wire::FrameHead head;              // views point into collected, or into whole.data()
  bool have_head = false;
  frame::Reservation room;   // kData: the frame's place; kWhole: a large message's temporary one
  std::uint64_t filled = 0;  // of the reservation's data
  std::optional<std::uint64_t>
      total;  // of the bytes that make the frame, with head, where it is known
  std::uint64_t arrived = 0;
  std::vector<std::byte> tail;  // behind the data, where total was not known: no longer canonical
  Outcome outcome;
  Monotonic slow_check{};  // the fill rate is looked at then
  std::uint64_t slow_filled = 0;
  std::uint32_t warnings = 0;

  void reset() {
    state = State::kHead;
    std::vector<std::byte>().swap(collected);
    head.clear();
    have_head = false;
    room.reset();
    filled = arrived = slow_filled = 0;
    total.reset();
    std::vector<std::byte>().swap(tail);
    outcome = Outcome{};
    warnings = 0;
  }
};

/// A message that does not lie in one piece of memory.
struct MessageInPieces {
  enum class Kind : std::uint8_t {
    kNone,
    kUnknown,  // no byte yet
    kFrame,
    kPart,     // a FramePart: its data streams into the transfer
    kControl,  // collected whole in frame.collected
    kRefused,  // a control message above its limit: counted, answered at its end
  } kind = Kind::kNone;
  MessageType type = MessageType::kBinary;
  std::optional<std::uint64_t> total;
  FrameInProgress frame;
  std::uint64_t part_left = 0;  // kPart: data bytes still to come
  wire::Part part;              // kPart
};

/// The one transfer in parts of this direction.
struct Transfer {
  std::uint64_t id = 0;  // of the newest, whatever became of it
  bool running = false;
  std::uint32_t next_index = 0, count = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  Monotonic drop_at{};
  bool answered = false;   // it was refused: what still comes of it is only counted
  bool part_open = false;  // a part that lies in one piece waits for memory: it is offered again
  std::size_t part_taken = 0;  // of its data
  FrameInProgress frame;
};

}  // namespace simbridge::session
