#pragma once
// What: "this code runs on that strand", as a capability that Clang proves and the program checks.
// Owner: the object whose state lives on the strand.   Threads: assert_held() from the strand only.
#include "simbridge/base/check.h"
#include "simbridge/base/thread_annotations.h"

#include <functional>
#include <utility>

namespace simbridge {

/// Base knows no Asio: the owner hands in a function that asks its strand.
class SB_CAPABILITY("strand") StrandRole {
 public:
  StrandRole() = default;
  explicit StrandRole(std::function<bool()> running_here)
      : running_here_(std::move(running_here)) {}

  void assert_held() const SB_ASSERT_CAPABILITY(this) {
    const bool here = !running_here_ || running_here_();
    SB_CHECK(here, "a handler runs on the strand of its own session");
  }

 private:
  std::function<bool()> running_here_;
};

}  // namespace simbridge
