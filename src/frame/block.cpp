#include "frame/block.h"

#include "frame/store_impl.h"

#include <utility>

namespace simbridge::frame {

void drop_reader(Block& block) {
  FrameStore::Impl& store = *block.store;
  const std::uint64_t bytes = block.bytes_total();
  // acq_rel: release, what this reader did comes before the memory's next use; acquire, whoever is
  // last passes that on for all of them.
  const std::uint64_t before = block.state.fetch_sub(1, std::memory_order_acq_rel);
  SB_CHECK((before & kReferenceMask) != 0, "nobody gives up a reference that he does not have");
  if ((before & kReferenceMask) != 1) return;
  // The ring's reference went earlier, while we held ours: the frame was counted as pinned.
  // relaxed: a figure.
  store.pinned.fetch_sub(bytes, std::memory_order_relaxed);
  store.free_block(block, nullptr);
}

FrameRef::FrameRef(const FrameRef& other) : block_(other.block_) {
  if (block_ != nullptr) block_->add_reference();
}

void FrameRef::reset() {
  if (Block* block = std::exchange(block_, nullptr)) drop_reader(*block);
}

const FrameInfo& FrameRef::info() const {
  return block_->info;
}
std::span<const std::byte> FrameRef::head() const {
  return {block_->bytes, block_->head_bytes};
}
std::span<const std::byte> FrameRef::data() const {
  return {block_->bytes + block_->head_bytes, block_->data_bytes};
}
std::uint64_t FrameRef::data_bytes() const {
  return block_->data_bytes;
}

}  // namespace simbridge::frame
