#pragma once
// What: the instruments (counter, gauge, histogram, families of counters) and the registry that
// holds one set of them for the catalogue. A module resolves its instruments once, at start
// (instruments.h); after that an observation is one relaxed fetch_add: no lookup, no lock. Owner:
// app makes one Registry, which outlives whoever holds references into it. Threads: instruments,
// any; resolving, set_info() and on_scrape(), any; scrape(), any, one at a time.
#include "simbridge/base/mutex.h"
#include "simbridge/metrics/catalogue.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace simbridge::metrics {

// All orders below are relaxed: a figure publishes nothing but itself, and a scrape may miss what
// happens while it reads. Each instrument has its own cache line, so that two busy ones do not slow
// each other.
inline constexpr std::size_t kLine = 64;

class alignas(kLine) Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  /// For a total that another structure keeps; called from a scrape hook only.
  void mirror(std::uint64_t total) { value_.store(total, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class alignas(kLine) Gauge {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void set(std::uint64_t value) { set(static_cast<std::int64_t>(value)); }
  void set(bool value) { set(std::int64_t{value ? 1 : 0}); }
  void add(std::int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// Fixed buckets over whole numbers; the catalogue's scale makes seconds of nanoseconds.
class alignas(kLine) Histogram {
 public:
  static constexpr std::size_t kMaxBounds = 24;

  void observe(std::uint64_t value) {
    std::size_t bucket = 0;
    while (bucket < bounds_.size() && value > bounds_[bucket]) ++bucket;
    buckets_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  void observe(std::chrono::nanoseconds time) {
    observe(time.count() > 0 ? static_cast<std::uint64_t>(time.count()) : 0);
  }
  [[nodiscard]] std::span<const std::uint64_t> bounds() const { return bounds_; }
  /// Of one bucket alone, not cumulative; index bounds().size() is what lies above the last bound.
  [[nodiscard]] std::uint64_t in_bucket(std::size_t index) const {
    return buckets_.at(index).load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  friend class Registry;
  std::span<const std::uint64_t> bounds_;
  std::array<std::atomic<std::uint64_t>, kMaxBounds + 1> buckets_{};
  std::atomic<std::uint64_t> sum_{0};
};

/// The counters of one labelled row, by an enum of the catalogue or (Key = unsigned) by a protocol
/// number. What the row does not know is counted under its first value, so that nothing vanishes.
template <typename Key>
class CounterFamily {
 public:
  CounterFamily(std::span<Counter> counters, std::span<const std::string_view> values)
      : counters_(counters), values_(values) {}

  Counter& operator[](Key key) const {
    const auto index = static_cast<std::size_t>(key);
    return counters_[index < counters_.size() && !values_[index].empty() ? index : 0];
  }

 private:
  std::span<Counter> counters_;
  std::span<const std::string_view> values_;
};

class Registry;

/// While it lives, its function runs at the start of every scrape, to set gauges from state that is
/// kept elsewhere. Its destructor waits for a scrape that is running it.
class [[nodiscard]] ScrapeHook {
 public:
  ScrapeHook() = default;
  ScrapeHook(ScrapeHook&& other) noexcept
      : registry_(std::exchange(other.registry_, nullptr)), id_(other.id_) {}
  ScrapeHook& operator=(ScrapeHook&& other) noexcept {
    if (this != &other) {
      release();
      registry_ = std::exchange(other.registry_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }
  ScrapeHook(const ScrapeHook&) = delete;
  ScrapeHook& operator=(const ScrapeHook&) = delete;
  ~ScrapeHook() { release(); }

  void release();

 private:
  friend class Registry;
  ScrapeHook(Registry* registry, std::uint64_t id) : registry_(registry), id_(id) {}
  Registry* registry_ = nullptr;
  std::uint64_t id_ = 0;
};

class Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Each takes a row of the catalogue of the matching type; anything else is a defect.
  [[nodiscard]] Counter& counter(const Metric& metric);
  [[nodiscard]] Gauge& gauge(const Metric& metric);
  [[nodiscard]] Histogram& histogram(const Metric& metric);
  template <typename Key>
  [[nodiscard]] CounterFamily<Key> counters(const Metric& metric) {
    return CounterFamily<Key>(counter_cells(metric), metric.values);
  }

  /// One value for each of the row's info_labels.
  void set_info(const Metric& metric, std::vector<std::string> values);

  /// The function must not touch the registry itself, only instruments.
  ScrapeHook on_scrape(std::function<void()> hook);

  /// Prometheus' text format 0.0.4.
  [[nodiscard]] std::string scrape();

 private:
  friend class ScrapeHook;
  class Collector;  // prometheus-cpp's view
  struct Hook {
    std::uint64_t id = 0;
    std::function<void()> run;
  };
  struct Cells {
    std::unique_ptr<Counter[]> counters;
    std::unique_ptr<Gauge> gauge;
    std::unique_ptr<Histogram> histogram;
    std::vector<std::string> info;
  };

  [[nodiscard]] Cells& cells(const Metric& metric, Type type);
  [[nodiscard]] std::span<Counter> counter_cells(const Metric& metric);
  void remove_hook(std::uint64_t id);

  std::array<Cells, kCatalogue.size()> cells_;
  Mutex mutex_;  // hooks and info; also held while a scrape runs
  std::vector<Hook> hooks_ SB_GUARDED_BY(mutex_);
  std::uint64_t next_hook_ SB_GUARDED_BY(mutex_) = 1;
};

/// docs/metrics.md, whole.
[[nodiscard]] std::string catalogue_markdown();
/// One line a metric: type, name, labels with values. What dashboards and alerts may rely on.
[[nodiscard]] std::string catalogue_list();

}  // namespace simbridge::metrics
