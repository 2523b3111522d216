#pragma once
// What: the threads that run the sessions: one queue of work, as many threads as the plan says.
// Owner: app, one per process; outlives every listener. Threads: resize(), threads() any, also from
// its own threads; the destructor and stop() from outside only.
#include <memory>

namespace simbridge::metrics {
class Gauge;
}

namespace simbridge::transport {

class IoPool {
 public:
  /// threads: from 1. gauge: shows how many there are.
  IoPool(unsigned threads, metrics::Gauge& gauge);
  ~IoPool();
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  /// Something else that has as many threads as the pool.
  class Follower {
   public:
    virtual void resize(unsigned threads) = 0;

   protected:
    Follower() = default;
    ~Follower() = default;
    Follower(const Follower&) = default;
    Follower& operator=(const Follower&) = default;
  };
  /// Told the size now, and at each resize() from here on, in its thread.
  void attach(Follower& follower);
  /// Not told any more when it returns.
  void detach(Follower& follower);

  /// More threads start at once; a thread too many leaves when it is through with what it runs, and
  /// what it would have run next is run by the others. No connection belongs to a thread, so none
  /// notices. Followers get the same size.
  void resize(unsigned threads);
  /// As last asked for.
  [[nodiscard]] unsigned threads() const;
  /// Threads that run now: above threads() while one that is too many finishes its work.
  [[nodiscard]] unsigned running() const;

  /// Lets running work finish, drops what waits, joins. After it, nothing of the pool runs again.
  void stop();

  struct Impl;  // private to the transport module
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace simbridge::transport
