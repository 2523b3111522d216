#pragma once
// What: the long calls of one queue, so that each can be told of a drain and of the end. Owner: the
// server.   Threads: the queue's poller; set() and count(), any.
#include "transport/grpc_call.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace simbridge::transport::rpc {

class Roster final : public Recipient, public std::enable_shared_from_this<Roster> {
 public:
  /// Every call of the queue hears of it, those that come later at their start.
  void set(Phase phase, Queue& queue) {
    // relaxed: the mail that follows orders it.
    phase_.store(phase, std::memory_order_relaxed);
    queue.post(shared_from_this());
  }
  [[nodiscard]] Phase phase() const { return phase_.load(std::memory_order_relaxed); }

  void add(Call& call) { calls_.push_back(&call); }
  void remove(Call& call) { std::erase(calls_, &call); }

  void on_mail() override {
    std::vector<std::shared_ptr<Call>> all;
    all.reserve(calls_.size());
    for (Call* call : calls_) all.push_back(call->shared_from_this());
    // One may end by what another does.
    for (const auto& call : all) {
      if (std::ranges::find(calls_, call.get()) != calls_.end()) call->logic().on_phase(phase());
    }
  }

 private:
  std::atomic<Phase> phase_{Phase::kServing};
  std::vector<Call*> calls_;
};

}  // namespace simbridge::transport::rpc
