// Rings under threads. Run under TSan (label concurrency); the checks are on without it too.
#include "frame_fixture.h"
#include "support/bell.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <random>
#include <thread>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::ReadResult;
using test::Bell;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kFrames = 60'000;
#else
constexpr std::uint64_t kFrames = 300'000;
#endif

/// What a reader got and what it was told it lost; Catch's macros are for one thread only.
struct Reader {
  std::uint64_t cursor = 0;
  std::uint64_t got = 0;
  std::uint64_t lost = 0;
  std::uint64_t told = 0;  // the sum over lost_runs
  std::string wrong;

  /// One step; false at the head.
  bool step(const frame::FrameRing& ring, std::vector<frame::LostRun>& runs) {
    auto result = ring.read(cursor);
    if (result.state == ReadResult::State::kNotYet) return false;
    if (result.state == ReadResult::State::kFrame) {
      if (result.frame.info().position != cursor) wrong = "another position than asked";
      if (!test::intact(result.frame)) wrong = "contents changed under a reference";
      ++got;
      ++cursor;
      return true;
    }
    const std::uint64_t next = std::max(cursor + 1, ring.tail());
    runs.clear();
    ring.lost_runs(cursor, next, runs);
    for (const auto& run : runs) told += run.frames;
    lost += next - cursor;
    cursor = next;
    return true;
  }
};

}  // namespace

