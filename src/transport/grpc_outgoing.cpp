#include "transport/grpc_outgoing.h"

#include "simbridge/base/check.h"

#include <grpc/slice.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

namespace simbridge::transport::rpc {
namespace {

constexpr std::size_t kCopyBelow = 4096;
// A large frame is lent in several slices, so that its progress is seen: each is let go of when the
// kernel has it.
constexpr std::size_t kShareBytes = std::size_t{256} << 10U;

void copy_to(std::byte*& to, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::memcpy(to, bytes.data(), bytes.size());
  to += bytes.size();
}

bool is_copied(std::span<const std::byte> data) {
  return data.size() < kCopyBelow;
}

}  // namespace

// ---- Lent

void Lent::drop() {
  if (count_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (!awaited_.load(std::memory_order_seq_cst)) return;
  const std::lock_guard lock(mutex_);
  none_.notify_all();
}

bool Lent::wait_none(Monotonic deadline) {
  awaited_.store(true, std::memory_order_seq_cst);
  std::unique_lock lock(mutex_);
  return none_.wait_until(
      lock, deadline, [this] { return count_.load(std::memory_order_seq_cst) == 0; });
}

// ---- Hold

Hold::Hold(std::shared_ptr<Lent> lent, std::function<void()> home)
    : lent_(std::move(lent)), home_(std::move(home)) {
  lent_->add();
}

Hold::~Hold() {
  references_.reset();
  lent_->drop();  // its own reference keeps it through this call
}

template <typename Add>
void Hold::share(std::span<const std::byte> bytes, Add&& add) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kShareBytes));
    bytes = bytes.subspan(piece.size());
    state_.fetch_add(1, std::memory_order_acq_rel);
    // gRPC only reads it.
    add(grpc::Slice(const_cast<std::byte*>(piece.data()), piece.size(), &Hold::let_go, this));
  }
}

void Hold::let_go(void* given) {
  auto* const hold = static_cast<Hold*>(given);
  std::function<void()> home;
  std::uint32_t state = hold->state_.load(std::memory_order_acquire);
  hold->gone_.fetch_add(kShareBytes, std::memory_order_relaxed);
  do {
    // Copied before: with the last one's step the hold belongs to its owner alone.
    if (state == (kOwner | kWanted | 1U) && !home) home = hold->home_;
  } while (!hold->state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel));
  if (state == 1) {
    delete hold;
  } else if (state == (kOwner | kWanted | 1U)) {
    home();
  }
}

bool Hold::wait_home() {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  do {
    if (state == kOwner || state == (kOwner | kWanted)) return true;
  } while (!state_.compare_exchange_weak(state, state | kWanted, std::memory_order_acq_rel));
  return false;
}

void Hold::leave(Hold* hold, std::shared_ptr<void> references) {
  hold->references_ = std::move(references);
  const std::uint32_t before =
      hold->state_.fetch_and(~(kOwner | kWanted), std::memory_order_acq_rel);
  if ((before & ~(kOwner | kWanted)) == 0) delete hold;
}

// ---- Outgoing

struct Outgoing::Copied {
  grpc_slice slice = grpc_empty_slice();
  std::size_t used = 0;

  explicit Copied(std::size_t bytes) : slice(grpc_slice_malloc(bytes)) {}
  ~Copied() { grpc_slice_unref(slice); }
  Copied(const Copied&) = delete;
  Copied& operator=(const Copied&) = delete;
  grpc::Slice take(std::size_t bytes) {
    const grpc_slice part = grpc_slice_sub(slice, used, used + bytes);
    used += bytes;
    return {part, grpc::Slice::STEAL_REF};
  }
};

Outgoing::Outgoing(std::shared_ptr<Lent> lent, std::function<void()> home)
    : lent_(std::move(lent)), home_(std::move(home)) {}

Outgoing::~Outgoing() {
  give_up(nullptr);
}

void Outgoing::load(std::span<const session::OutMessage> batch) {
  SB_CHECK(batch_.empty(), "one batch is written before the next is lent");
  batch_ = batch;
  next_ = 0;
  moved_ = 0;
  std::size_t copied = 0;
  bool shared = false;
  for (const session::OutMessage& message : batch) {
    copied += message.prefix.size() + (is_copied(message.data) ? message.data.size() : 0);
    shared = shared || !is_copied(message.data);
  }
  copied_ = std::make_unique<Copied>(copied);
  std::byte* to = reinterpret_cast<std::byte*>(GRPC_SLICE_START_PTR(copied_->slice));
  for (const session::OutMessage& message : batch) {
    copy_to(to, message.prefix);
    if (is_copied(message.data)) copy_to(to, message.data);
  }
  if (shared) hold_ = new Hold(lent_, home_);
}

grpc::ByteBuffer Outgoing::next() {
  SB_CHECK(more(), "there is a message to write");
  const session::OutMessage& message = batch_[next_++];
  if (is_copied(message.data)) {
    const grpc::Slice whole = copied_->take(message.size());
    return {&whole, 1};
  }
  thread_local std::vector<grpc::Slice> slices;
  slices.clear();
  slices.push_back(copied_->take(message.prefix.size()));
  hold_->share(message.data, [](grpc::Slice slice) { slices.push_back(std::move(slice)); });
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  slices.clear();
  return buffer;
}

bool Outgoing::done() {
  if (batch_.empty() || more()) return false;
  if (hold_ != nullptr && !hold_->wait_home()) return false;
  release();
  return true;
}

std::uint64_t Outgoing::moved() {
  if (hold_ == nullptr) return 0;
  const std::uint64_t gone = hold_->gone();
  return gone - std::exchange(moved_, gone);
}

void Outgoing::give_up(std::shared_ptr<void> references) {
  if (hold_ != nullptr) Hold::leave(std::exchange(hold_, nullptr), std::move(references));
  release();
}

void Outgoing::release() {
  if (hold_ != nullptr) Hold::leave(std::exchange(hold_, nullptr), nullptr);
  copied_.reset();
  batch_ = {};
  next_ = 0;
}

}  // namespace simbridge::transport::rpc
