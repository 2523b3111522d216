#pragma once
// What: a named stream of frames of one producer at a time: its ring, its books, its numbers.
// Owner: the hub (by name); sessions that produce or read it hold shared_ptr.
// Threads: control fields under the hub's mutex; numbers inside the gate; books any.
#include "session/token_gate.h"
#include "simbridge/frame/ring.h"
#include "simbridge/wire/messages.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace simbridge::session {

/// Numbers at the end of an earlier life that never became frames: no frame came to tell of them.
struct PastTail {
  std::uint64_t epoch = 0;
  std::uint64_t last_sequence = 0;  // the runs end here
  std::array<frame::UnpublishedRun, 3> runs{};
};

/// What Advertise said, as passed on in ChannelInfo. Under the hub's mutex.
struct ChannelFace {
  std::string frame_id, schema, encoding, schema_data, schema_encoding;
  wire::Policy policy = wire::Policy::kDropOldest;
  bool latched = false;
  bool live = false;
  std::uint64_t holder = 0;  // session
  std::string holder_key;    // its peer_key; never shown
  std::uint64_t token = 0;
  std::uint64_t version = 0;  // place in the hub's log of changes
  std::vector<std::uint64_t>
      past_epochs;                   // oldest first, at most kPastEpochs, without the current one
  std::vector<PastTail> past_tails;  // of past_epochs, those that have one
};
inline constexpr std::size_t kPastEpochs = 16;

/// received = published + duplicate + rejected, when no frame is half counted.
struct ChannelBooks {
  std::atomic<std::uint64_t> received{0}, published{0}, duplicate{0}, rejected{0};
};

/// The producing side's numbers. Inside the gate.
struct ChannelNumbers {
  std::uint64_t epoch = 0;
  std::uint64_t last_sequence = 0;  // acknowledged: in the ring, finally refused, or duplicate
  bool seen = false;                // a number of this epoch has been used in this boot
  std::uint64_t retry_from = 0;     // go-back-n: until this number comes again; 0 = none
  wire::RejectCode retry_code = wire::RejectCode::kUnspecified;
  std::array<frame::UnpublishedRun, 3> pending{};  // since the last published frame
  std::uint32_t warned = 0;                        // wire::CloudWarning bits told already

  /// Numbers that will never be frames, told to consumers with the next frame. When reasons
  /// alternate more often than there is room for, the last run takes the rest under its own reason.
  void add_unpublished(frame::Unpublished why, std::uint64_t count);
  /// Takes the numbers up to sequence: what lies between is the producer's own gap.
  void use_number(std::uint64_t sequence, bool published);
};

class Channel {
 public:
  Channel(std::uint32_t number, std::string channel_name, std::shared_ptr<frame::FrameRing> frames)
      : id(number), name(std::move(channel_name)), ring(std::move(frames)) {}

  const std::uint32_t id;
  const std::string name;
  const std::shared_ptr<frame::FrameRing> ring;

  std::uint64_t born = 0;  // its first place in the hub's log of changes; set before it is listed
  ChannelFace face;        // hub's mutex
  TokenGate gate;
  ChannelNumbers numbers;  // gate
  ChannelBooks books;

  // relaxed: a hint for the sweep, and a policy that a reader may see one frame late.
  std::atomic<std::int64_t> last_used_ns{
      0};  // monotonic; producing, reading or losing the producer
  std::atomic<bool> backpressure{false};
  std::atomic<bool> removed{false};  // out of the hub; readers finish
};

}  // namespace simbridge::session