TEST_CASE("every frame is got or counted as lost, whoever evicts and resizes meanwhile",
          "[frame][ring][stress]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  SystemClock clock;
  auto store = test::make_store({.budget = 8_MiB, .warm_reserve = 1_MiB, .depth = 64}, clock);
  auto ring = store->add_ring(false);
  auto other = store->add_ring(false);
  std::atomic<bool> done{false};
  std::atomic<bool> all_read{false};

  std::thread producer([&] {
    std::mt19937_64 random(seed);
    frame::IngestAccount account;
    auto right = ring->attach(1);
    for (std::uint64_t s = 1; s <= kFrames;) {
      const std::uint64_t bytes = random() % 64 == 0 ? random() % 100'000 : random() % 500;
      if (test::publish(right, account, s, bytes)) ++s;
    }
    done = true;
  });
  std::vector<Reader> readers(8);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(seed + i);
      std::vector<frame::LostRun> runs;
      std::vector<frame::FrameRef> held;
      Reader& reader = readers[i];
      for (;;) {
        const bool last_round = done;
        if (reader.step(*ring, runs)) {
          if (random() % 256 == 0) {  // lag, with a reference in hand
            held.push_back(ring->read(reader.cursor - 1).frame);
            if (held.size() > 3) held.erase(held.begin());
            std::this_thread::yield();
          }
          continue;
        }
        if (last_round) break;
        std::this_thread::yield();
      }
      for (const auto& frame : held) {
        if (frame && !test::intact(frame)) reader.wrong = "contents changed under a held reference";
      }
    });
  }
  std::thread resizer([&] {
    std::mt19937_64 random(seed + 100);
    while (!all_read) {
      ring->set_depth(1 + static_cast<std::uint32_t>(random() % 200));
      std::this_thread::yield();
    }
  });
  std::thread evictor([&] {  // a budget that goes up and down, and a neighbour who wants room
    std::mt19937_64 random(seed + 200);
    frame::IngestAccount account;
    auto right = other->attach(1);
    std::uint64_t s = 1;
    while (!all_read) {
      store->set_budget(Bytes{(2 + random() % 6) << 20U});
      for (int i = 0; i < 20; ++i) {
        if (test::publish(right, account, s, random() % 200'000)) ++s;
      }
    }
  });
  producer.join();
  for (auto& thread : threads) thread.join();
  all_read = true;
  resizer.join();
  evictor.join();

  CHECK(ring->head() == kFrames);
  for (const auto& reader : readers) {
    CHECK(reader.wrong.empty());
    CHECK(reader.cursor == kFrames);
    CHECK(reader.got + reader.lost == kFrames);
    CHECK(reader.told == reader.lost);
  }
  const auto stats = store->stats();
  CHECK(stats.pinned == 0_B);
  CHECK(stats.charged <= stats.budget);
  CHECK(stats.evicted_frames + stats.shrunk_frames == ring->tail() + other->tail());
}

TEST_CASE("a full ring: the producer and evictors reach for the same slot",
          "[frame][ring][stress]") {
  SystemClock clock;
  auto store = test::make_store({.budget = 16_MiB, .warm_reserve = 0_B, .depth = 4096}, clock);
  auto ring = store->add_ring(false);
  std::atomic<bool> done{false};
  std::vector<std::thread> evictors;
  evictors.reserve(2);
  for (std::uint32_t t = 0; t < 2; ++t) {
    evictors.emplace_back([&, t] {
      while (!done) {
        // The frame that goes stands in the slot that the producer is about to use.
        ring->set_depth(frame::kRingCapacity - 1 - t);
        ring->set_depth(frame::kRingCapacity);
      }
    });
  }
  Reader reader;
  std::thread consumer([&] {
    std::vector<frame::LostRun> runs;
    for (;;) {
      const bool last_round = done;
      reader.cursor = std::max(reader.cursor, ring->tail());  // where the three meet
      if (!reader.step(*ring, runs) && last_round) break;
    }
  });
  frame::IngestAccount account;
  {
    auto right = ring->attach(1);
    for (std::uint64_t s = 1; s <= 2 * kFrames;) {
      if (test::publish(right, account, s, 16, 8)) ++s;
    }
  }
  done = true;
  for (auto& thread : evictors) thread.join();
  consumer.join();
  CHECK(reader.wrong.empty());
  CHECK(store->stats().evicted_frames == ring->tail());
  CHECK(store->stats().pinned == 0_B);
  store->remove_ring(ring);
  CHECK(store->stats().evicted_frames == 2 * kFrames);
  CHECK(store->stats().charged <= 64_KiB);  // the shared slab, if it is open still
}

TEST_CASE("producers that take a ring from each other publish densely, each frame once",
          "[frame][ring][stress]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  SystemClock clock;
  auto store = test::make_store({.budget = 16_MiB, .warm_reserve = 0_B, .depth = 128}, clock);
  auto ring = store->add_ring(true);
  std::atomic<std::uint64_t> published{0};
  std::atomic<std::uint64_t> next_epoch{1};
  std::atomic<int> running{3};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      frame::IngestAccount account;
      for (std::uint64_t life = 0; life < kFrames / 100; ++life) {
        auto right = ring->attach(next_epoch.fetch_add(1));
        for (std::uint64_t s = 1; s <= 20; ++s) {
          if (!test::publish(right, account, s, s * 37)) break;
          published.fetch_add(1);
        }
      }
      running.fetch_sub(1);
    });
  }
  Reader reader;
  std::uint64_t last_epoch = 0;
  std::uint64_t last_sequence = 0;
  bool ordered = true;
  std::vector<frame::LostRun> runs;
  for (;;) {
    const bool last_round = running == 0;
    if (auto result = ring->read(reader.cursor); result.state == ReadResult::State::kFrame) {
      const auto& info = result.frame.info();
      if (info.epoch == last_epoch && info.sequence <= last_sequence) ordered = false;
      last_epoch = info.epoch;
      last_sequence = info.sequence;
    }
    if (!reader.step(*ring, runs)) {
      if (last_round) break;
      (void)ring->lives();
      std::this_thread::yield();
    }
  }
  for (auto& thread : threads) thread.join();
  CHECK(ordered);
  CHECK(reader.wrong.empty());
  CHECK(ring->head() == published);
  CHECK(reader.got + reader.lost == published);
  CHECK(reader.told == reader.lost);
}

