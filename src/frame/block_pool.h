#pragma once
// What: all blocks of a store. They are made in chunks and handed out in batches.
// Owner: FrameStore.   Threads: any. give() takes no lock; take() takes one, once a batch.
#include "frame/block.h"
#include "simbridge/base/mutex.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace simbridge::frame {

class BlockPool {
 public:
  explicit BlockPool(FrameStore::Impl& store) : store_(store) {}
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Indices of free blocks, as many as asked or as there are. Never grows beyond the cap.
  std::size_t take(std::span<std::uint32_t> out) SB_EXCLUDES(mutex_);
  void give(Block& block);
  /// How many blocks there may be at most; blocks in use beyond it stay.
  void set_cap(std::uint64_t blocks) SB_EXCLUDES(mutex_);
  /// Gives the memory of chunks back whose blocks are all free. Returns the bytes.
  std::uint64_t trim() SB_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t bytes() const SB_EXCLUDES(mutex_);

  [[nodiscard]] Block& at(std::uint32_t index) const {
    // acquire: pairs with the release in revive(); a handle is seen only after its chunk was made.
    Block* chunk = chunks_[index / kChunkBlocks].load(std::memory_order_acquire);
    return chunk[index % kChunkBlocks];
  }

 private:
  static constexpr std::uint32_t kChunkBlocks = 1024;
  static constexpr std::uint32_t kMaxChunks = 1U << 15U;

  struct Chunk {
    bool made = false;
    bool dormant = false;          // memory given back; all blocks free and in no list
    std::uint32_t generation = 0;  // the highest that any of its blocks had when it went dormant
    std::uint32_t free_now = 0;    // scratch of trim()
  };

  bool revive() SB_REQUIRES(mutex_);
  void collect() SB_REQUIRES(mutex_);

  FrameStore::Impl& store_;
  std::array<std::atomic<Block*>, kMaxChunks> chunks_{};
  std::atomic<std::uint32_t> returned_{kNoBlock};  // a stack: many push, one takes all
  mutable Mutex mutex_;
  std::uint32_t free_ SB_GUARDED_BY(mutex_) = kNoBlock;
  std::vector<Chunk> books_ SB_GUARDED_BY(mutex_);
  std::uint64_t awake_ SB_GUARDED_BY(mutex_) = 0;  // blocks in chunks that have memory
  std::uint64_t cap_ SB_GUARDED_BY(mutex_) = 0;
};

}  // namespace simbridge::frame
