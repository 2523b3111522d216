#pragma once
// What: the threads that decimate: as many as the plan says, more or fewer at any moment.
// Owner: the pipeline.   Threads: resize(), submit() any; stop() and the destructor from outside.
#include "pipeline/job_queue.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/metrics.h"

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

namespace simbridge::pipeline {

class Stream;
class Worker;

/// A raw position of a stream that somebody asked for.
struct Job {
  std::shared_ptr<Stream> stream;
  std::uint64_t position = 0;
};

class Pool {
 public:
  /// make: what a thread works with; it keeps its scratch from frame to frame.
  Pool(std::function<std::unique_ptr<Worker>()> make, metrics::Gauge& shown);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// false: as many wait as there is room for.
  bool submit(Job job);
  void resize(unsigned threads);
  [[nodiscard]] unsigned threads() const;
  [[nodiscard]] unsigned running() const;
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }
  bool run_one(Worker& worker);
  /// Lets what runs finish, drops what waits.
  void stop();

 private:
  void run() noexcept;
  bool leave();
  void note() SB_REQUIRES(mutex_);
  void reap() SB_REQUIRES(mutex_);

  static constexpr std::size_t kWaiting = 4096;
  JobQueue<Job, kWaiting> queue_;
  // As often as a job was put in, and once for each thread too many.
  std::counting_semaphore<> work_{0};
  const std::function<std::unique_ptr<Worker>()> make_;
  metrics::Gauge& gauge_;
  // relaxed: hints whether to look at the numbers below the lock.
  std::atomic<bool> surplus_{false};
  mutable Mutex mutex_;
  unsigned wanted_ SB_GUARDED_BY(mutex_) = 0;
  unsigned running_ SB_GUARDED_BY(mutex_) = 0;
  bool stopped_ SB_GUARDED_BY(mutex_) = false;
  std::list<std::thread> threads_ SB_GUARDED_BY(mutex_);
  std::vector<std::thread::id> finished_ SB_GUARDED_BY(mutex_);
};

}  // namespace simbridge::pipeline
