#include "simbridge/frame/store.h"

#include "frame/store_impl.h"
#include "simbridge/base/check.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace simbridge::frame {

// ---- waiting and sharing

void WaitingList::add(std::shared_ptr<const Watcher> watcher) {
  const MutexLock lock(mutex_);
  if (std::find(waiting_.begin(), waiting_.end(), watcher) != waiting_.end()) return;
  waiting_.push_back(std::move(watcher));
  // seq_cst: pairs with the load in signal_all(). The waiter adds itself and then tries once more,
  // the giver gives and then looks here.
  count_.store(waiting_.size(), std::memory_order_seq_cst);
}

void WaitingList::signal_all() {
  // seq_cst: see add().
  if (count_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<std::shared_ptr<const Watcher>> told;
  {
    const MutexLock lock(mutex_);
    told.swap(waiting_);
    count_.store(0, std::memory_order_seq_cst);
  }
  for (const auto& watcher : told) watcher->signal();
}

bool Share::take(std::uint64_t bytes, std::uint64_t limit, bool first_is_free) {
  // seq_cst: see give().
  std::uint64_t now = held_.load(std::memory_order_seq_cst);
  do {
    const bool first = first_is_free && now == 0;
    if (now + bytes > limit && !first) return false;
  } while (!held_.compare_exchange_weak(
      now, now + bytes, std::memory_order_seq_cst, std::memory_order_seq_cst));
  return true;
}

// ---- making and ending

Result<std::unique_ptr<FrameStore>> FrameStore::create(const StoreOptions& options,
                                                       const Clock& clock) {
  // The arena looks at the budget, which lives in the Impl: made first, filled after.
  auto budget = std::make_unique<Budget>();
  auto arena = FrameArena::create(
      {.address_space = options.address_space, .idle_return = options.idle_return}, *budget, clock);
  if (!arena) return std::unexpected(arena.error());
  return std::unique_ptr<FrameStore>(
      new FrameStore(std::make_unique<Impl>(options, std::move(budget), std::move(*arena))));
}

FrameStore::FrameStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

FrameStore::~FrameStore() {
  std::vector<std::shared_ptr<FrameRing>> left;
  {
    const MutexLock lock(impl_->eviction);
    left = impl_->rings;
  }
  for (const auto& ring : left) remove_ring(ring);
  impl_->slabs.close(impl_->shared_slab);
  left.clear();
  SB_CHECK(impl_->pins.held() == 0, "every pin ticket is home before the store closes");
  SB_CHECK(impl_->ingest.held() == 0, "every reservation is home before the store closes");
  SB_CHECK(impl_->budget.charged_units() == 0, "every frame is home before the store closes");
}

// ---- rings

std::shared_ptr<FrameRing> FrameStore::add_ring(bool latched, bool derived) {
  const MutexLock lock(impl_->eviction);
  auto state = std::make_unique<RingState>(*impl_, impl_->next_ring++, derived);
  // relaxed: nobody else knows of the ring.
  state->depth.store(impl_->depth, std::memory_order_relaxed);
  state->latched.store(latched, std::memory_order_relaxed);
  state->place_in_store = impl_->rings.size();
  impl_->largest.choices_left = 0;
  impl_->rings.push_back(std::shared_ptr<FrameRing>(new FrameRing(std::move(state))));
  return impl_->rings.back();
}

void FrameStore::remove_ring(const std::shared_ptr<FrameRing>& ring) {
  RingState& state = *ring->state_;
  {
    const MutexLock lock(state.control);
    if (state.removed) return;
    state.removed = true;
    state.set_fence(0);  // nothing is published any more
  }
  std::shared_ptr<FrameRing> keep;
  Evicted lost_before;
  {
    const MutexLock lock(impl_->eviction);
    auto& rings = impl_->rings;
    const std::size_t place = state.place_in_store;
    keep = rings[place];
    rings[place] = rings.back();
    rings[place]->state_->place_in_store = place;
    rings.pop_back();
    impl_->largest.choices_left = 0;
    lost_before = state.gone();
    impl_->left_by_removed += lost_before;
  }
  Evicted evicted;
  while (state.evict_one(RingState::kNobody, EvictReason::kEvicted, nullptr, evicted)) {
  }
  impl_->slabs.close(state.open_slab);
  const Evicted lost = state.gone();
  const MutexLock lock(impl_->eviction);
  impl_->left_by_removed +=
      {.frames = lost.frames - lost_before.frames, .bytes = lost.bytes - lost_before.bytes};
}

// ---- budgets

ShrinkReport FrameStore::set_budget(Bytes budget) {
  Impl& impl = *impl_;
  const MutexLock one_at_a_time(impl.resizing);
  impl.set_budget(budget);
  Evicted evicted;
  {
    const MutexLock lock(impl.eviction);
    unsigned barren = 0;
    while (impl.budget.exceeded() && barren < Impl::kBarrenSteps) {
      const std::uint64_t before = evicted.frames;
      if (!impl.evict_step(Need::kShrink, Tier::kHeld, EvictReason::kShrink, evicted)) break;
      barren = evicted.frames == before ? barren + 1 : 0;
    }
  }
  // Punching holds none of the store's locks but the one that keeps other shrinks out.
  Bytes returned = impl.arena->trim();
  returned += Bytes{impl.blocks.trim()};
  impl.room_waiters.signal_all();
  impl.pin_waiters.signal_all();
  const Evicted lost = evicted.without_derived();
  return {
      .frames = lost.frames,
      .bytes = Bytes{lost.bytes},
      .still_pinned = stats().pinned,
      .returned = returned,
  };
}

void FrameStore::set_depth(std::uint32_t frames) {
  std::vector<std::shared_ptr<FrameRing>> all;
  {
    const MutexLock lock(impl_->eviction);
    impl_->depth = std::clamp<std::uint32_t>(frames, 1, kRingCapacity);
    all = impl_->rings;
  }
  for (const auto& ring : all) {
    if (!ring->state_->derived) ring->set_depth(frames);  // those have a depth of their own
  }
}

void FrameStore::set_warm_reserve(Bytes bytes) {
  impl_->arena->set_warm_reserve(bytes);
}

void FrameStore::set_pin_share(double share) {
  // relaxed: the next ticket looks at it.
  impl_->pin_share.store(share, std::memory_order_relaxed);
  impl_->pin_waiters.signal_all();
}

Bytes FrameStore::budget() const {
  return Bytes{impl_->budget_bytes.load(std::memory_order_relaxed)};  // relaxed: a figure
}
Bytes FrameStore::max_frame_bytes() const {
  return Bytes{impl_->frame_limit()};
}
Bytes FrameStore::ingest_share() const {
  return Bytes{impl_->ingest_limit()};
}
Bytes FrameStore::pin_budget() const {
  return Bytes{impl_->pin_limit()};
}

// ---- pins

PinTicket FrameStore::try_pin(Bytes bytes, const std::shared_ptr<const Watcher>& when_free) {
  PinTicket ticket;
  const auto take = [&] {
    return impl_->pins.take(bytes.count, impl_->pin_limit(), true);
  };
  if (!take()) {
    if (when_free == nullptr) return ticket;
    impl_->pin_waiters.add(when_free);
    // Once more: what came home before we were in the list told nobody. A ticket that is got here
    // leaves the watcher waiting: it is told once for nothing.
    if (!take()) return ticket;
  }
  ticket.store_ = this;
  ticket.bytes_ = bytes.count;
  return ticket;
}

std::uint64_t FrameStore::pin_waiters() const {
  return impl_->pin_waiters.size();
}

PinTicket::PinTicket(PinTicket&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinTicket& PinTicket::operator=(PinTicket&& other) noexcept {
  PinTicket gone(std::move(*this));
  store_ = std::exchange(other.store_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

PinTicket::~PinTicket() {
  if (store_ == nullptr) return;
  store_->impl().pins.give(bytes_);
  store_->impl().pin_waiters.signal_all();
}

void FrameStore::notify_room(std::shared_ptr<const Watcher> watcher) {
  impl_->room_waiters.add(std::move(watcher));
}

std::uint64_t FrameStore::room_waiters() const {
  return impl_->room_waiters.size();
}

// ---- figures

StoreStats FrameStore::stats() const {
  Impl& impl = *impl_;
  const FrameArena::Figures arena = impl.arena->figures();
  const auto load = [](const std::atomic<std::uint64_t>& figure) {
    return figure.load(std::memory_order_relaxed);  // relaxed: figures
  };
  const auto pinned = static_cast<std::int64_t>(load(impl.pinned));
  const Impl::Losses losses = impl.losses();
  return {
      .budget = budget(),
      .charged = Bytes{impl.budget.charged_units() * kUnitBytes},
      .committed = arena.committed,
      .pinned = Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(pinned, 0))},
      .warm = arena.warm,
      .ingest_held = Bytes{impl.ingest.held()},
      .pins_held = Bytes{impl.pins.held()},
      .rings = losses.rings,
      .evicted_frames = losses.evicted.frames,
      .evicted_bytes = losses.evicted.bytes,
      .shrunk_frames = losses.shrunk.frames,
      .shrunk_bytes = losses.shrunk.bytes,
      .reserve_failures = load(impl.reserve_failures),
      .huge_pages = arena.huge_pages,
  };
}

int FrameStore::arena_fd() const {
  return impl_->arena->fd();
}
std::uint64_t FrameStore::arena_bytes() const {
  return impl_->arena->size();
}

}  // namespace simbridge::frame
