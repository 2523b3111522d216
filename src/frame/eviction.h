#pragma once
// What: who gives first when memory is short; pure, a function of what the rings look like.
// Owner: nobody.   Threads: values, any.
#include <cstdint>

namespace simbridge::frame {

/// In the order in which they are asked. A whole step is used up before the next is touched, except
/// that inside a step the ring with the largest charge for its share goes first.
enum class Tier : std::uint8_t {
  kHistory,         // older frames of rings that are not latched, and empty slabs kept open
  kLatchedHistory,  // older frames of latched rings: latched protects the newest
  kDerived,         // derived rings whole: they can be computed again
  kOrphanNewest,    // the newest frame where nobody produces any more
  kNewest,          // the newest frame of a channel that lives
  kLatchedNewest,
  kHeld,  // what a reliable reader has not had yet: only when memory is taken away
  kNothing,
};

/// Why memory is wanted: room for a new frame, or less memory altogether.
enum class Need : std::uint8_t { kRoom, kShrink };

/// What the choice looks at.
struct RingView {
  std::uint64_t charged_bytes = 0;
  double share = 1.0;  // its weight among the rings
  bool latched = false;
  bool derived = false;
  bool produced = false;       // has a live producer
  bool history_frees = false;  // evicting older frames, not held, empties at least one slab
  bool newest = false;         // has frames, the newest not held for a reliable reader
  bool held = false;           // has frames that a reliable reader has not had
};

/// What this ring would give next.
[[nodiscard]] Tier tier_of(const RingView& ring, Need need);

struct Candidate {
  Tier tier = Tier::kNothing;
  double charged_per_share = 0;
};
[[nodiscard]] Candidate candidate(const RingView& ring, Need need);
/// Strict: of two equals neither goes before the other.
[[nodiscard]] bool gives_before(const Candidate& a, const Candidate& b);

}  // namespace simbridge::frame
