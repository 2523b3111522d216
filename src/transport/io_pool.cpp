#include "simbridge/transport/io_pool.h"

#include "simbridge/base/check.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/metrics.h"
#include "transport/io_pool_impl.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <thread>
#include <utility>
#include <vector>

namespace simbridge::transport {

struct IoPool::Impl {
  explicit Impl(metrics::Gauge& shown)
      : gauge(shown), work(boost::asio::make_work_guard(context)) {}

  // A handler that throws is a defect, and ends the process here.
  void run() noexcept {  // NOLINT(bugprone-exception-escape): on purpose
    pthread_setname_np(pthread_self(), "sb-io");
    while (context.run_one() != 0) {
      // relaxed: only a hint whether to look at the numbers below the lock. A shrink posts one
      // empty handler for each thread too many, so every sleeper comes by here.
      if (surplus.load(std::memory_order_relaxed) > 0 && leave()) return;
    }
  }

  // True: this thread is one too many.
  bool leave() {
    const MutexLock lock(mutex);
    if (running <= wanted) return false;
    --running;
    note();
    finished.push_back(std::this_thread::get_id());
    return true;
  }

  void note() SB_REQUIRES(mutex) {
    surplus.store(static_cast<int>(running) - static_cast<int>(wanted), std::memory_order_relaxed);
    gauge.set(static_cast<std::uint64_t>(running));
  }

  // Threads that have left run no more than their last instructions; joining them does not wait.
  void reap() SB_REQUIRES(mutex) {
    for (const auto id : std::exchange(finished, {})) {
      const auto it = std::ranges::find(threads, id, &std::thread::get_id);
      it->join();
      threads.erase(it);
    }
  }

  metrics::Gauge& gauge;
  boost::asio::io_context context;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  std::atomic<int> surplus{0};
  mutable Mutex mutex;
  unsigned wanted SB_GUARDED_BY(mutex) = 0;
  unsigned running SB_GUARDED_BY(mutex) = 0;
  bool stopped SB_GUARDED_BY(mutex) = false;
  std::list<std::thread> threads SB_GUARDED_BY(mutex);
  std::vector<std::thread::id> finished SB_GUARDED_BY(mutex);
  std::vector<Follower*> followers SB_GUARDED_BY(mutex);
};

IoPool::IoPool(unsigned threads, metrics::Gauge& gauge) : impl_(std::make_unique<Impl>(gauge)) {
  resize(threads);
}

IoPool::~IoPool() {
  stop();
}

void IoPool::resize(unsigned threads) {
  SB_CHECK(threads >= 1, "a pool without threads would never serve anybody");
  Impl& pool = *impl_;
  const MutexLock lock(pool.mutex);
  if (pool.stopped) return;
  pool.reap();
  pool.wanted = threads;
  for (; pool.running < threads; ++pool.running) pool.threads.emplace_back([&pool] { pool.run(); });
  pool.note();
  for (unsigned i = threads; i < pool.running; ++i) boost::asio::post(pool.context, [] {});
  for (Follower* follower : pool.followers) follower->resize(threads);
}

void IoPool::attach(Follower& follower) {
  const MutexLock lock(impl_->mutex);
  impl_->followers.push_back(&follower);
  if (!impl_->stopped) follower.resize(impl_->wanted);
}

void IoPool::detach(Follower& follower) {
  const MutexLock lock(impl_->mutex);
  std::erase(impl_->followers, &follower);
}

unsigned IoPool::threads() const {
  const MutexLock lock(impl_->mutex);
  return impl_->wanted;
}

unsigned IoPool::running() const {
  const MutexLock lock(impl_->mutex);
  return impl_->running;
}

void IoPool::stop() {
  Impl& pool = *impl_;
  std::list<std::thread> left;
  {
    const MutexLock lock(pool.mutex);
    if (pool.stopped) return;
    pool.stopped = true;
    pool.wanted = pool.running;  // nobody leaves on his own from here on
    pool.note();
    left.swap(pool.threads);
  }
  pool.work.reset();
  pool.context.stop();
  for (std::thread& thread : left) thread.join();
  const MutexLock lock(pool.mutex);
  pool.running = 0;
  pool.wanted = 0;
  pool.finished.clear();
  pool.note();
}

boost::asio::io_context& context_of(IoPool& pool) {
  return pool.impl().context;
}

}  // namespace simbridge::transport
