#include "frame/arena.h"

#include "simbridge/base/check.h"
#include "simbridge/base/log.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

namespace simbridge::frame {
namespace {

constexpr std::uint32_t kAllUnits = 0xFFFFFFFF;
/// Warm memory that is worth having before anything is in use.
constexpr std::uint32_t kWarmAtRest = (8ULL << 20) / kUnitBytes;
/// One batch of the memory thread: long enough to be cheap, short enough that a shrink, which waits
/// for it, does not feel it.
constexpr std::uint32_t kBatchUnits = (16ULL << 20) / kUnitBytes;
constexpr std::uint64_t kSmallestArena = 64ULL << 20;
/// The first unit of a slab has 28 bits in a ring's open-slab word.
constexpr std::uint64_t kLargestArena = kUnitBytes << 28U;

std::string reason(int error) {
  return std::system_category().message(error);
}

constexpr std::uint32_t low_bits(std::uint32_t count) {
  return count >= 32 ? kAllUnits : (1U << count) - 1;
}

/// Where in the mask `count` set bits lie side by side, lowest first.
std::optional<std::uint32_t> run_of(std::uint32_t mask, std::uint32_t count) {
  for (std::uint32_t length = 1; length < count && mask != 0;) {
    const std::uint32_t step = std::min(length, count - length);
    mask &= mask >> step;
    length += step;
  }
  if (mask == 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::countr_zero(mask));
}

/// The first set bit at or behind `from` and below `end`.
std::optional<std::uint32_t> next_bit(const std::vector<std::uint64_t>& bits,
                                      std::uint32_t from,
                                      std::uint32_t end) {
  while (from < end) {
    const std::uint64_t word = bits[from / 64] >> (from % 64);
    if (word != 0) {
      from += static_cast<std::uint32_t>(std::countr_zero(word));
      return from < end ? std::optional(from) : std::nullopt;
    }
    from = (from / 64 + 1) * 64;
  }
  return std::nullopt;
}

void set_bit(std::vector<std::uint64_t>& bits, std::uint32_t index, bool on) {
  const std::uint64_t mask = std::uint64_t{1} << (index % 64);
  if (on)
    bits[index / 64] |= mask;
  else
    bits[index / 64] &= ~mask;
}

std::uint64_t default_address_space() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  const std::uint64_t memory =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                            : 0;
  return std::max<std::uint64_t>(2 * memory, 64ULL << 30);
}

/// Whether MADV_HUGEPAGE has an effect on a memfd here.
bool shmem_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string text;
  std::getline(file, text);
  return text.find("[advise]") != std::string::npos || text.find("[always]") != std::string::npos ||
         text.find("[within_size]") != std::string::npos ||
         text.find("[force]") != std::string::npos;
}

/// Maps the file at an address that is a multiple of the extent, so that huge pages fit.
std::byte* map_aligned(int fd, std::uint64_t size) {
  void* whole = ::mmap(
      nullptr, size + kExtentBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  auto* start = static_cast<std::byte*>(whole);
  const auto address = reinterpret_cast<std::uintptr_t>(whole);
  const std::uint64_t skip = (kExtentBytes - address % kExtentBytes) % kExtentBytes;
  std::byte* base = start + skip;
  void* mapped =
      ::mmap(base, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) {
    ::munmap(whole, size + kExtentBytes);
    return nullptr;
  }
  if (skip != 0) ::munmap(start, skip);
  if (skip != kExtentBytes) ::munmap(base + size, kExtentBytes - skip);
  return base;
}

}  // namespace

