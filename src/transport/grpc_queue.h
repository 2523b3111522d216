#pragma once
// What: one completion queue with its one poller thread: events of its calls, mail from other
// threads, timers. The poller is the strand of all that lives here. It starts when the queue is
// wanted and ends when it is not wanted any more and nothing lives here. Owner: shared by the
// server and the calls. Threads: post(), expect(), add_user(), set_wanted(), users(), any; here(),
// any; the rest the poller.
#include "simbridge/base/check.h"
#include "simbridge/base/clock.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/metrics.h"
#include "transport/grpc_permits.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace grpc {
class Alarm;
class ServerCompletionQueue;
}  // namespace grpc

namespace simbridge::transport::rpc {

/// What a completion queue gives back.
class Event {
 public:
  virtual void happened(bool ok) = 0;

 protected:
  Event() = default;
  ~Event() = default;
  Event(const Event&) = default;
  Event& operator=(const Event&) = default;
};

/// Lives on a queue: gets mail and its timer there.
class Recipient {
 public:
  virtual ~Recipient() { SB_CHECK(!timer_, "whose timer runs is not gone"); }
  Recipient(const Recipient&) = delete;
  Recipient& operator=(const Recipient&) = delete;

  /// After post(); several that come together are one.
  virtual void on_mail() = 0;
  virtual void on_time() {}
  /// When the queue had nothing else to do, after defer().
  virtual void on_idle() {}

 protected:
  Recipient() = default;

 private:
  // NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): final, its base's is protected
  friend class Queue;
  // acq_rel/release: who wins the exchange writes the two below; the poller has read them when it
  // clears the flag.
  std::atomic<bool> posted_{false};
  Recipient* next_ = nullptr;
  std::shared_ptr<Recipient> kept_;  // while it is in the mail
  std::optional<std::multimap<Monotonic, Recipient*>::iterator> timer_;
};

class Queue final : private Event {
 public:
  struct Shared {
    Permits& permits;
    metrics::Gauge& threads;
  };
  Queue(unsigned index, std::unique_ptr<grpc::ServerCompletionQueue> queue, const Shared& shared);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] grpc::ServerCompletionQueue& completions() { return *queue_; }
  /// This thread is the poller.
  [[nodiscard]] bool here() const;
  void post(std::shared_ptr<Recipient> recipient);
  /// Before gRPC is given an Event that another thread has made: gRPC orders that itself, but no
  /// tool that checks it can see so.
  void expect() { expected_.fetch_add(1, std::memory_order_release); }

  /// A queue that is wanted has a poller; one that is not keeps it while it has users.
  void set_wanted(bool wanted);
  void add_user();
  void remove_user();
  [[nodiscard]] std::size_t users() const;
  /// False: there are still some at the deadline.
  [[nodiscard]] bool wait_unused(Monotonic deadline) const SB_NO_ANALYSIS;

  // ---- the poller only
  /// Replaces the earlier time of this recipient.
  void set_timer(Recipient& recipient, Monotonic time);
  void drop_timer(Recipient& recipient);
  /// on_idle() once all events that are there now were handled.
  void defer(std::shared_ptr<Recipient> recipient);

  /// Waits until nothing lives here, ends the poller, empties the queue. From outside, once the
  /// server has shut down.
  void close();

 private:
  enum class Bell : std::uint8_t { kSilent, kRung, kClosed };

  void happened(bool ok) override;  // the bell
  void run();
  bool leave();
  void start() SB_REQUIRES(mutex_);
  void ring();
  void read_mail();
  void run_timers();
  void run_deferred();
  void drop_mail();
  /// Nothing: until an event comes.
  [[nodiscard]] std::optional<nanoseconds> wait() const;

  const unsigned index_;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const Shared shared_;

  // seq_cst on these three: a poller says that it waits and then looks for mail, who posts puts the
  // mail there and then looks whether it waits; and the bell is not rung again before it was heard.
  std::atomic<Recipient*> mail_{nullptr};
  std::atomic<bool> waits_{false};
  std::atomic<Bell> bell_{Bell::kSilent};
  const std::unique_ptr<grpc::Alarm> alarm_;
  std::atomic<std::uint64_t> expected_{0};  // release in expect(), acquire where an event comes

  std::multimap<Monotonic, Recipient*> timers_;
  std::vector<std::shared_ptr<Recipient>> deferred_;

  mutable Mutex mutex_;
  mutable std::condition_variable unused_;
  bool wanted_ SB_GUARDED_BY(mutex_) = false;
  bool closing_ SB_GUARDED_BY(mutex_) = false;
  bool running_ SB_GUARDED_BY(mutex_) = false;
  std::size_t users_ SB_GUARDED_BY(mutex_) = 0;
  std::thread thread_ SB_GUARDED_BY(mutex_);
};

}  // namespace simbridge::transport::rpc
