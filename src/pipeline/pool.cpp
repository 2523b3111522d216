#include "pipeline/pool.h"

#include "pipeline/stream.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace simbridge::pipeline {

Pool::Pool(std::function<std::unique_ptr<Worker>()> make, metrics::Gauge& shown)
    : make_(std::move(make)), gauge_(shown) {}

Pool::~Pool() {
  stop();
}

bool Pool::submit(Job job) {
  if (!queue_.push(std::move(job))) return false;
  work_.release();
  return true;
}

bool Pool::run_one(Worker& worker) {
  std::optional<Job> job = queue_.pop();
  if (!job) return false;
  job->stream->run(job->position, worker);
  return true;
}

// A job that throws is a defect, and ends the process here.
void Pool::run() noexcept {  // NOLINT(bugprone-exception-escape): on purpose
  pthread_setname_np(pthread_self(), "sb-decimate");
  const std::unique_ptr<Worker> worker = make_();
  for (;;) {
    work_.acquire();
    if (surplus_.load(std::memory_order_relaxed) && leave()) return;
    // The job that the semaphore counts may stand behind one that is just being written.
    while (!run_one(*worker) && queue_.size() > 0) std::this_thread::yield();
  }
}

bool Pool::leave() {
  const MutexLock lock(mutex_);
  if (running_ <= wanted_) return false;
  --running_;
  note();
  finished_.push_back(std::this_thread::get_id());
  return true;
}

void Pool::note() {
  surplus_.store(running_ > wanted_, std::memory_order_relaxed);
  gauge_.set(std::uint64_t{running_});
}

// Threads that have left run no more than their last instructions; joining them does not wait.
void Pool::reap() {
  for (const auto id : std::exchange(finished_, {})) {
    const auto it = std::ranges::find(threads_, id, &std::thread::get_id);
    it->join();
    threads_.erase(it);
  }
}

void Pool::resize(unsigned threads) {
  const MutexLock lock(mutex_);
  if (stopped_) return;
  reap();
  wanted_ = threads;
  for (; running_ < threads; ++running_) threads_.emplace_back([this] { run(); });
  note();
  if (running_ > threads) work_.release(static_cast<std::ptrdiff_t>(running_ - threads));
}

unsigned Pool::threads() const {
  const MutexLock lock(mutex_);
  return wanted_;
}

unsigned Pool::running() const {
  const MutexLock lock(mutex_);
  return running_;
}

void Pool::stop() {
  std::list<std::thread> left;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    wanted_ = 0;
    note();
    if (running_ > 0) work_.release(static_cast<std::ptrdiff_t>(running_));
    left.swap(threads_);
    finished_.clear();
  }
  for (std::thread& thread : left) thread.join();
  while (queue_.pop()) {
  }
}

}  // namespace simbridge::pipeline
