#pragma once
// What: one immutable message of a channel, as it lies in the arena, and the counted reference to
// it. Owner: the ring holds one reference, readers hold others; the FrameStore owns the memory and
// outlives all. Threads: a FrameRef is a value of one thread; copies may go to others.
#include "simbridge/base/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace simbridge::frame {

/// Why a frame left the ring before a reader took it.
enum class EvictReason : std::uint8_t {
  kNone = 0,
  kEvicted,  // pushed out by newer frames, of this channel or another
  kShrink,   // memory was taken away
};

/// Numbers between the previous frame of the epoch and this one which never became frames.
enum class Unpublished : std::uint8_t { kNone = 0, kSource, kRejected };
struct UnpublishedRun {
  std::uint64_t count = 0;
  Unpublished why = Unpublished::kNone;
};

/// The plain fields of a frame: written once by the producer before publication, constant
/// afterwards.
struct FrameInfo {
  std::uint64_t position = 0;  // dense place in the ring; set by publish()
  std::uint64_t epoch = 0;     // set by publish() from the producer's life
  std::uint64_t sequence = 0;
  Monotonic arrival;             // here
  nanoseconds age_at_arrival{};  // what it had spent in earlier bridges, never below 0
  std::uint64_t points = 0;      // of a cloud or depth image
  std::uint8_t kind = 0;         // wire::PayloadKind
  /// The runs are contiguous and end at sequence - 1, in order; unused ones have count 0.
  std::array<UnpublishedRun, 3> before{};
};

struct Block;  // private: a counted, type-stable book entry

/// A counted reference: the bytes stay valid and unchanged while it lives, evicted or not.
// The assignment takes its argument by value: it serves copies and moves.
// NOLINTNEXTLINE(cppcoreguidelines-special-member-functions): see above
class FrameRef {
 public:
  FrameRef() = default;
  FrameRef(const FrameRef& other);
  FrameRef(FrameRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  FrameRef& operator=(FrameRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~FrameRef() { reset(); }

  explicit operator bool() const { return block_ != nullptr; }
  void reset();
  [[nodiscard]] const FrameInfo& info() const;
  /// The head that the wire module stored (opaque here), and the payload data, both in the arena.
  [[nodiscard]] std::span<const std::byte> head() const;
  [[nodiscard]] std::span<const std::byte> data() const;
  /// head + data: what queue limits and windows count is data alone.
  [[nodiscard]] std::uint64_t data_bytes() const;

 private:
  friend class FrameRing;
  explicit FrameRef(Block* block) : block_(block) {}
  Block* block_ = nullptr;
};

}  // namespace simbridge::frame
