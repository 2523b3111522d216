#pragma once
// What: the cells of one cloud: a hash from keys to cells, which lie densely in the order of their
// first points. The slots hold a tag of 32 bits; a hit is believed at once and proven by the sums'
// pass, which touches the cell anyway. A tag that lied (one frame in 10^5) makes the caller run the
// cloud again with find_exactly().   Owner: a decimator, one for all its frames.   Threads: one.
#include "cloud/buffer.h"
#include "cloud/stages.h"

#include <array>
#include <cstdint>

namespace simbridge::cloud {

/// Set otherwise by tests only, to walk the roads that clouds take once in a lifetime.
struct VoxelTuning {
  std::uint32_t tag_mask = ~0U;                          // fewer bits: tags lie more often
  std::uint32_t narrow_points = kernels::kNarrowPoints;  // of one cell; from there on wide sums
  std::uint32_t probes_max = 512;                        // of one point; beyond, keys are sorted
  std::uint64_t slots_first = 1024;
};

/// 32 bytes, so that two share a cache line and none straddles one.
struct alignas(32) Cell {
  std::uint64_t key = kernels::kNoKey;
  std::uint32_t first = 0;  // the cell's first point
  std::uint32_t unused = 0;
  alignas(16) std::array<std::uint32_t, 4> sums{};  // of the offsets, and the points

  [[nodiscard]] std::uint64_t nearest() const {
    return sums[0] | (static_cast<std::uint64_t>(sums[1]) << 32U);
  }
  void set_nearest(std::uint64_t best) {
    sums[0] = static_cast<std::uint32_t>(best);
    sums[1] = static_cast<std::uint32_t>(best >> 32U);
  }
};

/// Per point of a block its cell's number, from 1; 0 is where dropped points go.
using CellIds = std::array<std::uint32_t, kBlockPoints>;

class VoxelMap {
 public:
  explicit VoxelMap(const VoxelTuning& tuning) : tuning_(tuning) {}

  void clear();
  /// Finds the cells of a block, makes the missing ones. False: some key took too many probes; the
  /// cloud was made for that, and its keys must be sorted instead.
  [[nodiscard]] bool find(const KeyBlock& keys,
                          std::uint32_t points,
                          std::uint32_t first_point,
                          CellIds& ids);
  [[nodiscard]] bool find_exactly(const KeyBlock& keys,
                                  std::uint32_t points,
                                  std::uint32_t first_point,
                                  CellIds& ids);
  /// For sorted keys: a new cell, no slot.
  std::uint32_t append(std::uint64_t key, std::uint32_t first_point);

  /// Adds a block to its cells. False: a tag lied, the sums are not to be used.
  [[nodiscard]] bool add(const KeyBlock& keys, std::uint32_t points, const CellIds& ids);
  [[nodiscard]] bool keep_nearest(const KeyBlock& keys,
                                  std::uint32_t points,
                                  std::uint32_t first_point,
                                  const CellIds& ids);
  [[nodiscard]] bool check(const KeyBlock& keys, std::uint32_t points, const CellIds& ids) const;

  [[nodiscard]] std::uint32_t size() const { return count_; }
  [[nodiscard]] std::span<const Cell> cells() const { return {&cells_[1], count_}; }
  [[nodiscard]] std::uint64_t bytes() const { return slots_.bytes() + cells_.bytes(); }
  void release();

 private:
  struct Slot {
    std::uint32_t tag, id;
  };
  struct Hashed {
    std::array<std::uint32_t, kBlockPoints> home, tag;
  };
  template <bool Exactly>
  bool find_any(const KeyBlock& keys,
                std::uint32_t points,
                std::uint32_t first_point,
                CellIds& ids);
  void make_room(std::uint32_t points);
  void use_slots(std::uint64_t slots);
  [[nodiscard]] std::uint32_t tag_of(std::uint64_t product) const {
    return (static_cast<std::uint32_t>(product >> 32U) ^ static_cast<std::uint32_t>(product)) &
           tuning_.tag_mask;
  }

  VoxelTuning tuning_;
  Buffer<Slot> slots_;
  std::uint64_t mask_ = 0;
  int shift_ = 0;
  bool overfull_ = false;  // growing met too many probes
  Buffer<Cell> cells_;
  std::uint32_t count_ = 0;
};

}  // namespace simbridge::cloud
