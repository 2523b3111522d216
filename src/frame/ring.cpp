#include "simbridge/frame/ring.h"

#include "frame/ring_state.h"
#include "frame/store_impl.h"

#include <algorithm>
#include <utility>

namespace simbridge::frame {

FrameRing::FrameRing(std::unique_ptr<RingState> state) : state_(std::move(state)) {}
FrameRing::~FrameRing() = default;

// ---- producing

Producer FrameRing::attach(std::uint64_t epoch) {
  RingState& ring = *state_;
  const MutexLock lock(ring.control);
  if (ring.removed) return {};
  ring.set_fence(0);
  // relaxed: set_fence() has acquired all that the last producer wrote, and there is none now.
  const std::uint64_t head = ring.head.load(std::memory_order_relaxed);
  if (ring.lives.empty() || ring.lives.back().epoch != epoch) {
    if (!ring.lives.empty()) {
      RingState::LifeRecord& last = ring.lives.back();
      last.end_position = head;
      if (head > last.first_position) {
        last.first_sequence = ring.life_first_sequence.load(std::memory_order_relaxed);
        last.last_sequence = ring.slot(head - 1).sequence.load(std::memory_order_relaxed);
      }
    }
    if (ring.lives.size() == RingState::kLivesKept) ring.lives.erase(ring.lives.begin());
    ring.lives.push_back({.epoch = epoch, .first_position = head});
    ring.life_first_sequence.store(0, std::memory_order_relaxed);
    ring.store.slabs.close(ring.open_slab);  // a slab belongs to one life
  }
  const std::uint64_t token = ring.next_token++;
  ring.set_fence(token << 1U);
  return {shared_from_this(), token, epoch};
}

bool FrameRing::has_producer() const {
  return state_->produced();
}

// ---- reading

std::uint64_t FrameRing::head() const {
  // seq_cst: a session adds its watcher (seq_cst) and then looks here; publish() stores head
  // (seq_cst) and then looks for watchers. One of the two sees the other.
  return state_->head.load(std::memory_order_seq_cst);
}

std::uint64_t FrameRing::tail() const {
  // acquire: pairs with raise_tail().
  return state_->tail.load(std::memory_order_acquire);
}

ReadResult FrameRing::read(std::uint64_t position) const {
  if (position >= head()) return {.frame = {}, .state = ReadResult::State::kNotYet};
  if (Block* block = state_->reference(position))
    return {.frame = FrameRef(block), .state = ReadResult::State::kFrame};
  return {.frame = {}, .state = ReadResult::State::kGone};
}

std::uint64_t FrameRing::bytes_behind(std::uint64_t from) const {
  return state_->bytes_from(from);
}

std::uint64_t FrameRing::kept_frames() const {
  const std::uint64_t oldest = tail();  // first: it never passes the head
  return head() - oldest;
}

Bytes FrameRing::kept_bytes() const {
  return Bytes{state_->bytes_from(tail())};
}

// ---- watching

void FrameRing::add_watcher(std::shared_ptr<const Watcher> watcher) {
  const MutexLock lock(state_->control);
  state_->watchers.add(std::move(watcher));
}

void FrameRing::remove_watcher(const Watcher* watcher) {
  const MutexLock lock(state_->control);
  state_->watchers.remove(watcher);
}

void FrameRing::wake_watchers() const {
  state_->watchers.visit([](const Watcher& watcher) { watcher.signal(); });
}

void FrameRing::set_room_watcher(std::shared_ptr<const Watcher> watcher) {
  const MutexLock lock(state_->control);
  state_->room_watcher.set_only(std::move(watcher));
}

// ---- reliable readers

std::shared_ptr<ReliableCursor> FrameRing::add_reliable(std::uint64_t position) {
  auto cursor = std::make_shared<ReliableCursor>(position);
  const MutexLock lock(state_->control);
  state_->reliable.add(cursor);
  return cursor;
}

void FrameRing::remove_reliable(const ReliableCursor* cursor) {
  {
    const MutexLock lock(state_->control);
    state_->reliable.remove(cursor);
  }
  state_->room_came();
}

void FrameRing::advance(ReliableCursor& cursor, std::uint64_t position) const {
  // release: pairs with the acquire in position(); what the reader did with the frames is done.
  // seq_cst, because who waits for room looks at the cursors after it has said that it waits.
  cursor.position_.store(position, std::memory_order_seq_cst);
  state_->room_came();
}

FrameRing::Held FrameRing::held() const {
  if (state_->reliable.empty()) return {};
  const std::uint64_t oldest = tail();
  const std::uint64_t slowest = state_->slowest_reliable();
  const std::uint64_t from = std::max(oldest, slowest);
  const std::uint64_t end = head();
  if (from >= end) return {};
  return {.frames = end - from, .bytes = Bytes{state_->bytes_from(from)}};
}

// ---- depth

void FrameRing::set_depth(std::uint32_t frames) {
  // seq_cst: see evict_beyond_depth().
  state_->depth.store(std::clamp<std::uint32_t>(frames, 1, kRingCapacity),
                      std::memory_order_seq_cst);
  state_->evict_beyond_depth(nullptr);
}

std::uint32_t FrameRing::depth() const {
  // relaxed: a figure.
  return state_->depth.load(std::memory_order_relaxed);
}

void FrameRing::set_latched(bool latched) {
  // relaxed, both: the next choice of a victim looks at it.
  state_->latched.store(latched, std::memory_order_relaxed);
}

bool FrameRing::latched() const {
  return state_->latched.load(std::memory_order_relaxed);
}

}  // namespace simbridge::frame
