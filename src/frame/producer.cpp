// Filling a ring: reservations and their publication.
#include "frame/ring_state.h"
#include "frame/store_impl.h"
#include "simbridge/base/check.h"
#include "simbridge/frame/ring.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace simbridge::frame {

// ---- the account

bool IngestAccount::take(std::uint64_t bytes, std::uint64_t limit) {
  // relaxed: a sum that is compared with a limit; one session's strand takes, any thread gives.
  std::uint64_t now = held_.load(std::memory_order_relaxed);
  do {
    if (now + bytes > limit) return false;
  } while (!held_.compare_exchange_weak(
      now, now + bytes, std::memory_order_relaxed, std::memory_order_relaxed));
  return true;
}

void IngestAccount::give(std::uint64_t bytes) {
  // relaxed: as above.
  held_.fetch_sub(bytes, std::memory_order_relaxed);
}

// ---- the reservation

Reservation::Reservation(Reservation&& other) noexcept
    : block_(std::exchange(other.block_, nullptr)),
      account_(other.account_),
      charged_to_account_(other.charged_to_account_) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  reset();
  block_ = std::exchange(other.block_, nullptr);
  account_ = other.account_;
  charged_to_account_ = other.charged_to_account_;
  return *this;
}

Reservation::~Reservation() {
  reset();
}

std::span<std::byte> Reservation::head() const {
  return {block_->bytes, block_->head_bytes};
}

std::span<std::byte> Reservation::data() const {
  return {block_->bytes + block_->head_bytes, block_->data_bytes};
}

/// Finished, either way: no longer an unfinished frame.
void Reservation::settle() {
  if (account_ == nullptr) return;
  FrameStore::Impl& store = *block_->store;
  account_->give(charged_to_account_);
  store.ingest.give(charged_to_account_);
  store.room_waiters.signal_all();
}

void Reservation::reset() {
  if (block_ == nullptr) return;
  block_->store->free_block(*block_, nullptr);
  settle();
  block_ = nullptr;
}

// ---- the producer

Producer::Producer() = default;

Producer::Producer(std::shared_ptr<FrameRing> ring, std::uint64_t token, std::uint64_t epoch)
    : ring_(std::move(ring)), token_(token), epoch_(epoch), blocks_(new BlockCache) {}

Producer::Producer(Producer&& other) noexcept = default;

Producer& Producer::operator=(Producer&& other) noexcept {
  if (this == &other) return *this;
  release();
  ring_ = std::move(other.ring_);
  token_ = other.token_;
  epoch_ = other.epoch_;
  blocks_ = std::move(other.blocks_);
  return *this;
}

Producer::~Producer() {
  release();
}

void Producer::release() {
  if (ring_ == nullptr) return;
  RingState& ring = *ring_->state_;
  ring.store.return_blocks(*blocks_);
  std::uint64_t mine = token_ << 1U;
  // acq_rel: as in set_fence(). It fails when another producer has the ring already.
  if (ring.fence.compare_exchange_strong(
          mine, 0, std::memory_order_acq_rel, std::memory_order_relaxed))
    ring.store.slabs.close(ring.open_slab);
  ring_.reset();
}

Reserve Producer::may_reserve(std::uint64_t head_bytes, std::uint64_t cost) const {
  if (ring_ == nullptr) return Reserve::kFenced;
  const RingState& ring = *ring_->state_;
  // relaxed: an early answer; what counts is publish().
  if (ring.fence.load(std::memory_order_relaxed) != token_ << 1U) return Reserve::kFenced;
  if (cost > ring.store.frame_limit() || head_bytes > std::numeric_limits<std::uint32_t>::max())
    return Reserve::kTooLarge;
  return ring.full_of_held() ? Reserve::kNoRoom : Reserve::kGranted;
}

bool Producer::take_place(std::uint64_t head_bytes,
                          std::uint64_t data_bytes,
                          IngestAccount* charged,
                          std::uint64_t cost,
                          Reservation& out) {
  RingState& ring = *ring_->state_;
  Block* block = ring.store.take_block(*blocks_);
  std::optional<Place> place;
  if (block != nullptr) place = ring.store.place(ring, head_bytes + data_bytes);
  if (!place) {
    if (block != nullptr) blocks_->free[blocks_->count++] = block->index;
    return false;
  }
  block->bytes = place->bytes;
  block->slab = place->slab;
  block->head_bytes = static_cast<std::uint32_t>(head_bytes);
  block->data_bytes = data_bytes;
  block->ring = ring.id;
  out = Reservation(block, charged, cost);
  return true;
}

