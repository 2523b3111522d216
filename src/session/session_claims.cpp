// Who keeps what others wait for: reliable readers, and peers that take no byte of what they were
// lent.
#include "session/session_impl.h"
#include "simbridge/base/log.h"

#include <algorithm>

namespace simbridge::session {
namespace {

constexpr std::chrono::seconds kStallInShrink{2};

}  // namespace

/// Had is what stands before the first frame that is on its way, or unanswered.
void SessionImpl::settle_claim(Reading& reading) {
  if (!reading.claim) return;
  std::uint64_t had = reading.cursor;
  if (reading.books->in_flight.load(std::memory_order_relaxed) > 0)
    had = std::min(had, reading.first_in_flight);
  if (!reading.claimed.empty()) had = std::min(had, reading.claimed.front());
  if (had <= reading.claim->position()) return;
  reading.channel->ring->advance(*reading.claim, had);
  reading.claim_progress = hub_.clock.now();
  if (had >= reading.channel->ring->head()) reading.claim_waits = false;
}

/// Frames wait for a reliable reader: from now on it has to make progress.
void SessionImpl::watch_claim(Reading& reading) {
  if (!reading.claim || reading.claim_waits) return;
  if (reading.claim->position() >= reading.channel->ring->head()) return;
  reading.claim_waits = true;
  reading.claim_progress = hub_.clock.now();
  arm(reading.claim_progress + hub_.options.reliable_timeout);
}

void SessionImpl::check_claims(Monotonic now) {
  for (auto& [id, subscription] : subscriptions_) {
    for (auto& reading : subscription->readings) {
      watch_claim(*reading);
      if (!reading->claim || !reading->claim_waits) continue;
      if (reading->claim->position() >= reading->channel->ring->head()) {
        reading->claim_waits = false;
        continue;
      }
      const Monotonic end = reading->claim_progress + hub_.options.reliable_timeout;
      if (now < end) {
        arm(end);
        continue;
      }
      reading->channel->ring->remove_reliable(reading->claim.get());
      reading->claim.reset();
      reading->claimed.clear();
      reading->claim_ended = true;  // from here it trails like any other
      hub_.metrics.reliable_ended.add();
      send(
          wire::Status{wire::Level::kWarning,
                       "reliable_ended",
                       reading->channel->name +
                           ": no progress while frames waited; frames are no longer held for you"});
      queue(*reading);
    }
  }
}

/// Whether frames that the peer takes its time over left their rings: in a shrink, or for newer
/// ones. Then their memory is what others could have.
SessionImpl::Held SessionImpl::held_in_flight() {
  Held held;
  for (const InFlight& flight : in_flight_) {
    const std::uint64_t position = flight.frame.info().position;
    const frame::FrameRing& ring =
        flight.stream ? flight.stream->ring() : *flight.reading->channel->ring;
    lost_runs_.clear();
    ring.lost_runs(position, position + 1, lost_runs_);
    for (const frame::LostRun& run : lost_runs_) {
      held.shrunk = held.shrunk || run.reason == frame::EvictReason::kShrink;
      held.evicted = held.evicted || run.reason != frame::EvictReason::kNone;
    }
  }
  return held;
}

void SessionImpl::check_stall(Monotonic now) {
  if (!in_batch_ || in_flight_.empty()) return;
  const Monotonic end = batch_moved_ + hub_.options.stall_timeout;
  const Monotonic end_in_shrink = std::min(end, batch_moved_ + kStallInShrink);
  if (now < end_in_shrink) return arm(end_in_shrink);
  const Held held = held_in_flight();
  if (!held.shrunk) {
    const Monotonic again = now + std::chrono::seconds(1);
    if (now < end) return arm(std::min(end, again));
    const bool others_wait = (ticket_ && hub_.store.pin_waiters() > 0) ||
                             (held.evicted && hub_.store.room_waiters() > 0);
    if (!others_wait) return arm(again);
  }
  log(LogLevel::kWarning,
      "session_stalled",
      "session {} moved no byte of a frame that others wait for",
      id_);
  close(CloseKind::kPolicy, "no byte moved while others wait for the memory");
}

}  // namespace simbridge::session