Result<std::unique_ptr<FrameArena>> FrameArena::create(const ArenaOptions& options,
                                                       const Budget& budget,
                                                       const Clock& clock) {
  std::uint64_t size =
      options.address_space.count != 0 ? options.address_space.count : default_address_space();
  rlimit file_size{};
  // Truncating beyond the limit would be answered by a signal, so it is asked first.
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur != RLIM_INFINITY)
    size = std::min<std::uint64_t>(size, file_size.rlim_cur);
  size = std::min(size, kLargestArena) / kExtentBytes * kExtentBytes;
  size = std::max(size, kSmallestArena);

  const int fd = ::memfd_create("simbridge-arena", MFD_CLOEXEC);
  if (fd < 0)
    return fail(ErrorCode::kSystem, fmt::format("frame memory: memfd_create: {}", reason(errno)));
  std::byte* base = nullptr;
  for (;; size = std::max(size / 2 / kExtentBytes * kExtentBytes, kSmallestArena)) {
    if (::ftruncate(fd, static_cast<off_t>(size)) == 0) base = map_aligned(fd, size);
    if (base != nullptr) break;
    const int error = errno;
    if (size == kSmallestArena) {
      ::close(fd);
      return fail(ErrorCode::kNoMemory,
                  fmt::format("frame memory: the kernel refuses a sparse mapping of {} MiB: {}; "
                              "raise the limits on address space and file size",
                              size >> 20U,
                              reason(error)));
    }
  }
  // Both are wishes: without them the arena works, slower or with bigger core files.
  ::madvise(base, size, MADV_HUGEPAGE);
  ::madvise(base, size, MADV_DONTDUMP);
  return std::unique_ptr<FrameArena>(
      new FrameArena(fd, base, size, options.idle_return, budget, clock));
}

FrameArena::FrameArena(int fd,
                       std::byte* base,
                       std::uint64_t size,
                       milliseconds idle_return,
                       const Budget& budget,
                       const Clock& clock)
    : fd_(fd),
      base_(base),
      size_(size),
      budget_(budget),
      clock_(clock),
      start_(clock.now()),
      idle_return_(idle_return),
      huge_pages_(shmem_huge_pages()),
      extents_(size / kExtentBytes),
      partial_((extents_.size() + 63) / 64),
      idle_(partial_.size()),
      fresh_(partial_.size()) {
  for (std::uint32_t e = 0; e < extents_.size(); ++e) set_bit(fresh_, e, true);
  memory_thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "sb-memory");
    memory_loop();
  });
}

FrameArena::~FrameArena() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  memory_thread_.join();
  {
    const MutexLock lock(mutex_);
    for (const Extent& extent : extents_)
      SB_CHECK(extent.used == 0, "every unit is back before the arena closes");
  }
  ::munmap(base_, size_);
  ::close(fd_);
}

std::uint32_t FrameArena::now_ms() const {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<milliseconds>(clock_.now() - start_).count());
}

// ---- the books

void FrameArena::classify(std::uint32_t index) {
  const Extent& extent = extents_[index];
  set_bit(partial_, index, extent.used != 0 && extent.used != kAllUnits);
  set_bit(idle_, index, extent.used == 0 && extent.touched != 0);
  set_bit(fresh_, index, extent.used == 0 && extent.touched == 0);
}

namespace {

/// The part of a run of units that lies in one extent.
struct Piece {
  std::uint32_t extent = 0;
  std::uint32_t mask = 0;
};
/// Cuts the first piece off.
Piece cut_piece(std::uint32_t& first, std::uint32_t& units) {
  const std::uint32_t start = first % kUnitsPerExtent;
  const std::uint32_t here = std::min(units, kUnitsPerExtent - start);
  const Piece piece{first / kUnitsPerExtent, low_bits(here) << start};
  first += here;
  units -= here;
  return piece;
}
std::uint32_t count_bits(std::uint32_t mask) {
  return static_cast<std::uint32_t>(std::popcount(mask));
}

}  // namespace

