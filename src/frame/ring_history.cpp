// What the ring knows about frames that are gone: lives, lost runs, places of sequence numbers.
#include "frame/ring_state.h"
#include "simbridge/frame/ring.h"

#include <algorithm>

namespace simbridge::frame {
namespace {

/// A position's entry in the books, read whole.
struct Entry {
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  Handle handle = 0;
};

/// Nothing: the slot was given to a later frame.
std::optional<Entry> entry_at(const RingState& ring, std::uint64_t position) {
  const Slot& slot = ring.slot(position);
  // acquire, all three: see RingState::remembered().
  const Entry entry{
      .sequence = slot.sequence.load(std::memory_order_acquire),
      .epoch = slot.epoch.load(std::memory_order_acquire),
      .handle = slot.handle.load(std::memory_order_acquire),
  };
  if (!ring.remembered(position)) return std::nullopt;
  return entry;
}

/// The first position whose slot is still its own, as of now; it only rises.
std::uint64_t first_remembered(const RingState& ring) {
  // acquire: pairs with publish(): slots below are filled.
  const std::uint64_t head = ring.head.load(std::memory_order_acquire);
  return head < kRingCapacity ? 0 : head - kRingCapacity + 1;
}

const Life* life_of(const std::vector<Life>& lives, std::uint64_t position) {
  for (const Life& life : lives) {
    if (position >= life.first_position && position < life.end_position) return &life;
  }
  return nullptr;
}

/// The nearest place at or behind `position` in its life whose sequence number is known.
struct Anchor {
  std::uint64_t position = 0;
  std::uint64_t sequence = 0;
};
Anchor anchor_after(const RingState& ring, const Life& life, std::uint64_t position) {
  for (;;) {
    const std::uint64_t known = std::max(first_remembered(ring), position);
    if (known >= life.end_position) return {life.end_position - 1, life.last_sequence};
    if (const auto entry = entry_at(ring, known)) return {known, entry->sequence};
  }
}

}  // namespace

std::vector<Life> RingState::lives_now() const {
  std::vector<Life> out;
  out.reserve(lives.size());
  for (const LifeRecord& life : lives) {
    out.push_back({.epoch = life.epoch,
                   .first_position = life.first_position,
                   .end_position = life.end_position,
                   .first_sequence = life.first_sequence,
                   .last_sequence = life.last_sequence});
  }
  if (out.empty()) return out;
  Life& current = out.back();
  for (;;) {
    // acquire: pairs with publish(); the first sequence of the life was stored before.
    current.end_position = head.load(std::memory_order_acquire);
    if (current.end_position == current.first_position) break;
    const auto newest = entry_at(*this, current.end_position - 1);
    if (!newest) continue;  // lapped by 4095 frames between two lines
    // relaxed: ordered by the head above.
    current.first_sequence = life_first_sequence.load(std::memory_order_relaxed);
    current.last_sequence = newest->sequence;
    break;
  }
  return out;
}

std::vector<Life> FrameRing::lives() const {
  const MutexLock lock(state_->control);
  return state_->lives_now();
}

void FrameRing::lost_runs(std::uint64_t from, std::uint64_t to, std::vector<LostRun>& out) const {
  const RingState& ring = *state_;
  if (from >= to) return;
  const std::vector<Life> known = lives();
  const std::size_t begin = out.size();
  const auto add = [&](const LostRun& run) {
    if (out.size() > begin && out.back().epoch == run.epoch && out.back().reason == run.reason) {
      out.back().last = run.last;
      out.back().frames += run.frames;
    } else {
      out.push_back(run);
    }
  };
  while (from < to) {
    const std::uint64_t remembered_from = first_remembered(ring);
    if (from >= remembered_from) {
      const auto entry = entry_at(ring, from);
      if (!entry) continue;  // forgotten between two lines: interpolate
      add({.epoch = entry->epoch,
           .first = entry->sequence,
           .last = entry->sequence,
           .frames = 1,
           .reason = is_empty(entry->handle) ? reason_of(entry->handle) : EvictReason::kNone});
      ++from;
      continue;
    }
    // Numbers rise by at least one a position. Counting back from the next known place gives each
    // forgotten frame the highest number that it can have had, so that runs never overlap what was
    // delivered before them; without jumps in the numbering it is the true one.
    const Life* life = life_of(known, from);
    std::uint64_t end = std::min(to, remembered_from);
    if (life == nullptr) {  // older than the lives that are remembered
      if (!known.empty()) end = std::min(end, std::max(known.front().first_position, from + 1));
      add({.frames = end - from});
    } else {
      end = std::min(end, life->end_position);
      const Anchor anchor = anchor_after(ring, *life, end - 1);
      const auto number = [&](std::uint64_t position) {
        return anchor.sequence - std::min(anchor.sequence, anchor.position - position);
      };
      add({.epoch = life->epoch,
           .first = number(from),
           .last = number(end - 1),
           .frames = end - from});
    }
    from = end;
  }
}

std::optional<std::uint64_t> FrameRing::position_after(std::uint64_t epoch,
                                                       std::uint64_t sequence) const {
  const RingState& ring = *state_;
  const std::vector<Life> known = lives();
  const auto found = std::find_if(
      known.rbegin(), known.rend(), [epoch](const Life& life) { return life.epoch == epoch; });
  if (found == known.rend()) return std::nullopt;
  const Life& life = *found;
  if (life.first_position == life.end_position || sequence >= life.last_sequence)
    return life.end_position;
  if (sequence < life.first_sequence) return life.first_position;
  // Between the two: numbers rise with positions, so the remembered ones are searched by halves.
  for (;;) {
    const std::uint64_t low = std::max(life.first_position, first_remembered(ring));
    if (low >= life.end_position) break;
    const auto lowest = entry_at(ring, low);
    if (!lowest) continue;
    if (lowest->sequence > sequence) break;
    std::uint64_t at_most = low;  // its number is not above
    std::uint64_t above = life.end_position;
    bool lapped = false;
    while (above - at_most > 1 && !lapped) {
      const std::uint64_t middle = at_most + (above - at_most) / 2;
      const auto entry = entry_at(ring, middle);
      lapped = !entry;
      if (entry && entry->sequence > sequence)
        above = middle;
      else
        at_most = middle;
    }
    if (!lapped) return above;
  }
  const Anchor anchor = anchor_after(ring, life, life.first_position);
  const std::uint64_t back = anchor.sequence - sequence - 1;  // frames between, without jumps
  const std::uint64_t position = anchor.position - std::min(back, anchor.position);
  return std::clamp(position, std::min(life.first_position + 1, anchor.position), anchor.position);
}

}  // namespace simbridge::frame
