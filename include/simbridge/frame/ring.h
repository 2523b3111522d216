#pragma once
// What: the recent frames of one channel (or of one derived quality).   Owner: FrameStore; users
// hold shared_ptr. Threads: a Producer, one at a time (fenced); read() and the other const
// functions, any; evict and depth, any. Nobody waits for anybody: publishing and reading take no
// lock (docs/ring.md has the argument).
#include "simbridge/base/bytes.h"
#include "simbridge/frame/frame.h"
#include "simbridge/frame/wake.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace simbridge::frame {

class FrameStore;
class FrameRing;
struct RingState;   // private
struct BlockCache;  // private

/// Unfinished frames of one session, counted against the ingest share; no session has more than
/// half of it.
class IngestAccount {
 public:
  [[nodiscard]] Bytes held() const { return Bytes{held_.load(std::memory_order_relaxed)}; }

 private:
  friend class Producer;
  friend class Reservation;
  bool take(std::uint64_t bytes, std::uint64_t limit);
  void give(std::uint64_t bytes);
  std::atomic<std::uint64_t> held_{0};
};

/// Room for one frame in the arena, not yet visible to anybody. Gives its bytes back unless
/// published.
class [[nodiscard]] Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation();

  explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] std::span<std::byte> head() const;  // head_bytes long, as asked
  [[nodiscard]] std::span<std::byte> data()
      const;  // data_bytes long, as asked; directly behind head
  void reset();

 private:
  friend class Producer;
  Reservation(Block* block, IngestAccount* account, std::uint64_t bytes)
      : block_(block), account_(account), charged_to_account_(bytes) {}
  void settle();
  Block* block_ = nullptr;
  // Outlives the reservation: both belong to the session. None: its frame is at hand.
  IngestAccount* account_ = nullptr;
  std::uint64_t charged_to_account_ = 0;
};

enum class Reserve {
  kGranted,
  kNoRoom,    // not now: the ingest share or the budget is full with what may not be evicted, or
              // reliable readers have as many frames to come as the ring is deep
  kTooLarge,  // never, at this budget
  kFenced,    // another producer has the ring
};

enum class Publish { kPublished, kFenced };

/// The right to publish on a ring: a token that a takeover makes worthless.
/// Threads: one at a time (the session's strand). Destroying it frees the open slab's rest.
class [[nodiscard]] Producer {
 public:
  Producer();
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  ~Producer();

  explicit operator bool() const { return ring_ != nullptr; }
  /// Room for head_bytes + data_bytes. May evict (slow path). out is set only when granted.
  Reserve reserve(std::uint64_t head_bytes,
                  std::uint64_t data_bytes,
                  IngestAccount& account,
                  Reservation& out) {
    return reserve_for(head_bytes, data_bytes, account, true, out);
  }
  /// The same for a frame whose bytes are all at hand: published, or dropped, before the strand
  /// goes on. It needs room in the account and the ingest share too, but does not charge them: it
  /// is never unfinished.
  Reserve reserve_at_hand(std::uint64_t head_bytes,
                          std::uint64_t data_bytes,
                          IngestAccount& account,
                          Reservation& out) {
    return reserve_for(head_bytes, data_bytes, account, false, out);
  }
  /// The same for a frame that the bridge made itself: it comes out of no peer's share.
  Reserve reserve_derived(std::uint64_t head_bytes, std::uint64_t data_bytes, Reservation& out);
  /// Makes the frame visible, then wakes the watchers. position and epoch of info are filled in
  /// here. kFenced: the reservation is given back, nothing is visible.
  Publish publish(Reservation reservation, FrameInfo info);

 private:
  friend class FrameRing;
  Producer(std::shared_ptr<FrameRing> ring, std::uint64_t token, std::uint64_t epoch);
  void release();
  Reserve reserve_for(std::uint64_t head_bytes,
                      std::uint64_t data_bytes,
                      IngestAccount& account,
                      bool charge,
                      Reservation& out);
  /// Whether this producer may still reserve on its ring, and the ring takes a frame of that size.
  [[nodiscard]] Reserve may_reserve(std::uint64_t head_bytes, std::uint64_t cost) const;
  /// A block and its place in the arena, for a frame that was let in.
  bool take_place(std::uint64_t head_bytes,
                  std::uint64_t data_bytes,
                  IngestAccount* charged,
                  std::uint64_t cost,
                  Reservation& out);
  std::shared_ptr<FrameRing> ring_;
  std::uint64_t token_ = 0;
  std::uint64_t epoch_ = 0;
  std::unique_ptr<BlockCache> blocks_;  // free ones, at hand
};

/// What stands at a position: a frame, or why not.
struct ReadResult {
  FrameRef frame;  // empty unless the frame is there
  enum class State { kFrame, kNotYet, kGone } state = State::kNotYet;
};

