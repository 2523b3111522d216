// Where memory for a frame comes from, and who has to give when there is none.
#include "frame/store_impl.h"

#include "simbridge/base/check.h"

#include <algorithm>
#include <utility>

namespace simbridge::frame {
namespace {

/// What one block costs beside its frame is bounded by this much of the budget and a little more.
constexpr std::uint64_t kBudgetPerBlock = 1ULL << 10;
constexpr std::uint64_t kBlocksAlways = 64ULL << 10;
/// How many choices the list of the largest rings serves: so much may others have grown meanwhile.
constexpr unsigned kChoicesPerList = 64;
/// How many frames go when blocks, not bytes, are short.
constexpr unsigned kFramesForBlocks = 64;

constexpr std::uint32_t in_units(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
}

}  // namespace

FrameStore::Impl::Impl(const StoreOptions& options,
                       std::unique_ptr<Budget> made_budget,
                       std::unique_ptr<FrameArena> made_arena)
    : budget_owned(std::move(made_budget)),
      budget(*budget_owned),
      ingest_share(options.ingest_share),
      pin_share(options.pin_share),
      arena(std::move(made_arena)),
      slabs(*arena, budget),
      depth(std::clamp<std::uint32_t>(options.depth, 1, kRingCapacity)) {
  set_budget(options.budget);
  arena->set_warm_reserve(options.warm_reserve);
}

FrameStore::Impl::~Impl() = default;

void FrameStore::Impl::set_budget(Bytes bytes) {
  // relaxed: the shares follow it; that charged memory stays below it is the Budget's business.
  budget_bytes.store(bytes.count, std::memory_order_relaxed);
  budget.set(static_cast<std::uint32_t>(std::min(bytes.count, arena->size()) / kUnitBytes));
  blocks.set_cap(kBlocksAlways + bytes.count / kBudgetPerBlock);
}

std::uint64_t FrameStore::Impl::ingest_limit() const {
  // relaxed, both: the next reservation sees a change soon enough.
  return static_cast<std::uint64_t>(
      static_cast<double>(budget_bytes.load(std::memory_order_relaxed)) *
      ingest_share.load(std::memory_order_relaxed));
}

std::uint64_t FrameStore::Impl::pin_limit() const {
  // relaxed, both: as above.
  return static_cast<std::uint64_t>(
      static_cast<double>(budget_bytes.load(std::memory_order_relaxed)) *
      pin_share.load(std::memory_order_relaxed));
}

FrameStore::Impl::Losses FrameStore::Impl::losses() {
  const MutexLock lock(eviction);
  Evicted all = left_by_removed;
  for (const auto& ring : rings) all += ring->state_->gone();
  // What is being evicted at this instant may stand in one sum and not in the other.
  evicted_so_far.frames = std::max(evicted_so_far.frames, all.frames - shrunk.frames);
  evicted_so_far.bytes = std::max(evicted_so_far.bytes, all.bytes - shrunk.bytes);
  return {.evicted = evicted_so_far, .shrunk = shrunk, .rings = rings.size()};
}

// ---- blocks

Block* FrameStore::Impl::take_block(BlockCache& cache) {
  while (cache.count == 0) {
    cache.count = static_cast<std::uint32_t>(blocks.take(std::span(cache.free).first(cache.batch)));
    cache.batch = std::min<std::uint32_t>(cache.batch * 2, cache.free.size() / 2);
    if (cache.count == 0 && !evict_for_blocks()) return nullptr;
  }
  return &blocks.at(cache.free[--cache.count]);
}

void FrameStore::Impl::return_blocks(BlockCache& cache) {
  while (cache.count > 0) blocks.give(blocks.at(cache.free[--cache.count]));
}

void FrameStore::Impl::free_block(Block& block, BlockCache* recycle) {
  release_place(block.slab);
  if (recycle != nullptr && recycle->count < recycle->free.size())
    recycle->free[recycle->count++] = block.index;
  else
    blocks.give(block);
}

void FrameStore::Impl::release_place(std::uint32_t slab) {
  if (slabs.frame_gone(slab)) room_waiters.signal_all();
}

bool FrameStore::Impl::evict_for_blocks() {
  const MutexLock lock(eviction);
  RingState* longest = nullptr;
  std::uint64_t most = 1;  // the newest frame of a ring stays
  for (const auto& ring : rings) {
    const RingState& state = *ring->state_;
    const std::uint64_t oldest = state.tail.load(std::memory_order_acquire);  // as in evict_one()
    const std::uint64_t end = state.head.load(std::memory_order_acquire);
    const std::uint64_t held =
        state.reliable.empty() ? end : std::min(end, state.slowest_reliable());
    if (held <= oldest || held - oldest <= most) continue;
    most = held - oldest;
    longest = ring->state_.get();
  }
  if (longest == nullptr) return false;
  Evicted evicted;
  const std::uint64_t end = longest->head.load(std::memory_order_acquire);
  const std::uint64_t limit =
      longest->reliable.empty() ? end - 1 : std::min(end - 1, longest->slowest_reliable());
  for (unsigned i = 0; i < kFramesForBlocks; ++i) {
    if (!longest->evict_one(limit, EvictReason::kEvicted, nullptr, evicted)) break;
  }
  return evicted.frames > 0;
}

// ---- bytes

void FrameStore::Impl::Victim::consider(RingState& other, Need need, Tier last) {
  // Nobody goes before a larger ring of the first tier: most rings need no closer look.
  if (best.tier == Tier::kHistory &&
      static_cast<double>(other.account->charged_units() * kUnitBytes) < best.charged_per_share)
    return;
  const Candidate theirs = candidate(other.view(), need);
  if (theirs.tier > last || !gives_before(theirs, best)) return;
  best = theirs;
  ring = &other;
}

void FrameStore::Impl::list_largest() {
  const auto larger = [](const RingState* a, const RingState* b) {
    return a->account->charged_units() > b->account->charged_units();
  };
  largest = {.choices_left = kChoicesPerList};
  auto* const begin = largest.rings.begin();
  for (const auto& ring : rings) {
    RingState* state = ring->state_.get();
    if (largest.count < largest.rings.size()) {
      largest.rings[largest.count++] = state;
      std::push_heap(begin, begin + static_cast<std::ptrdiff_t>(largest.count), larger);
      continue;
    }
    // The smallest of the list is at its front. Charges move meanwhile: the heap may be a little
    // out of order, which costs accuracy and nothing else.
    const bool enters = larger(state, largest.rings.front());
    const RingState* left_out = enters ? largest.rings.front() : state;
    largest.below = std::max(largest.below, left_out->account->charged_units());
    if (!enters) continue;
    std::pop_heap(begin, largest.rings.end(), larger);
    largest.rings.back() = state;
    std::push_heap(begin, largest.rings.end(), larger);
  }
}

FrameStore::Impl::Victim FrameStore::Impl::choose_victim(Need need, Tier last) {
  if (largest.choices_left == 0) list_largest();
  --largest.choices_left;
  Victim victim;
  for (std::size_t i = 0; i < largest.count; ++i) victim.consider(*largest.rings[i], need, last);
  const bool all_seen = largest.count == rings.size();
  if (all_seen ||
      (victim.best.tier == Tier::kHistory &&
       victim.best.charged_per_share >= static_cast<double>(largest.below * kUnitBytes)))
    return victim;
  largest.choices_left = 0;
  for (const auto& ring : rings) victim.consider(*ring->state_, need, last);
  return victim;
}

bool FrameStore::Impl::evict_step(Need need, Tier last, EvictReason reason, Evicted& evicted) {
  const Victim victim = choose_victim(need, last);
  if (victim.ring == nullptr) return false;
  const Evicted given = victim.ring->give(victim.best.tier, reason);
  evicted += given;
  if (reason == EvictReason::kShrink) shrunk += given.without_derived();
  return true;
}

bool FrameStore::Impl::charge(std::uint32_t units, Tier last) {
  if (budget.try_charge(units)) return true;
  if (units > budget.budget_units()) return false;
  const MutexLock lock(eviction);
  unsigned barren = 0;
  while (!budget.try_charge(units)) {
    Evicted evicted;
    if (barren == kBarrenSteps || !evict_step(Need::kRoom, last, EvictReason::kEvicted, evicted))
      return false;
    barren = evicted.frames == 0 ? barren + 1 : 0;
  }
  return true;
}

std::optional<std::uint32_t> FrameStore::Impl::obtain(std::uint32_t units, Tier last) {
  for (unsigned attempt = 0; attempt < kBarrenSteps; ++attempt) {
    if (!charge(units, last)) return std::nullopt;
    if (const auto first = arena->take(units)) return first;
    // The address space, at least as large as the budget, is in pieces.
    budget.uncharge(units);
    const MutexLock lock(eviction);
    Evicted evicted;
    if (!evict_step(Need::kRoom, last, EvictReason::kEvicted, evicted)) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Place> FrameStore::Impl::shared_place(std::uint64_t bytes, Tier last) {
  if (const auto place = slabs.fill(shared_slab, bytes)) return place;
  const auto first = obtain(units_of(SlabClass::kSmall), last);
  if (!first) return std::nullopt;
  return slabs.open(shared_slab, *first, SlabClass::kSmall, bytes, nullptr);
}

std::optional<Place> FrameStore::Impl::place(RingState& ring, std::uint64_t bytes) {
  bytes = std::max(bytes, kFrameAlignment);
  // Memory is looked for first where nobody loses a newest frame for it.
  constexpr Tier kGently = Tier::kLatchedHistory;
  constexpr Tier kAtAnyPrice = Tier::kLatchedNewest;
  if (bytes <= kLargestPacked) {
    const bool small = bytes <= kLargestShared;
    // relaxed: one producer at a time counts; a fenced one that counts too does no harm.
    if (small && ring.shared_frames.load(std::memory_order_relaxed) < kSharedFramesOfARing) {
      if (const auto place = shared_place(bytes, kGently)) {
        ring.shared_frames.fetch_add(1, std::memory_order_relaxed);
        return place;
      }
    }
    if (const auto place = slabs.fill(ring.open_slab, bytes)) return place;
    if (const auto size = choose_class(bytes, ring.note_size(bytes), budget.budget_units())) {
      auto first = obtain(units_of(*size), kGently);
      if (!first && small) {
        if (const auto place = shared_place(bytes, kGently)) return place;
      }
      if (!first) first = obtain(units_of(*size), kAtAnyPrice);
      if (first) return slabs.open(ring.open_slab, *first, *size, bytes, ring.account);
    }
  }
  const std::uint32_t units = in_units(bytes);
  const auto first = obtain(units, kAtAnyPrice);
  if (!first) return std::nullopt;
  return slabs.alone(*first, units, ring.account);
}

}  // namespace simbridge::frame