void FrameArena::mark_used(Range range, bool to_be_written) {
  while (range.units > 0) {
    const Piece piece = cut_piece(range.first, range.units);
    Extent& extent = extents_[piece.extent];
    SB_CHECK((extent.used & piece.mask) == 0, "a unit is handed out once");
    warm_ -= count_bits(piece.mask & extent.touched);
    committed_ += count_bits(piece.mask & ~extent.touched);
    extent.used |= piece.mask;
    extent.touched |= piece.mask;
    if (huge_pages_ && to_be_written) {  // the first write brings the whole extent
      committed_ += count_bits(~extent.touched);
      warm_ += count_bits(~extent.touched);
      extent.touched = kAllUnits;
    }
    classify(piece.extent);
    high_ = std::max(high_, piece.extent + 1);
  }
}

void FrameArena::mark_free(Range range, bool with_memory) {
  const std::uint32_t now = now_ms();
  if (with_memory)
    warm_ += range.units;
  else
    committed_ -= range.units;
  while (range.units > 0) {
    const Piece piece = cut_piece(range.first, range.units);
    Extent& extent = extents_[piece.extent];
    SB_CHECK((extent.used & piece.mask) == piece.mask, "a unit comes home once");
    extent.used &= ~piece.mask;
    if (with_memory)
      extent.freed_at_ms = now;
    else
      extent.touched &= ~piece.mask;
    classify(piece.extent);
  }
}

// ---- finding room

std::optional<std::uint32_t> FrameArena::find_in(const std::vector<std::uint64_t>& extents,
                                                 std::uint32_t units,
                                                 Wish wish) const {
  const auto end = static_cast<std::uint32_t>(extents_.size());
  for (auto e = next_bit(extents, 0, end); e; e = next_bit(extents, *e + 1, end)) {
    const Extent& extent = extents_[*e];
    const std::uint32_t usable = ~extent.used & (wish == Wish::kWarm ? extent.touched : kAllUnits);
    if (const auto at = run_of(usable, units)) return *e * kUnitsPerExtent + *at;
  }
  return std::nullopt;
}

