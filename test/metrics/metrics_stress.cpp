// Many threads count while others scrape and hooks come and go.
#include "simbridge/metrics/instruments.h"

#include <catch2/catch.hpp>

#include <thread>
#include <vector>

namespace simbridge::metrics {
namespace {

TEST_CASE("nothing counted by many threads is lost, while scrapes and hooks come and go",
          "[metrics][concurrency]") {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kRounds = 100'000;
  Registry registry;
  const SessionMetrics session(registry);
  std::atomic<bool> done{false};  // relaxed: only ends the loops; join() orders everything else
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (unsigned i = 0; i < kRounds; ++i) {
        session.received_frames.add();
        session.gap_frames[i % kGapReasons.size()].add();
        session.age.observe(i * std::uint64_t{1000});
        session.open.add(i % 2 == 0 ? 1 : -1);
      }
    });
  }
  std::thread scraper([&] {
    while (!done.load(std::memory_order_relaxed)) CHECK(registry.scrape().size() > 1000);
  });
  std::thread hooker([&] {
    while (!done.load(std::memory_order_relaxed)) {
      int local = 0;  // a hook must never run after its scope
      const ScrapeHook hook = registry.on_scrape([&local] { ++local; });
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done.store(true, std::memory_order_relaxed);
  scraper.join();
  hooker.join();

  CHECK(session.received_frames.value() == kThreads * kRounds);
  std::uint64_t gaps = 0;
  for (unsigned i = 0; i < kGapReasons.size(); ++i) gaps += session.gap_frames[i].value();
  CHECK(gaps == kThreads * kRounds);
  std::uint64_t ages = 0;
  for (std::size_t i = 0; i <= session.age.bounds().size(); ++i) ages += session.age.in_bucket(i);
  CHECK(ages == kThreads * kRounds);
  CHECK(session.open.value() == 0);
}

}  // namespace
}  // namespace simbridge::metrics
