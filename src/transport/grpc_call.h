#pragma once
// What: one call as gRPC has it: reads, writes, the end; what it is for is its Logic. Owner:
// itself, until gRPC owes it no event any more.   Threads: its queue's poller, except where said.
#include "simbridge/base/clock.h"
#include "transport/grpc_queue.h"
#include "transport/grpc_received.h"

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace grpc {
class AsyncGenericService;
class ByteBuffer;
}  // namespace grpc

namespace simbridge::transport::rpc {

/// gRPC's own numbers.
enum class Code : std::uint8_t {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kResourceExhausted = 8,
  kAborted = 10,
  kUnimplemented = 12,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

struct Ending {
  Code code = Code::kOk;
  std::string text;
  /// When the peer may come again, in its trailers.
  std::optional<milliseconds> retry_after;
};

/// What the bridge tells all its calls.
enum class Phase : std::uint8_t { kServing, kDraining, kStopping };

/// What a call is for.
class Logic {
 public:
  virtual ~Logic() = default;
  Logic(const Logic&) = delete;
  Logic& operator=(const Logic&) = delete;

  virtual void start() = 0;
  /// false: the peer sends no more, or is gone.
  virtual void on_read(bool ok) = 0;
  virtual void on_written(bool ok) = 0;
  /// The status is on its way.
  virtual void on_finished() {}
  /// The call is over, whoever ended it. Nothing is called after it.
  virtual void on_over() = 0;
  virtual void on_phase(Phase /*phase*/) {}
  virtual void on_mail() {}
  virtual void on_time() {}
  virtual void on_idle() {}

 protected:
  Logic() = default;
};

class Call final : public Recipient, public std::enable_shared_from_this<Call> {
 public:
  /// Takes what arrived, and makes its logic; on the call's queue.
  using Dispatch = std::unique_ptr<Logic> (*)(void* server, Call& call);

  explicit Call(std::shared_ptr<Queue> queue);
  ~Call() override;

  // ---- before it has arrived; the server
  class Waiting {
   public:
    virtual void arrived(const std::shared_ptr<Call>& call, bool ok) = 0;

   protected:
    Waiting() = default;
    ~Waiting() = default;
    Waiting(const Waiting&) = default;
    Waiting& operator=(const Waiting&) = default;
  };
  /// waiting is told on the poller of notified.
  void request(grpc::AsyncGenericService& service, Queue& notified, Waiting& waiting);
  /// Hands it to its queue, whose user it becomes.
  void begin(Dispatch dispatch, void* server);

  // ---- for its logic
  [[nodiscard]] Queue& queue() { return *queue_; }
  /// Any thread: on_mail() will come, unless the call is over.
  void wake() { queue_->post(shared_from_this()); }
  void idle() { queue_->defer(shared_from_this()); }
  [[nodiscard]] std::string method() const;
  /// "127.0.0.1:50412"
  [[nodiscard]] std::string peer() const;
  void read();
  /// After on_read(true): the message, once.
  [[nodiscard]] Received take();
  struct WriteHow {
    bool more_follows = false;   // it may wait for the next in gRPC's buffer
    bool until_written = false;  // on_written() only when the kernel has it
  };
  void write(const grpc::ByteBuffer& message, WriteHow how);
  void write(std::string_view message);
  void finish(const Ending& ending);
  void write_and_finish(std::string_view message, const Ending& ending);
  /// Breaks it off; the peer sees CANCELLED.
  void cancel();
  /// None any more once the call is over: the queue would keep what is gone.
  void set_timer(Monotonic time) {
    if (!over_) queue_->set_timer(*this, time);
  }
  void drop_timer() { queue_->drop_timer(*this); }
  [[nodiscard]] Logic& logic() { return *logic_; }

  // ---- Recipient
  void on_mail() override;
  void on_time() override;
  void on_idle() override;

 private:
  enum class What : std::uint8_t { kArrived, kDone, kRead, kWritten, kFinished };
  struct Rpc;
  struct Tag;  // NOLINT(cppcoreguidelines-virtual-class-destructor): final, its base's is protected
  void happened(What what, bool ok);
  void maybe_over();

  const std::shared_ptr<Queue> queue_;
  std::unique_ptr<Rpc> rpc_;
  std::shared_ptr<Call> self_;  // while gRPC owes it an event
  Waiting* waiting_ = nullptr;
  Dispatch dispatch_ = nullptr;
  void* server_ = nullptr;
  std::unique_ptr<Logic> logic_;
  unsigned owed_ = 0;  // events
  bool done_ = false;
  bool started_ = false;
  bool over_ = false;
};

}  // namespace simbridge::transport::rpc