Reserve Producer::reserve_for(std::uint64_t head_bytes,
                              std::uint64_t data_bytes,
                              IngestAccount& account,
                              bool charge,
                              Reservation& out) {
  // The head is small beside what a share is made for; with it a frame of exactly the limit would
  // never fit.
  const std::uint64_t cost = std::max(data_bytes, head_bytes);
  const Reserve may = may_reserve(head_bytes, cost);
  if (may == Reserve::kFenced || may == Reserve::kTooLarge) return may;
  FrameStore::Impl& store = ring_->state_->store;
  const std::uint64_t limit = store.frame_limit();
  const auto refuse = [&store] {
    // relaxed: a figure.
    store.reserve_failures.fetch_add(1, std::memory_order_relaxed);
    return Reserve::kNoRoom;
  };
  if (may == Reserve::kNoRoom) return refuse();
  if (charge) {
    if (!account.take(cost, limit)) return refuse();
    if (!store.ingest.take(cost, store.ingest_limit(), false)) {
      account.give(cost);
      return refuse();
    }
  } else if (account.held().count + cost > limit ||
             !store.ingest.fits(cost, store.ingest_limit())) {
    return refuse();
  }
  if (take_place(head_bytes, data_bytes, charge ? &account : nullptr, cost, out))
    return Reserve::kGranted;
  if (charge) {
    account.give(cost);
    store.ingest.give(cost);
  }
  return refuse();
}

Reserve Producer::reserve_derived(std::uint64_t head_bytes,
                                  std::uint64_t data_bytes,
                                  Reservation& out) {
  const std::uint64_t cost = std::max(data_bytes, head_bytes);
  if (const Reserve may = may_reserve(head_bytes, cost); may != Reserve::kGranted) return may;
  return take_place(head_bytes, data_bytes, nullptr, cost, out) ? Reserve::kGranted
                                                                : Reserve::kNoRoom;
}

Publish Producer::publish(Reservation reservation, FrameInfo info) {
  SB_CHECK(reservation, "only a granted reservation is published");
  if (ring_ == nullptr) return Publish::kFenced;
  RingState& ring = *ring_->state_;
  std::uint64_t mine = token_ << 1U;
  // acquire: pairs with the release in set_fence(): we go on from what earlier producers wrote.
  if (!ring.fence.compare_exchange_strong(
          mine, mine | 1U, std::memory_order_acquire, std::memory_order_relaxed))
    return Publish::kFenced;

  // relaxed, all loads of our own fields: while the fence is ours, nobody else writes them.
  const std::uint64_t position = ring.head.load(std::memory_order_relaxed);
  const std::uint64_t before = ring.published_bytes.load(std::memory_order_relaxed);
  Block& block = *reservation.block_;
  SB_CHECK(block.ring == ring.id, "a reservation is published on the ring that granted it");
  block.info = info;
  block.info.position = position;
  block.info.epoch = epoch_;
  const std::uint64_t data_bytes = block.data_bytes;
  const Handle handle = block.publish_state();

  Slot& slot = ring.slot(position);
  // release, all four: a reader who sees one of these also sees head = position, stored by the last
  // publish, and so knows that the slot is no longer position - capacity's (remembered()).
  slot.sequence.store(info.sequence, std::memory_order_release);
  slot.bytes_before.store(before, std::memory_order_release);
  slot.epoch.store(epoch_, std::memory_order_release);
  Handle old = empty_handle(EvictReason::kNone);
  // acquire: pairs with raise_tail(): the slots below the tail are empty.
  if (position < ring.tail.load(std::memory_order_acquire) + kRingCapacity) {
    // Nobody but the producer writes an empty slot. release: pairs with the acquire in reference().
    slot.handle.store(handle, std::memory_order_release);
  } else {
    // A full ring. Whoever takes a handle out of a slot owns the ring's reference: an exchange,
    // never load and store, or an evictor between the two would give the same reference up again.
    // acq_rel: release as above; acquire pairs with the evictors' exchanges.
    old = slot.handle.exchange(handle, std::memory_order_acq_rel);
  }
  // release: bytes_from() reads it after head.
  ring.published_bytes.store(before + data_bytes, std::memory_order_release);
  if (ring.life_first_sequence.load(std::memory_order_relaxed) == 0)
    ring.life_first_sequence.store(info.sequence, std::memory_order_relaxed);  // before head
  // seq_cst, which includes release: pairs with the acquire loads of head (slot and block are
  // visible), stands before the loads of depth and watchers below.
  ring.head.store(position + 1, std::memory_order_seq_cst);
  // release: pairs with set_fence().
  ring.fence.store(token_ << 1U, std::memory_order_release);

  reservation.settle();
  reservation.block_ = nullptr;
  if (!is_empty(old)) {
    Block& displaced = ring.store.blocks.at(index_of(old));
    drop_ring(displaced, 0, blocks_.get());
    ring.raise_tail(position + 1 - kRingCapacity);
  }
  ring.evict_beyond_depth(blocks_.get());
  ring.watchers.visit([](const Watcher& watcher) { watcher.signal(); });
  return Publish::kPublished;
}

}  // namespace simbridge::frame
