#include "frame/slabs.h"

#include "simbridge/base/check.h"

#include <sys/mman.h>

#include <algorithm>

namespace simbridge::frame {
namespace {

constexpr std::uint32_t in_alignments(std::uint64_t bytes) {
  return static_cast<std::uint32_t>((bytes + kFrameAlignment - 1) / kFrameAlignment);
}
constexpr std::uint32_t capacity_of(SlabClass size) {
  return static_cast<std::uint32_t>(units_of(size) * kUnitBytes / kFrameAlignment);
}
constexpr std::uint64_t kFramesInASlab = 8;
constexpr std::uint32_t kSlabsInABudget = 16;

}  // namespace

std::optional<SlabClass> choose_class(std::uint64_t frame_bytes,
                                      std::uint64_t recent_bytes,
                                      std::uint32_t budget_units) {
  if (frame_bytes > kLargestPacked) return std::nullopt;
  const std::uint64_t wanted = std::max<std::uint64_t>(recent_bytes, 1) * kFramesInASlab;
  auto size = SlabClass::kLarge;
  for (const auto smaller : {SlabClass::kMedium, SlabClass::kSmall}) {
    if (wanted <= units_of(smaller) * kUnitBytes || units_of(size) * kSlabsInABudget > budget_units)
      size = smaller;
  }
  // An outlier would waste the rest of the slab that is open now and half of the next.
  if (frame_bytes > units_of(size) * kUnitBytes / 2) return std::nullopt;
  return size;
}

Slabs::Slabs(FrameArena& arena, Budget& budget)
    : arena_(arena), budget_(budget), table_bytes_(arena.size() / kUnitBytes * sizeof(Slab)) {
  void* memory = ::mmap(nullptr,
                        table_bytes_,
                        PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1,
                        0);
  SB_CHECK(memory != MAP_FAILED, "the slab table, far smaller than the arena, can be mapped");
  ::madvise(memory, table_bytes_, MADV_NOHUGEPAGE);
  table_ = static_cast<Slab*>(memory);  // zeros are a valid, unused entry
}

Slabs::~Slabs() {
  ::munmap(table_, table_bytes_);
}

std::optional<Place> Slabs::fill(std::atomic<std::uint64_t>& open, std::uint64_t bytes) const {
  const std::uint32_t size = in_alignments(bytes);
  // acquire here and in the exchange: pairs with the release in open(), so that writes into the
  // slab come after everything that its earlier users did.
  std::uint64_t word = open.load(std::memory_order_acquire);
  for (;;) {
    if (word == 0) return std::nullopt;
    OpenSlab now = OpenSlab::unpack(word);
    if (now.next + size > capacity_of(now.size)) return std::nullopt;
    const Place place{now.slab, arena_.at(now.slab) + now.next * kFrameAlignment};
    now.next += size;
    ++now.frames;
    if (open.compare_exchange_weak(
            word, now.pack(), std::memory_order_acquire, std::memory_order_acquire))
      return place;
  }
}

void Slabs::begin(std::uint32_t first,
                  std::uint32_t units,
                  std::uint32_t live,
                  RingAccount* account) {
  Slab& slab = table_[first];
  slab.units = units;
  slab.account = account;
  if (account != nullptr) {
    account->charge(units);
    account->add_user();
  }
  // relaxed: nobody else knows of the slab before a frame in it is published.
  slab.live.store(live, std::memory_order_relaxed);
}

Place Slabs::open(std::atomic<std::uint64_t>& open,
                  std::uint32_t first,
                  SlabClass size,
                  std::uint64_t bytes,
                  RingAccount* account) {
  begin(first, units_of(size), kOpen, account);
  const OpenSlab fresh{
      .slab = first,
      .size = size,
      .next = in_alignments(bytes),
      .frames = 1,
  };
  // acq_rel: release pairs with the acquire in fill() and close(), acquire with the earlier open().
  const std::uint64_t old = open.exchange(fresh.pack(), std::memory_order_acq_rel);
  if (old != 0) {
    const OpenSlab before = OpenSlab::unpack(old);
    lower(before.slab, kOpen - before.frames);
  }
  return {first, arena_.at(first)};
}

void Slabs::close(std::atomic<std::uint64_t>& open) {
  // acquire: pairs with the release in open(): the table's entry is visible.
  const std::uint64_t old = open.exchange(0, std::memory_order_acquire);
  if (old == 0) return;
  const OpenSlab before = OpenSlab::unpack(old);
  lower(before.slab, kOpen - before.frames);
}

Place Slabs::alone(std::uint32_t first, std::uint32_t units, RingAccount* account) {
  begin(first, units, 1, account);
  return {first, arena_.at(first)};
}

bool Slabs::frame_gone(std::uint32_t slab) {
  return lower(slab, 1);
}

bool Slabs::lower(std::uint32_t first, std::uint32_t by) {
  Slab& slab = table_[first];
  // acq_rel: the last one sees that all other users of the memory are done; who takes it next is
  // ordered behind us by the arena's mutex.
  const std::uint32_t before = slab.live.fetch_sub(by, std::memory_order_acq_rel);
  SB_CHECK(before >= by, "a slab does not lose more frames than it had");
  if (before != by) return false;
  const std::uint32_t units = slab.units;
  RingAccount* account = slab.account;
  slab.account = nullptr;
  if (account != nullptr) {
    account->uncharge(units);
    account->drop_user();
  }
  arena_.give(first, units);
  // After give(): whoever wins the charge finds the units.
  budget_.uncharge(units);
  return true;
}

}  // namespace simbridge::frame
