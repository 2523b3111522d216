#include "frame/block_pool.h"

#include "simbridge/base/check.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace simbridge::frame {

BlockPool::~BlockPool() {
  for (auto& chunk : chunks_) {
    // relaxed: the last user is gone, and whoever destroys the store has waited for it.
    Block* blocks = chunk.load(std::memory_order_relaxed);
    if (blocks != nullptr) ::munmap(blocks, kChunkBlocks * sizeof(Block));
  }
}

void BlockPool::give(Block& block) {
  // relaxed: a guess for the exchange.
  std::uint32_t top = returned_.load(std::memory_order_relaxed);
  do {
    block.next_free = top;
    // release: pairs with the acquire in collect(); the next owner sees what readers had done.
    // The stack is only ever taken whole, so that a top seen twice cannot mislead (no ABA).
  } while (!returned_.compare_exchange_weak(
      top, block.index, std::memory_order_release, std::memory_order_relaxed));
}

void BlockPool::collect() {
  // acquire: pairs with the release in give().
  std::uint32_t chain = returned_.exchange(kNoBlock, std::memory_order_acquire);
  while (chain != kNoBlock) {
    Block& block = at(chain);
    const std::uint32_t next = block.next_free;
    block.next_free = free_;
    free_ = chain;
    chain = next;
  }
}

bool BlockPool::revive() {
  if (awake_ + kChunkBlocks > cap_) return false;
  std::uint32_t which = 0;
  while (which < books_.size() && !books_[which].dormant) ++which;
  if (which == books_.size()) {
    if (which == kMaxChunks) return false;
    void* memory = ::mmap(nullptr,
                          kChunkBlocks * sizeof(Block),
                          PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1,
                          0);
    if (memory == MAP_FAILED) return false;
    // release: pairs with the acquire in at().
    chunks_[which].store(static_cast<Block*>(memory), std::memory_order_release);
    books_.push_back(Chunk{});
  }
  Chunk& chunk = books_[which];
  // relaxed: stored above or earlier under this mutex.
  Block* blocks = chunks_[which].load(std::memory_order_relaxed);
  for (std::uint32_t i = kChunkBlocks; i-- > 0;) {
    Block* block = &blocks[i];
    // Only a fresh chunk is constructed: a dormant block may still be looked at by a reader with an
    // old handle, who must find an atomic there at every instant (and finds 0 references).
    if (!chunk.made) block = new (block) Block;
    block->store = &store_;
    block->index = which * kChunkBlocks + i;
    // relaxed: free, and given out under this mutex. Generations go on where they were.
    block->state.store(std::uint64_t{chunk.generation} << 32U, std::memory_order_relaxed);
    block->next_free = free_;
    free_ = block->index;
  }
  chunk.made = true;
  chunk.dormant = false;
  awake_ += kChunkBlocks;
  return true;
}

std::size_t BlockPool::take(std::span<std::uint32_t> out) {
  const MutexLock lock(mutex_);
  std::size_t taken = 0;
  while (taken < out.size()) {
    if (free_ == kNoBlock) collect();
    if (free_ == kNoBlock && (taken > 0 || !revive())) break;
    out[taken++] = free_;
    free_ = at(free_).next_free;
  }
  return taken;
}

void BlockPool::set_cap(std::uint64_t blocks) {
  const MutexLock lock(mutex_);
  cap_ = std::max<std::uint64_t>(blocks, kChunkBlocks);
}

std::uint64_t BlockPool::trim() {
  const MutexLock lock(mutex_);
  collect();
  for (Chunk& chunk : books_) chunk.free_now = 0;
  for (std::uint32_t i = free_; i != kNoBlock; i = at(i).next_free) {
    Chunk& chunk = books_[i / kChunkBlocks];
    ++chunk.free_now;
    // relaxed: a free block's generation stands still.
    chunk.generation =
        std::max(chunk.generation,
                 static_cast<std::uint32_t>(at(i).state.load(std::memory_order_relaxed) >> 32U));
  }
  std::uint32_t kept = kNoBlock;
  for (std::uint32_t i = free_; i != kNoBlock;) {
    Block& block = at(i);
    const std::uint32_t next = block.next_free;
    if (books_[i / kChunkBlocks].free_now != kChunkBlocks) {
      block.next_free = kept;
      kept = i;
    }
    i = next;
  }
  free_ = kept;
  std::uint64_t returned = 0;
  for (std::uint32_t which = 0; which < books_.size(); ++which) {
    Chunk& chunk = books_[which];
    if (chunk.free_now != kChunkBlocks) continue;
    // The pages read as zeros from here on: generation 0, no reference. A reader with an old handle
    // is turned away by that just as by a free block.
    // relaxed: stored under this mutex.
    Block* blocks = chunks_[which].load(std::memory_order_relaxed);
    ::madvise(blocks, kChunkBlocks * sizeof(Block), MADV_DONTNEED);
    chunk.dormant = true;
    chunk.free_now = 0;
    awake_ -= kChunkBlocks;
    returned += kChunkBlocks * sizeof(Block);
  }
  return returned;
}

std::uint64_t BlockPool::bytes() const {
  const MutexLock lock(mutex_);
  return awake_ * sizeof(Block);
}

}  // namespace simbridge::frame