/// Whole extents side by side, and the beginning of the next for the rest.
std::optional<std::uint32_t> FrameArena::find_across(std::uint32_t units, Wish wish) const {
  const std::uint32_t whole = units / kUnitsPerExtent;
  const std::uint32_t rest = low_bits(units % kUnitsPerExtent);
  const auto usable = [wish](const Extent& extent) {
    return ~extent.used & (wish == Wish::kWarm ? extent.touched : kAllUnits);
  };
  const auto end = static_cast<std::uint32_t>(extents_.size());
  std::uint32_t in_a_row = 0;
  for (std::uint32_t e = 0; e < end; ++e) {
    if (wish == Wish::kWarm && e >= high_) return std::nullopt;
    const std::uint32_t mask = usable(extents_[e]);
    if (in_a_row >= whole && (mask & rest) == rest) return (e - whole) * kUnitsPerExtent;
    in_a_row = mask == kAllUnits ? in_a_row + 1 : 0;
    if (in_a_row >= whole && rest == 0) return (e + 1 - whole) * kUnitsPerExtent;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> FrameArena::find(std::uint32_t units) const {
  if (units <= kUnitsPerExtent) {
    for (const Wish wish : {Wish::kWarm, Wish::kAny}) {
      if (auto found = find_in(partial_, units, wish)) return found;
      if (auto found = find_in(idle_, units, wish)) return found;
    }
    return find_in(fresh_, units, Wish::kAny);
  }
  if (auto warm = find_across(units, Wish::kWarm)) return warm;
  return find_across(units, Wish::kAny);
}

std::optional<std::uint32_t> FrameArena::take(std::uint32_t units) {
  std::uint32_t over = 0;
  std::optional<std::uint32_t> found;
  {
    const MutexLock lock(mutex_);
    found = find(units);
    if (!found) return std::nullopt;
    mark_used({*found, units}, true);
    const std::uint32_t limit = budget_.budget_units();
    if (committed_ > limit) over = std::min(committed_ - limit, warm_);
    if (warm_ < warm_target() / 2 && committed_ + kUnitsPerExtent <= limit) call_memory_thread();
  }
  // Fragmented: free memory stood elsewhere. It goes before ours is written to.
  if (over > 0) shed(over, std::nullopt);
  return found;
}

void FrameArena::give(std::uint32_t first, std::uint32_t units) {
  const MutexLock lock(mutex_);
  mark_free({first, units}, true);
  if (warm_ > warm_target()) call_memory_thread();
}

// ---- giving back

void FrameArena::Ranges::add(Range range) {
  units += range.units;
  // Ranges arrive from high to low: neighbours melt into one call.
  if (count > 0 && range.first + range.units == items[count - 1].first) {
    items[count - 1].first = range.first;
    items[count - 1].units += range.units;
    return;
  }
  items[count++] = range;
}

void FrameArena::collect_from(std::uint32_t index, Ranges& out) {
  std::uint32_t mask = extents_[index].touched & ~extents_[index].used;
  while (mask != 0 && !out.full()) {
    const auto top = 31U - static_cast<std::uint32_t>(std::countl_zero(mask));
    const auto length = static_cast<std::uint32_t>(std::countl_one(mask << (31U - top)));
    const std::uint32_t first = top + 1 - length;
    const Range range{index * kUnitsPerExtent + first, length};
    mask &= ~(low_bits(length) << first);
    mark_used(range, false);
    out.add(range);
  }
}

void FrameArena::collect_idle(std::uint32_t at_most,
                              std::optional<std::uint32_t> min_age_ms,
                              Ranges& out) {
  const std::uint32_t now = now_ms();
  for (const bool whole : {true, false}) {  // extents without any use first
    for (std::uint32_t e = high_; e-- > 0;) {
      if (out.units >= at_most || out.full()) return;
      const Extent& extent = extents_[e];
      if ((extent.used == 0) != whole || (extent.touched & ~extent.used) == 0) continue;
      if (min_age_ms && now - extent.freed_at_ms < *min_age_ms) continue;
      collect_from(e, out);
    }
  }
}

FrameArena::Shed FrameArena::shed(std::uint32_t at_most, std::optional<std::uint32_t> min_age_ms) {
  Ranges ranges;
  {
    const MutexLock lock(mutex_);
    collect_idle(at_most, min_age_ms, ranges);
    in_flight_ += ranges.units;
  }
  if (ranges.count == 0) return {};
  std::array<bool, std::tuple_size_v<decltype(ranges.items)>> gone{};
  std::uint32_t returned = 0;
  for (std::size_t i = 0; i < ranges.count; ++i) {
    const Range range = ranges.items[i];
    int result = 0;
    do {
      result = ::fallocate(fd_,
                           FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                           static_cast<off_t>(range.first * kUnitBytes),
                           static_cast<off_t>(range.units * kUnitBytes));
    } while (result != 0 && errno == EINTR);
    gone[i] = result == 0;
    if (gone[i])
      returned += range.units;
    else
      log(LogLevel::kError, "frame_punch", "frame memory: fallocate: {}", reason(errno));
  }
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < ranges.count; ++i) mark_free(ranges.items[i], !gone[i]);
  in_flight_ -= ranges.units;
  landed_.notify_all();
  return {.collected = ranges.units, .returned = returned};
}

Bytes FrameArena::trim() {
  std::uint32_t returned = 0;
  for (;;) {
    std::uint32_t excess = 0;
    {
      const MutexLock lock(mutex_);
      const std::uint32_t limit = budget_.budget_units();
      const std::uint32_t charged = budget_.charged_units();
      const std::uint32_t keep = std::min(warm_target(), limit - std::min(limit, charged));
      excess = warm_ - std::min(warm_, keep);
      if (committed_ > limit) excess = std::max(excess, std::min(warm_, committed_ - limit));
      if (excess == 0) {
        if (in_flight_ == 0) break;
        landed_.wait(mutex_);  // what another thread has in hand comes back as free or gone
        continue;
      }
    }
    const Shed now = shed(excess, std::nullopt);
    returned += now.returned;
    if (now.collected > 0 && now.returned == 0) break;  // the kernel refuses; the log has it
  }
  return Bytes{std::uint64_t{returned} * kUnitBytes};
}

// ---- the memory thread

std::uint32_t FrameArena::warm_target() const {
  // Never more ahead than what is in use: an idle bridge holds next to nothing.
  return std::min(warm_reserve_, std::max(kWarmAtRest, budget_.charged_units()));
}

void FrameArena::set_warm_reserve(Bytes bytes) {
  const MutexLock lock(mutex_);
  warm_reserve_ =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes.count, size_) / kUnitBytes);
  populate_failed_ = false;
  call_memory_thread();
}

