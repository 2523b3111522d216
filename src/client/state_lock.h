#pragma once
// What: the claim to a state file while a sender runs: a lock on FILE.lock beside it, since the
// file itself is replaced at each save. The kernel frees it however the process ends; the lock's
// file stays, for removing it would let two senders lock two files of one name.
// Owner: send.   Threads: one at a time.
#include "simbridge/base/result.h"

#include <string>
#include <string_view>
#include <utility>

namespace simbridge::client {

class StateLock {
 public:
  /// holder: what others are told of us. The error says who has it, or why it cannot be locked.
  [[nodiscard]] static Result<StateLock> take(const std::string& state_path,
                                              std::string_view holder);
  StateLock() = default;
  ~StateLock();
  StateLock(StateLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  StateLock& operator=(StateLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  explicit StateLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace simbridge::client
