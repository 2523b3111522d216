#pragma once
// What: all connections of a listener, so that it can count them, drop the oldest handshake and end
// them all. Owner: shared by the listener and its connections.   Threads: any.
#include "simbridge/base/clock.h"
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/metrics.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace simbridge::transport::ws {

/// Something that ends soon after it was told to. Threads: any.
class Live {
 public:
  virtual ~Live() = default;
  virtual void stop() = 0;

 protected:
  Live() = default;
  Live(const Live&) = default;
  Live& operator=(const Live&) = default;
};

class Registry : public std::enable_shared_from_this<Registry> {
 public:
  enum class Stage : std::uint8_t { kHandshake, kOpen };

  explicit Registry(metrics::Gauge& gauge) : gauge_(gauge) {}

  /// A place in the registry, held by what is registered until it is gone.
  class [[nodiscard]] Entry {
   public:
    Entry() = default;
    Entry(std::shared_ptr<Registry> registry, std::uint64_t id)
        : registry_(std::move(registry)), id_(id) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Entry(Entry&& other) noexcept
        : registry_(std::move(other.registry_)), id_(std::exchange(other.id_, 0)) {}
    Entry& operator=(Entry&& other) noexcept {
      std::swap(registry_, other.registry_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Entry() {
      if (registry_) registry_->remove(id_);
    }

   private:
    std::shared_ptr<Registry> registry_;
    std::uint64_t id_ = 0;
  };

  /// Told to stop at once where stop_all() was called already.
  Entry add(const std::shared_ptr<Live>& live, Stage stage) {
    std::uint64_t id = 0;
    bool stopped = false;
    {
      const MutexLock lock(mutex_);
      id = ++last_id_;
      (stage == Stage::kHandshake ? handshakes_ : open_).emplace(id, live);
      note();
      stopped = stopped_;
    }
    if (stopped) live->stop();
    return {shared_from_this(), id};
  }

  [[nodiscard]] std::size_t count() const {
    const MutexLock lock(mutex_);
    return handshakes_.size() + open_.size();
  }

  /// Where more than so many handshakes are under way: the oldest of them, to be told to stop; it
  /// counts as none from here on, so that the next call finds the next.
  [[nodiscard]] std::shared_ptr<Live> take_handshake_beyond(std::size_t most) {
    const MutexLock lock(mutex_);
    while (handshakes_.size() > most) {
      const auto node = handshakes_.extract(handshakes_.begin());
      open_.emplace(node.key(), node.mapped());
      if (auto live = node.mapped().lock()) return live;
    }
    return nullptr;
  }

  void stop_all() {
    std::vector<std::shared_ptr<Live>> all;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      for (const auto* list : {&handshakes_, &open_}) {
        for (const auto& [id, live] : *list) {
          if (auto held = live.lock()) all.push_back(std::move(held));
        }
      }
    }
    for (const auto& live : all) live->stop();
  }

  /// False: some are still there at the deadline.
  [[nodiscard]] bool wait_empty(Monotonic deadline) const SB_NO_ANALYSIS {
    std::unique_lock lock(mutex_.native());
    return empty_.wait_until(lock, deadline, [this] { return is_empty(); });
  }

 private:
  friend class Entry;

  // wait_until() calls it with the lock held, which the analysis cannot see.
  [[nodiscard]] bool is_empty() const SB_NO_ANALYSIS {
    return handshakes_.empty() && open_.empty();
  }

  void remove(std::uint64_t id) {
    const MutexLock lock(mutex_);
    if (handshakes_.erase(id) == 0) open_.erase(id);
    note();
    if (handshakes_.empty() && open_.empty()) empty_.notify_all();
  }
  void note() SB_REQUIRES(mutex_) {
    gauge_.set(static_cast<std::uint64_t>(handshakes_.size() + open_.size()));
  }

  metrics::Gauge& gauge_;
  mutable Mutex mutex_;
  mutable std::condition_variable empty_;
  std::uint64_t last_id_ SB_GUARDED_BY(mutex_) = 0;
  bool stopped_ SB_GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, std::weak_ptr<Live>> handshakes_ SB_GUARDED_BY(mutex_);  // oldest first
  std::map<std::uint64_t, std::weak_ptr<Live>> open_ SB_GUARDED_BY(mutex_);
};

}  // namespace simbridge::transport::ws