void FrameArena::call_memory_thread() {
  if (called_) return;
  called_ = true;
  wake_.notify_one();
}

void FrameArena::populate_one() {
  Range range;
  {
    const MutexLock lock(mutex_);
    const auto end = static_cast<std::uint32_t>(extents_.size());
    std::optional<std::uint32_t> extent = next_bit(idle_, 0, end);
    while (extent && extents_[*extent].touched == kAllUnits)
      extent = next_bit(idle_, *extent + 1, end);
    if (!extent) extent = next_bit(fresh_, 0, end);
    if (!extent) {
      populate_failed_ = true;
      return;
    }
    range = {*extent * kUnitsPerExtent, kUnitsPerExtent};
    mark_used(range, true);
    in_flight_ += range.units;
  }
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;
#endif
  int result = 0;
  do {
    result = ::madvise(at(range.first), range.units * kUnitBytes, MADV_POPULATE_WRITE);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EINVAL) {  // before Linux 5.14: the file gets the memory at least
    result = ::fallocate(fd_,
                         FALLOC_FL_KEEP_SIZE,
                         static_cast<off_t>(range.first * kUnitBytes),
                         static_cast<off_t>(range.units * kUnitBytes));
  }
  if (result != 0)
    log(LogLevel::kWarning, "frame_populate", "frame memory: populate: {}", reason(errno));
  const MutexLock lock(mutex_);
  mark_free(range, true);  // on failure some of it may have memory all the same
  in_flight_ -= range.units;
  populate_failed_ = populate_failed_ || result != 0;
  landed_.notify_all();
}

void FrameArena::memory_loop() {
  const auto min_age = static_cast<std::uint32_t>(idle_return_.count());
  const milliseconds poll = std::clamp(idle_return_ / 8, milliseconds{5}, milliseconds{250});
  for (;;) {
    std::uint32_t surplus = 0;
    {
      const MutexLock lock(mutex_);
      if (stop_) return;
      const std::uint32_t target = warm_target();
      const bool want = warm_ < target && !populate_failed_ &&
                        committed_ + kUnitsPerExtent <= budget_.budget_units();
      if (!want && warm_ <= target) {
        called_ = false;
        while (!called_ && !stop_) wake_.wait(mutex_);
        continue;
      }
      surplus = warm_ > target ? std::min(warm_ - target, kBatchUnits) : 0;
    }
    if (surplus == 0) {
      populate_one();
    } else if (shed(surplus, min_age).returned == 0) {
      // Nothing has been idle for long enough: look again soon. called_ stays set, so that nobody
      // wakes us for what we are going to see anyway.
      const MutexLock lock(mutex_);
      called_ = true;
      if (!stop_) wake_.wait_for(mutex_, poll);
    }
  }
}

FrameArena::Figures FrameArena::figures() const {
  const MutexLock lock(mutex_);
  return {
      .committed = Bytes{committed_ * kUnitBytes},
      .warm = Bytes{warm_ * kUnitBytes},
      .huge_pages = huge_pages_,
  };
}

}  // namespace simbridge::frame
