#pragma once
// What: std::mutex that Clang's analysis understands (libstdc++'s own is not annotated).   Threads:
// any.
#include "simbridge/base/thread_annotations.h"

#include <mutex>

namespace simbridge {

class SB_CAPABILITY("mutex") Mutex {
 public:
  void lock() SB_ACQUIRE() { mutex_.lock(); }
  void unlock() SB_RELEASE() { mutex_.unlock(); }
  bool try_lock() SB_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  /// For std::condition_variable only.
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class SB_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() SB_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace simbridge
