#pragma once
// What: a session's batch as gRPC messages: small pieces copied into one slice, large ones shared
// with the arena, so that gRPC holds no more than this one batch. Owner: one connection. Threads:
// the call's queue; gRPC lets go of shared memory in any thread.
#include "simbridge/base/clock.h"
#include "simbridge/session/peer.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

namespace grpc {
class ByteBuffer;
class Slice;
}  // namespace grpc

namespace simbridge::transport::rpc {

/// What gRPC was lent by a listener and has not let go of. Threads: any.
class Lent {
 public:
  void add() { count_.fetch_add(1, std::memory_order_relaxed); }
  void drop();
  /// Nothing is lent any more after it. False: there is still something at the deadline.
  [[nodiscard]] bool wait_none(Monotonic deadline);

 private:
  // seq_cst: who drops the last one sees that somebody waits, or the waiter sees 0.
  std::atomic<std::uint64_t> count_{0};
  std::atomic<bool> awaited_{false};
  std::mutex mutex_;
  std::condition_variable none_;
};

/// The shared memory of one batch, as long as gRPC has a slice of it.
class Hold {
 public:
  /// home: called once, in any thread, when the last slice was let go of after wait_home() had said
  /// false.
  Hold(std::shared_ptr<Lent> lent, std::function<void()> home);
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  /// Adds slices over these bytes.
  template <typename Add>
  void share(std::span<const std::byte> bytes, Add&& add);
  /// True: gRPC has no slice any more. False: home will tell.
  [[nodiscard]] bool wait_home();
  /// Bytes that gRPC has let go of, about: they went to the kernel.
  [[nodiscard]] std::uint64_t gone() const { return gone_.load(std::memory_order_relaxed); }
  /// The batch's owner goes: the memory's own references are given instead.
  static void leave(Hold* hold, std::shared_ptr<void> references);

 private:
  ~Hold();
  static void let_go(void* given);

  static constexpr std::uint32_t kOwner = 1U << 31U;
  static constexpr std::uint32_t kWanted = 1U << 30U;
  // Slices, and who waits for them. acq_rel throughout: whoever brings it to 0 frees the rest.
  std::atomic<std::uint32_t> state_{kOwner};
  std::atomic<std::uint64_t> gone_{0};  // relaxed: an estimate of progress
  std::shared_ptr<Lent> lent_;
  std::function<void()> home_;
  std::shared_ptr<void> references_;
};

class Outgoing {
 public:
  Outgoing(std::shared_ptr<Lent> lent, std::function<void()> home);
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// batch stays valid until done().
  void load(std::span<const session::OutMessage> batch);
  /// Messages are left of it.
  [[nodiscard]] bool more() const { return next_ < batch_.size(); }
  [[nodiscard]] bool last() const { return next_ + 1 == batch_.size(); }
  [[nodiscard]] bool shares() const { return hold_ != nullptr; }
  /// The next message.
  [[nodiscard]] grpc::ByteBuffer next();
  /// All messages were written, and gRPC has let go of the batch's memory; else home comes.
  [[nodiscard]] bool done();
  /// Bytes that moved since the last call, of shared memory.
  [[nodiscard]] std::uint64_t moved();
  /// Without a batch; references: of the memory that gRPC may still read.
  void give_up(std::shared_ptr<void> references);

 private:
  struct Copied;
  void release();

  std::shared_ptr<Lent> lent_;
  std::function<void()> home_;
  std::span<const session::OutMessage> batch_;
  std::size_t next_ = 0;
  std::unique_ptr<Copied> copied_;
  Hold* hold_ = nullptr;
  std::uint64_t moved_ = 0;
};

}  // namespace simbridge::transport::rpc
