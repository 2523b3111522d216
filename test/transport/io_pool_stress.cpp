// The I/O pool: grows and shrinks while it works, loses no work, and holds what was asked for.
#include "simbridge/transport/io_pool.h"

#include "simbridge/metrics/metrics.h"
#include "support/seed.h"
#include "transport/io_pool_impl.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace simbridge::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using transport::IoPool;

bool wait_for(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + 20s;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST_CASE("idle threads leave when the pool shrinks, and come when it grows", "[transport][pool]") {
  metrics::Gauge gauge;
  IoPool pool(1, gauge);
  CHECK(pool.threads() == 1);
  for (const unsigned threads : {8U, 3U, 3U, 1U, 5U, 2U}) {
    pool.resize(threads);
    CHECK(pool.threads() == threads);
    CHECK(wait_for([&] { return pool.running() == threads; }));
    CHECK(gauge.value() == threads);
  }
  pool.stop();
  CHECK(pool.running() == 0);
  CHECK(gauge.value() == 0);
}

TEST_CASE("a busy thread leaves when it is through, and its work is whole", "[transport][pool]") {
  metrics::Gauge gauge;
  IoPool pool(4, gauge);
  std::atomic<int> inside{0};
  std::atomic<bool> go{false};
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    boost::asio::post(transport::context_of(pool), [&] {
      inside.fetch_add(1, std::memory_order_relaxed);
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      done.fetch_add(1, std::memory_order_relaxed);
    });
  }
  REQUIRE(wait_for([&] { return inside.load(std::memory_order_relaxed) == 4; }));
  pool.resize(1);
  CHECK(pool.threads() == 1);
  CHECK(pool.running() == 4);  // nobody is torn from his work
  go.store(true, std::memory_order_release);
  CHECK(wait_for([&] { return pool.running() == 1; }));
  CHECK(wait_for([&] { return done.load(std::memory_order_relaxed) == 4; }));
}

TEST_CASE("strands stay in order and nothing is lost while the pool is resized",
          "[transport][pool]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  metrics::Gauge gauge;
  IoPool pool(2, gauge);
  constexpr std::size_t kStrands = 8;
  constexpr int kEach = 5000;
  struct Lane {
    explicit Lane(boost::asio::io_context& context) : strand(boost::asio::make_strand(context)) {}
    boost::asio::strand<boost::asio::io_context::executor_type> strand;
    int next = 0;  // plain: the strand alone guards it, and TSan watches
    bool in_order = true;
  };
  std::vector<std::unique_ptr<Lane>> lanes;
  for (std::size_t i = 0; i < kStrands; ++i) {
    lanes.push_back(std::make_unique<Lane>(transport::context_of(pool)));
  }
  std::atomic<int> done{0};
  std::atomic<bool> posting{true};
  std::vector<std::thread> resizers;
  for (std::uint64_t r = 0; r < 2; ++r) {
    resizers.emplace_back([&, r] {
      std::mt19937_64 random(seed + r);
      while (posting.load(std::memory_order_relaxed)) {
        pool.resize(static_cast<unsigned>(1 + random() % 6));
        std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < kEach; ++i) {
    for (auto& lane : lanes) {
      boost::asio::post(lane->strand, [&lane = *lane, &done, &pool, i] {
        lane.in_order = lane.in_order && lane.next == i;
        lane.next = i + 1;
        if (i % 1000 == 0) pool.resize(1 + static_cast<unsigned>(i) % 4);  // from inside, too
        done.fetch_add(1, std::memory_order_release);
      });
    }
  }
  CHECK(wait_for(
      [&] { return done.load(std::memory_order_acquire) == kEach * static_cast<int>(kStrands); }));
  posting.store(false, std::memory_order_relaxed);
  for (auto& thread : resizers) thread.join();
  for (const auto& lane : lanes) CHECK(lane->in_order);
  pool.resize(3);
  CHECK(wait_for([&] { return pool.running() == 3; }));
}

}  // namespace
}  // namespace simbridge::test
