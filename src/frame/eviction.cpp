#include "frame/eviction.h"

namespace simbridge::frame {

Tier tier_of(const RingView& ring, Need need) {
  if (ring.history_frees) return ring.latched ? Tier::kLatchedHistory : Tier::kHistory;
  if (ring.newest) {
    if (ring.derived) return Tier::kDerived;
    if (ring.latched) return Tier::kLatchedNewest;
    return ring.produced ? Tier::kNewest : Tier::kOrphanNewest;
  }
  if (ring.held && need == Need::kShrink) return Tier::kHeld;
  return Tier::kNothing;
}

Candidate candidate(const RingView& ring, Need need) {
  return {
      .tier = tier_of(ring, need),
      .charged_per_share = static_cast<double>(ring.charged_bytes) / ring.share,
  };
}

bool gives_before(const Candidate& a, const Candidate& b) {
  if (a.tier != b.tier) return a.tier < b.tier;
  return a.charged_per_share > b.charged_per_share;
}

}  // namespace simbridge::frame
