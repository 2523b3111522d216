#include "cloud/voxel_map.h"

#include "kernels/sample.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace simbridge::cloud {
namespace {

constexpr std::uint64_t kSlotsPerCell =
    4;  // at least: more cells to a slot cost more than clearing
constexpr std::uint32_t kPrefetch = 16;
constexpr std::uint64_t kSlotsMax = std::uint64_t{1} << 32U;

// Two vector registers' worth of what GCC and Clang call vectors: one addition for three sums and
// the count.
using Narrow4 = std::uint16_t __attribute__((vector_size(8)));
using Wide4 = std::uint32_t __attribute__((vector_size(16)));
static_assert(std::endian::native == std::endian::little, "offset 0 is the lowest of the four");

Wide4 widened(std::uint64_t offsets) {
  return __builtin_convertvector(std::bit_cast<Narrow4>(offsets), Wide4);
}

}  // namespace

void VoxelMap::clear() {
  // As many slots as the last cloud needed: neighbours in time are alike, and the answer does not
  // depend on it.
  const std::uint64_t wanted = std::bit_ceil(
      std::max(tuning_.slots_first, kSlotsPerCell * (std::uint64_t{count_} + kBlockPoints)));
  cells_.grow(1 + std::size_t{kBlockPoints}, 0);
  cells_[0] = Cell{};
  count_ = 0;
  use_slots(wanted);
}

void VoxelMap::release() {
  slots_.release();
  cells_.release();
  count_ = 0;
}

void VoxelMap::use_slots(std::uint64_t slots) {
  slots_.need(slots);
  std::memset(slots_.data(), 0, slots * sizeof(Slot));
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  overfull_ = false;
  for (std::uint32_t id = 1; id <= count_; ++id) {
    const std::uint64_t product = cells_[id].key * kernels::kGolden;
    std::uint64_t at = product >> shift_;
    std::uint32_t probes = 0;
    while (slots_[at].id != 0) {
      at = (at + 1) & mask_;
      if (++probes > tuning_.probes_max) {
        overfull_ = true;
        return;
      }
    }
    slots_[at] = {tag_of(product), id};
  }
}

void VoxelMap::make_room(std::uint32_t points) {
  const std::uint64_t cells = std::uint64_t{count_} + points;
  cells_.grow(cells + 1, std::size_t{count_} + 1);
  if (cells * kSlotsPerCell > mask_ + 1)
    use_slots(std::min(kSlotsMax, std::max(4 * (mask_ + 1), std::bit_ceil(cells * kSlotsPerCell))));
}

template <bool Exactly>
bool VoxelMap::find_any(const KeyBlock& keys,
                        std::uint32_t points,
                        std::uint32_t first_point,
                        CellIds& ids) {
  make_room(points);
  if (overfull_) return false;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): filled as far as it is used
  Hashed hashed;
  for (std::uint32_t i = 0; i < points; ++i) {
    const std::uint64_t product = keys.key[i] * kernels::kGolden;
    hashed.home[i] = static_cast<std::uint32_t>(product >> shift_);
    hashed.tag[i] = tag_of(product);
  }
  Slot* const slots = slots_.data();
  Cell* const cells = cells_.data();
  for (std::uint32_t i = 0; i < points; ++i) {
    if (i + kPrefetch < points) __builtin_prefetch(slots + hashed.home[i + kPrefetch], 1);
    if (keys.key[i] == kernels::kNoKey) {
      ids[i] = 0;
      continue;
    }
    std::uint64_t at = hashed.home[i];
    const std::uint32_t tag = hashed.tag[i];
    std::uint32_t probes = 0;
    for (;;) {
      const Slot slot = slots[at];
      if (slot.id == 0) {
        const std::uint32_t id = ++count_;
        slots[at] = {tag, id};
        cells[id] = {.key = keys.key[i], .first = first_point + i};
        ids[i] = id;
        break;
      }
      if (slot.tag == tag && (!Exactly || cells[slot.id].key == keys.key[i])) {
        ids[i] = slot.id;
        break;
      }
      at = (at + 1) & mask_;
      if (++probes > tuning_.probes_max) [[unlikely]]
        return false;
    }
  }
  return true;
}

bool VoxelMap::find(const KeyBlock& keys,
                    std::uint32_t points,
                    std::uint32_t first_point,
                    CellIds& ids) {
  return find_any<false>(keys, points, first_point, ids);
}

bool VoxelMap::find_exactly(const KeyBlock& keys,
                            std::uint32_t points,
                            std::uint32_t first_point,
                            CellIds& ids) {
  return find_any<true>(keys, points, first_point, ids);
}

std::uint32_t VoxelMap::append(std::uint64_t key, std::uint32_t first_point) {
  cells_.grow(std::size_t{count_} + 2, std::size_t{count_} + 1);
  cells_[++count_] = {.key = key, .first = first_point};
  return count_;
}

bool VoxelMap::add(const KeyBlock& keys, std::uint32_t points, const CellIds& ids) {
  Cell* const cells = cells_.data();
  std::uint64_t lies = 0;
  for (std::uint32_t i = 0; i < points; ++i) {
    Cell& cell = cells[ids[i]];
    lies |= cell.key ^ keys.key[i];
    cell.sums = std::bit_cast<std::array<std::uint32_t, 4>>(
        static_cast<Wide4>(std::bit_cast<Wide4>(cell.sums) + widened(keys.offsets[i])));
  }
  return lies == 0;
}

bool VoxelMap::keep_nearest(const KeyBlock& keys,
                            std::uint32_t points,
                            std::uint32_t first_point,
                            const CellIds& ids) {
  Cell* const cells = cells_.data();
  std::uint64_t lies = 0;
  for (std::uint32_t i = 0; i < points; ++i) {
    Cell& cell = cells[ids[i]];
    lies |= cell.key ^ keys.key[i];
    const std::uint64_t here = kernels::nearness(keys.offsets[i], first_point + i);
    const bool opens = cell.first == first_point + i;  // nothing has stood there before
    if (opens || here < cell.nearest()) cell.set_nearest(here);
  }
  return lies == 0;
}

bool VoxelMap::check(const KeyBlock& keys, std::uint32_t points, const CellIds& ids) const {
  std::uint64_t lies = 0;
  for (std::uint32_t i = 0; i < points; ++i) lies |= cells_[ids[i]].key ^ keys.key[i];
  return lies == 0;
}

}  // namespace simbridge::cloud