/// Consecutive positions that a reader will not get, of one epoch and reason.
struct LostRun {
  std::uint64_t epoch = 0;
  std::uint64_t first = 0;  // sequence numbers; between them may be numbers that never were frames
  std::uint64_t last = 0;
  std::uint64_t frames = 0;  // positions
  EvictReason reason =
      EvictReason::kEvicted;  // kNone: still kept at the time of asking (the reader jumps over it)
};

/// One producer's life on the ring, for history and epochs. The newest 17 are remembered.
struct Life {
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // where its first frame is, or would be
  std::uint64_t end_position = 0;    // one past its last frame; of the current life = head
  std::uint64_t first_sequence = 0;  // of published frames; 0 = none yet
  std::uint64_t last_sequence = 0;
};

/// A reliable reader's claim: frames from here on are kept while memory allows.
/// Owner: the subscription; the ring has it in its list. Threads: advance() the reader's strand;
/// read by any.
class ReliableCursor {
 public:
  explicit ReliableCursor(std::uint64_t position) : position_(position) {}
  [[nodiscard]] std::uint64_t position() const { return position_.load(std::memory_order_acquire); }

 private:
  friend class FrameRing;
  std::atomic<std::uint64_t> position_;
};

class FrameRing : public std::enable_shared_from_this<FrameRing> {
 public:
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  // ---- producing
  /// Takes the ring over: an earlier Producer is fenced before this returns (it may wait some
  /// nanoseconds for one publish in progress). epoch equal to the current life's continues it, else
  /// a new life begins.
  Producer attach(std::uint64_t epoch);
  [[nodiscard]] bool has_producer() const;  // false after the current Producer was destroyed

  // ---- reading (any thread; no lock, except lost_runs, position_after and lives, which take the
  // ring's control lock for a moment: publish() never does)
  /// Positions tail..head-1 may be there. Both only ever rise.
  [[nodiscard]] std::uint64_t head() const;
  [[nodiscard]] std::uint64_t tail() const;
  [[nodiscard]] ReadResult read(std::uint64_t position) const;
  /// Names the frames at [from, to), to <= head(): runs of one epoch and reason, in order, frames
  /// summing to exactly to - from. Numbers that the books no longer hold are interpolated within
  /// the life.
  void lost_runs(std::uint64_t from, std::uint64_t to, std::vector<LostRun>& out) const;
  /// Payload data bytes published at positions [from, head). Used against queue_bytes. Exact while
  /// from's slot is remembered, else a lower bound.
  [[nodiscard]] std::uint64_t bytes_behind(std::uint64_t from) const;
  [[nodiscard]] std::uint64_t kept_frames() const;
  [[nodiscard]] Bytes kept_bytes() const;         // payload data bytes of kept frames
  [[nodiscard]] std::vector<Life> lives() const;  // oldest first, at most 17
  /// The position of the first frame of this epoch with a sequence above the given one (it may be
  /// gone already: then the position it had, exact while remembered, interpolated beyond). nullopt:
  /// epoch unknown. A sequence at or ahead of the newest: the position of the next frame to come
  /// (head, or the life's end).
  [[nodiscard]] std::optional<std::uint64_t> position_after(std::uint64_t epoch,
                                                            std::uint64_t sequence) const;

  // ---- watching (control lock of this ring; never taken by publish or read)
  void add_watcher(std::shared_ptr<const Watcher> watcher);
  void remove_watcher(const Watcher* watcher);
  /// Wakes the watchers as publish() does, without a frame.
  void wake_watchers() const;
  /// Who is told when reliable readers free room: the producing session. nullptr = nobody.
  void set_room_watcher(std::shared_ptr<const Watcher> watcher);

  // ---- reliable readers
  std::shared_ptr<ReliableCursor> add_reliable(std::uint64_t position);
  void remove_reliable(const ReliableCursor* cursor);
  void advance(ReliableCursor& cursor, std::uint64_t position) const;  // and wakes the room watcher
  /// Frames and payload bytes between the slowest reliable reader and head; 0 without one.
  struct Held {
    std::uint64_t frames = 0;
    Bytes bytes;
  };
  [[nodiscard]] Held held() const;

  // ---- depth (any thread, live)
  /// How many frames at most; evicts until it fits before it returns. 1..capacity. Frames that a
  /// reliable reader has not had stay until it had them, and count: reserve() says kNoRoom
  /// meanwhile.
  void set_depth(std::uint32_t frames);
  [[nodiscard]] std::uint32_t depth() const;
  void set_latched(bool latched);
  [[nodiscard]] bool latched() const;

 private:
  friend class FrameStore;
  friend class Producer;
  explicit FrameRing(std::unique_ptr<RingState> state);
  std::unique_ptr<RingState> state_;
};

}  // namespace simbridge::frame