TEST_CASE("a watcher is woken for every burst while others come and go", "[frame][ring][stress]") {
  SystemClock clock;
  auto store = test::make_store({.budget = 16_MiB, .warm_reserve = 0_B, .depth = 4096}, clock);
  auto ring = store->add_ring(false);
  Bell bell;
  auto queue = std::make_shared<frame::WakeQueue>([&] { bell.ring(); });
  std::atomic<bool> done{false};
  bool missed = false;
  std::uint64_t seen = 0;
  std::thread session([&] {
    auto watcher = std::make_shared<frame::Watcher>(frame::Watcher{queue, queue->add_slot()});
    ring->add_watcher(watcher);
    seen = ring->head();
    while (seen < kFrames) {
      if (!bell.wait()) {
        missed = true;
        break;
      }
      queue->drain([&](std::uint32_t) { seen = ring->head(); });
    }
    ring->remove_watcher(watcher.get());
  });
  std::vector<std::thread> churn;
  churn.reserve(2);
  for (int t = 0; t < 2; ++t) {
    churn.emplace_back([&] {
      auto mine = std::make_shared<frame::WakeQueue>([] {});
      while (!done) {
        auto watcher = std::make_shared<frame::Watcher>(frame::Watcher{mine, mine->add_slot()});
        ring->add_watcher(watcher);
        auto cursor = ring->add_reliable(ring->head());
        ring->advance(*cursor, ring->head());
        ring->remove_reliable(cursor.get());
        ring->remove_watcher(watcher.get());
        mine->remove_slot(watcher->slot);
      }
    });
  }
  frame::IngestAccount account;
  auto right = ring->attach(1);
  for (std::uint64_t s = 1; s <= kFrames;) {
    if (test::publish(right, account, s, 8)) ++s;
    if (s % 64 == 0) std::this_thread::yield();
  }
  session.join();
  done = true;
  for (auto& thread : churn) thread.join();
  CHECK_FALSE(missed);
  CHECK(seen == kFrames);
}

TEST_CASE("many producers under one small budget never charge more than it",
          "[frame][store][stress]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  SystemClock clock;
  constexpr Bytes kBudget = 6_MiB;
  auto store = test::make_store({.budget = kBudget, .warm_reserve = 2_MiB, .depth = 4096}, clock);
  std::atomic<int> running{4};
  std::atomic<bool> above{false};
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      frame::IngestAccount account;
      std::vector<frame::FrameRef> held;
      std::vector<frame::Reservation> rooms;
      for (int life = 0; life < 20; ++life) {
        auto ring = store->add_ring(random() % 2 == 0, random() % 4 == 0);
        auto right = ring->attach(1);
        std::uint64_t s = 0;
        for (std::uint64_t i = 0; i < kFrames / 400; ++i) {
          const std::uint64_t bytes = random() % 10 == 0 ? random() % 300'000 : random() % 6000;
          if (!test::publish(right, account, ++s, bytes)) continue;
          if (random() % 32 == 0) held.push_back(ring->read(ring->tail()).frame);
          if (held.size() > 8) {
            for (const auto& frame : held) {
              if (frame && !test::intact(frame)) wrong[t] = "contents changed";
            }
            held.clear();
          }
          frame::Reservation room;
          if (random() % 64 == 0 &&
              right.reserve(8, bytes, account, room) == frame::Reserve::kGranted)
            rooms.push_back(std::move(room));
          if (rooms.size() > 3) rooms.clear();
        }
        rooms.clear();
        store->remove_ring(ring);
        if (ring->attach(2)) wrong[t] = "a removed ring took a producer";
      }
      held.clear();
      running.fetch_sub(1);
    });
  }
  while (running > 0) {
    const auto stats = store->stats();
    if (stats.charged > kBudget) above = true;
    std::this_thread::yield();
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(above);
  for (const auto& text : wrong) CHECK(text.empty());
  const auto stats = store->stats();
  CHECK(stats.pinned == 0_B);
  CHECK(stats.ingest_held == 0_B);
  CHECK(stats.rings == 0);
}

TEST_CASE("pin tickets go out up to their share, and everybody who waits is told",
          "[frame][store][stress]") {
  SystemClock clock;
  auto store = test::make_store({.budget = 4_MiB, .warm_reserve = 0_B}, clock);
  constexpr Bytes kTicket = 400_KiB;
  std::atomic<std::uint64_t> out{0};
  std::atomic<bool> above{false};
  std::atomic<bool> missed{false};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      // Shared with the queue's wake, which another thread may still be about to call at the end.
      auto bell = std::make_shared<Bell>();
      auto queue = std::make_shared<frame::WakeQueue>([bell] { bell->ring(); });
      const auto watcher =
          std::make_shared<frame::Watcher>(frame::Watcher{queue, queue->add_slot()});
      for (std::uint64_t i = 0; i < kFrames / 60 && !missed;) {
        if (auto ticket = store->try_pin(kTicket, watcher)) {
          if (out.fetch_add(kTicket.count) + kTicket.count > store->pin_budget().count)
            above = true;
          std::this_thread::yield();
          out.fetch_sub(kTicket.count);
          ++i;
          continue;
        }
        if (!bell->wait()) missed = true;
        queue->drain([](std::uint32_t) {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(above);
  CHECK_FALSE(missed);
  CHECK(store->stats().pins_held == 0_B);
}
