#include "frame/ring_state.h"

#include "frame/store_impl.h"
#include "simbridge/base/check.h"

#include <algorithm>
#include <thread>

namespace simbridge::frame {

void drop_ring(Block& block, std::uint32_t own, BlockCache* recycle) {
  FrameStore::Impl& store = *block.store;
  const std::uint64_t bytes = block.bytes_total();
  const std::uint64_t amount = kRingReference + own;
  // acq_rel: as in drop_reader().
  const std::uint64_t before = block.state.fetch_sub(amount, std::memory_order_acq_rel);
  SB_CHECK((before & kRingReference) != 0, "the ring's reference is given up once");
  SB_CHECK((before & kReferenceMask) >= amount,
           "nobody gives up a reference that he does not have");
  if ((before & kReferenceMask) == amount) {
    store.free_block(block, recycle);
  } else {
    // relaxed: a figure; the last reader takes it off again, perhaps before this line.
    store.pinned.fetch_add(bytes, std::memory_order_relaxed);
  }
}

RingState::RingState(FrameStore::Impl& owner, std::uint64_t number, bool is_derived)
    : store(owner),
      id(number),
      derived(is_derived),
      slots(static_cast<Slot*>(owner.slots.take())),  // zeros: empty, never used
      account(new RingAccount),
      depth(1) {}

RingState::~RingState() {
  // relaxed: the last user is gone.
  SB_CHECK(tail.load(std::memory_order_relaxed) >= head.load(std::memory_order_relaxed),
           "a ring is emptied before it goes");
  store.slabs.close(open_slab);
  account->drop_user();
  store.slots.give(slots);
}

// ---- reading

Block* RingState::reference(std::uint64_t position) const {
  // acquire: pairs with the exchange in publish(); the block's fields come with its own state.
  const Handle handle = slot(position).handle.load(std::memory_order_acquire);
  if (is_empty(handle)) return nullptr;
  Block& block = store.blocks.at(index_of(handle));
  if (!block.try_reference(generation_of(handle))) return nullptr;
  // The handle may have been that of a later frame, and the block of another ring since.
  if (block.info.position == position && block.ring == id) return &block;
  drop_reader(block);
  return nullptr;
}

bool RingState::remembered(std::uint64_t position) const {
  // acquire: the fields of a slot are written (release) after the head that gave the slot away was
  // stored; whoever read a new field (acquire) finds that head here, or a later one.
  return position + kRingCapacity > head.load(std::memory_order_acquire);
}

std::uint64_t RingState::bytes_from(std::uint64_t position) const {
  // acquire: pairs with the store of head in publish(): slot and sum are visible.
  if (position >= head.load(std::memory_order_acquire)) return 0;
  std::uint64_t before = 0;
  for (;;) {
    // acquire: see remembered().
    before = slot(position).bytes_before.load(std::memory_order_acquire);
    if (remembered(position)) break;
    position = head.load(std::memory_order_acquire) - kRingCapacity + 1;
  }
  // acquire: at least as new as the head above.
  return published_bytes.load(std::memory_order_acquire) - before;
}

Evicted RingState::gone() const {
  if (derived) return {};  // it can be made again: nobody lost anything
  for (;;) {
    // acquire, all: as in bytes_from().
    const std::uint64_t oldest = tail.load(std::memory_order_acquire);
    if (oldest >= head.load(std::memory_order_acquire))
      return {.frames = oldest, .bytes = published_bytes.load(std::memory_order_acquire)};
    const std::uint64_t before = slot(oldest).bytes_before.load(std::memory_order_acquire);
    if (remembered(oldest)) return {.frames = oldest, .bytes = before};
    // A full ring, whose oldest slot may have the next frame's books already: the second oldest's
    // say the same, less the oldest frame itself while it is there.
    Block* held = reference(oldest);
    const std::uint64_t kept = held == nullptr ? 0 : held->data_bytes;
    if (held != nullptr) drop_reader(*held);
    const std::uint64_t behind = slot(oldest + 1).bytes_before.load(std::memory_order_acquire);
    if (remembered(oldest + 1))
      return {.frames = oldest + (held == nullptr ? 1 : 0), .bytes = behind - kept};
  }
}

std::uint64_t RingState::slowest_reliable() const {
  std::uint64_t slowest = kNobody;
  reliable.visit(
      [&](const ReliableCursor& cursor) { slowest = std::min(slowest, cursor.position()); });
  return slowest;
}

bool RingState::produced() const {
  // relaxed: an answer that may be old when it arrives, whatever the order.
  return fence.load(std::memory_order_relaxed) != 0;
}

bool RingState::full_of_held() const {
  if (reliable.empty()) return false;
  // acquire: no more than read() would give.
  const std::uint64_t end = head.load(std::memory_order_acquire);
  const std::uint64_t slowest = slowest_reliable();
  // relaxed: an old depth is as good for one frame. Some slots stay for reservations under way.
  const std::uint64_t most = std::min(depth.load(std::memory_order_relaxed), kRingCapacity - 256);
  return slowest < end && end - slowest >= most;
}

std::uint64_t RingState::note_size(std::uint64_t bytes) {
  // relaxed: the producer's own guess at what comes next.
  const std::uint64_t mean = recent_frame_bytes.load(std::memory_order_relaxed);
  const std::uint64_t next = mean == 0 ? bytes : mean - mean / 8 + bytes / 8;
  recent_frame_bytes.store(static_cast<std::uint32_t>(next), std::memory_order_relaxed);
  return next;
}

// ---- evicting

void RingState::raise_tail(std::uint64_t to) {
  // relaxed: a guess for the exchange.
  std::uint64_t now = tail.load(std::memory_order_relaxed);
  // release: pairs with the acquire loads of tail; whoever sees it finds the slots below emptied.
  while (now < to && !tail.compare_exchange_weak(
                         now, to, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool RingState::evict_one(std::uint64_t limit,
                          EvictReason reason,
                          BlockCache* recycle,
                          Evicted& evicted) {
  for (;;) {
    // acquire: pairs with raise_tail(). The tail first: it never passes the head.
    const std::uint64_t oldest = tail.load(std::memory_order_acquire);
    // acquire: the slot of any position below head is filled.
    if (oldest >= std::min(limit, head.load(std::memory_order_acquire))) return false;
    // acquire: pairs with the exchange in publish().
    Handle handle = slot(oldest).handle.load(std::memory_order_acquire);
    bool ours_to_take = !is_empty(handle);
    // Whose handle is it? Head, read after it, says so while the slot was not given away. A full
    // ring may have the slot's next frame in it already; a reference to this very frame, while we
    // have it, says that the handle is of no other.
    Block* held = nullptr;
    if (ours_to_take && !remembered(oldest)) {
      held = reference(oldest);
      ours_to_take = held != nullptr;
    }
    // acq_rel: against the producer's exchange and other evictors; exactly one of us gets the
    // handle, and with it the ring's reference. The reason is in the new value: one step.
    const bool taken =
        ours_to_take &&
        slot(oldest).handle.compare_exchange_strong(
            handle, empty_handle(reason), std::memory_order_acq_rel, std::memory_order_relaxed);
    if (taken) {
      Block& block = store.blocks.at(index_of(handle));
      ++evicted.frames;
      evicted.bytes += block.data_bytes;
      if (derived) {
        ++evicted.derived_frames;
        evicted.derived_bytes += block.data_bytes;
      }
      drop_ring(block, held == nullptr ? 0 : 1, recycle);
    } else if (held != nullptr) {
      drop_reader(*held);
    }
    // Somebody took it, we or another: nothing stands at `oldest` any more.
    raise_tail(oldest + 1);
    if (taken) return true;
  }
}

void RingState::evict_beyond_depth(BlockCache* recycle) {
  Evicted evicted;
  for (;;) {
    const std::uint64_t oldest = tail.load(std::memory_order_acquire);  // as in evict_one()
    // seq_cst, both: publish() stores head and loads depth, set_depth() stores depth and loads
    // head; one of the two sees the other's.
    const std::uint32_t allowed = depth.load(std::memory_order_seq_cst);
    const std::uint64_t newest = head.load(std::memory_order_seq_cst);
    if (newest - oldest <= allowed) break;
    const std::uint64_t limit =
        reliable.empty() ? newest - allowed : std::min(newest - allowed, slowest_reliable());
    if (oldest >= limit || !evict_one(limit, EvictReason::kEvicted, recycle, evicted)) break;
  }
}

RingView RingState::view() const {
  const std::uint64_t oldest = tail.load(std::memory_order_acquire);  // as in evict_one()
  const std::uint64_t end = head.load(std::memory_order_acquire);
  RingView ring{
      .charged_bytes = account->charged_units() * kUnitBytes,
      // relaxed: a choice, not a promise.
      .latched = latched.load(std::memory_order_relaxed),
      .derived = derived,
      .produced = produced(),
  };
  if (oldest >= end) {  // nothing kept, but perhaps a slab that is still open
    ring.history_frees = open_slab.load(std::memory_order_relaxed) != 0;
    return ring;
  }
  if (ring.charged_bytes == 0) ring.charged_bytes = bytes_from(oldest);  // all in the shared slab
  const std::uint64_t slowest = reliable.empty() ? kNobody : slowest_reliable();
  ring.newest = slowest >= end;
  ring.held = slowest < end;
  const std::uint64_t limit = std::min(end - 1, slowest);
  if (oldest >= limit) return ring;
  // Frames lie in slabs in the order in which they came. If the oldest shares its slab with the
  // first frame that must stay, then nothing would come free.
  auto first = slab_at(oldest);
  if (first && first->shared) first = slab_at(std::min(limit, oldest + kSharedFramesOfARing));
  const auto stays = slab_at(limit);
  ring.history_frees = first && stays && *first != *stays;
  return ring;
}

Evicted RingState::give(Tier tier, EvictReason reason) {
  const std::uint64_t end = head.load(std::memory_order_acquire);
  const std::uint64_t slowest = reliable.empty() ? kNobody : slowest_reliable();
  std::uint64_t limit = std::min(end, slowest);
  if (tier == Tier::kHistory || tier == Tier::kLatchedHistory)
    limit = std::min(end == 0 ? 0 : end - 1, slowest);
  if (tier == Tier::kHeld) limit = end;
  const std::uint64_t charged = account->charged_units();
  Evicted evicted;
  while (evict_one(limit, reason, nullptr, evicted)) {
    if (account->charged_units() < charged) break;
  }
  if (tail.load(std::memory_order_acquire) >= head.load(std::memory_order_acquire))
    store.slabs.close(open_slab);
  return evicted;
}

std::optional<RingState::WhichSlab> RingState::slab_at(std::uint64_t position) const {
  Block* block = reference(position);
  if (block == nullptr) return std::nullopt;
  const WhichSlab found{block->slab, store.slabs.is_shared(block->slab)};
  drop_reader(*block);
  return found;
}

void RingState::room_came() {
  evict_beyond_depth(nullptr);
  room_watcher.visit([](const Watcher& watcher) { watcher.signal(); });
  store.room_waiters.signal_all();
}

// ---- the fence

void RingState::set_fence(std::uint64_t value) {
  // relaxed: a guess for the exchange.
  std::uint64_t now = fence.load(std::memory_order_relaxed);
  for (;;) {
    if ((now & 1U) != 0) {  // a publish is in its few stores
      std::this_thread::yield();
      now = fence.load(std::memory_order_relaxed);
      continue;
    }
    // acq_rel: acquire pairs with the release at the end of publish(), so that the next producer
    // goes on from what the last one wrote; release, for the acquire at the start of publish().
    if (fence.compare_exchange_weak(
            now, value, std::memory_order_acq_rel, std::memory_order_relaxed))
      return;
  }
}

}  // namespace simbridge::frame
