// The store as its users see it: budgets, who gives, pins, the door.
#include "frame_fixture.h"
#include "wait_until.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>

using namespace simbridge;            // NOLINT(google-build-using-namespace): a test
using namespace simbridge::literals;  // NOLINT(google-build-using-namespace): a test
using frame::EvictReason;
using frame::IngestAccount;
using frame::ReadResult;
using frame::Reserve;

namespace {

struct Fixture {
  SystemClock clock;
  std::unique_ptr<frame::FrameStore> store;
  IngestAccount account;

  void open(Bytes budget, std::uint32_t depth = 1024) {
    store = test::make_store({.budget = budget, .warm_reserve = 0_B, .depth = depth}, clock);
  }
};

struct Channel {
  Channel(frame::FrameStore& store, bool latched, bool derived = false)
      : ring(store.add_ring(latched, derived)), producer(ring->attach(1)) {}
  bool publish(IngestAccount& account, std::uint64_t bytes) {
    if (!test::publish(producer, account, sequence + 1, bytes)) return false;
    ++sequence;
    return true;
  }
  [[nodiscard]] bool has_newest() const {
    return ring->read(sequence - 1).state == ReadResult::State::kFrame;
  }
  std::shared_ptr<frame::FrameRing> ring;
  frame::Producer producer;
  std::uint64_t sequence = 0;
};

struct Counter {
  std::shared_ptr<int> count = std::make_shared<int>(0);
  std::shared_ptr<frame::WakeQueue> queue =
      std::make_shared<frame::WakeQueue>([count = count] { ++*count; });
  std::shared_ptr<const frame::Watcher> watcher =
      std::make_shared<frame::Watcher>(frame::Watcher{queue, queue->add_slot()});
  void drain() const {
    queue->drain([](std::uint32_t) {});
  }
};

/// Anonymous, file and shared pages of this process, of which only the named kind.
Bytes resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kib = 0;
    if (word == field + ":" && status >> kib) return Bytes{kib << 10U};
  }
  return {};
}

}  // namespace

TEST_CASE_METHOD(Fixture,
                 "a stream of clouds never displaces a small channel's newest message",
                 "[frame][store]") {
  open(64_MiB);
  std::vector<Channel> small;
  for (int i = 0; i < 100; ++i) {
    small.emplace_back(*store, i % 2 == 0);
    REQUIRE(small.back().publish(account, 200));
  }
  Channel cloud(*store, false);
  Channel map(*store, true);
  for (int i = 0; i < 50; ++i) {
    REQUIRE(cloud.publish(account, 5'000'000));
    REQUIRE(map.publish(account, 3'000'000));
  }
  CHECK(cloud.has_newest());
  CHECK(map.ring->kept_frames() > 3);
  for (const auto& channel : small) {
    CHECK(channel.has_newest());
    CHECK(test::intact(channel.ring->read(0).frame));
  }
}

TEST_CASE_METHOD(Fixture,
                 "the larger channel gives, and no more than is needed",
                 "[frame][store]") {
  open(32_MiB);
  Channel large(*store, false);
  Channel medium(*store, false);
  for (int i = 0; i < 20; ++i) REQUIRE(large.publish(account, 1'000'000));
  for (int i = 0; i < 8; ++i) REQUIRE(medium.publish(account, 1'000'000));
  const auto before = store->stats().evicted_frames;
  CHECK(before == 0);
  Channel late(*store, false);
  for (int i = 0; i < 8; ++i) REQUIRE(late.publish(account, 1'000'000));
  CHECK(medium.ring->tail() == 0);
  CHECK(late.ring->tail() == 0);
  CHECK(large.ring->tail() == store->stats().evicted_frames);
  CHECK(large.ring->tail() <= 6);  // 36 MB into 32 MiB
  std::vector<frame::LostRun> runs;
  large.ring->lost_runs(0, large.ring->tail(), runs);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].reason == EvictReason::kEvicted);
}

TEST_CASE_METHOD(Fixture,
                 "derived rings go before any raw newest, latched newest go last",
                 "[frame][store]") {
  open(16_MiB);
  Channel latched(*store, true);
  Channel derived(*store, false, true);
  Channel live(*store, false);
  Channel orphan(*store, false);
  for (auto* channel : {&latched, &derived, &live, &orphan}) {
    REQUIRE(channel->publish(account, 1'900'000));
  }
  orphan.producer = frame::Producer();
  CHECK_FALSE(orphan.ring->has_producer());
  const auto shrink = [&](Bytes bytes) {
    const auto report = store->set_budget(bytes);
    CHECK(store->stats().charged <= bytes);
    return report;
  };
  CHECK(shrink(6_MiB).frames == 0);  // what can be made again is no loss
  CHECK(derived.ring->kept_frames() == 0);
  CHECK(shrink(4_MiB).frames == 1);
  CHECK(orphan.ring->kept_frames() == 0);
  CHECK(shrink(2_MiB).frames == 1);
  CHECK(live.ring->kept_frames() == 0);
  CHECK(latched.has_newest());
  const auto report = shrink(1_MiB);
  CHECK(report.frames == 1);
  CHECK(report.bytes == Bytes{1'900'000});
  CHECK(latched.ring->kept_frames() == 0);
  CHECK(store->stats().shrunk_frames == 3);
  std::vector<frame::LostRun> runs;
  latched.ring->lost_runs(0, 1, runs);
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].reason == EvictReason::kShrink);
}

TEST_CASE_METHOD(Fixture,
                 "frames that a reliable reader has not had give way to a shrink only",
                 "[frame][store]") {
  open(32_MiB);
  Channel held(*store, false);
  Channel other(*store, false);
  auto cursor = held.ring->add_reliable(0);
  for (int i = 0; i < 8; ++i) REQUIRE(held.publish(account, 3'900'000));
  CHECK(held.ring->held().frames == 8);
  CHECK(held.ring->held().bytes == Bytes{8ULL * 3'900'000});
  CHECK_FALSE(other.publish(account, 3'900'000));
  CHECK_FALSE(held.publish(account, 3'900'000));
  CHECK(held.ring->kept_frames() == 8);
  CHECK(store->stats().reserve_failures == 2);

  Counter room;
  held.ring->set_room_watcher(room.watcher);
  Counter door;
  store->notify_room(door.watcher);
  held.ring->advance(*cursor, 2);
  CHECK(*room.count == 1);
  CHECK(*door.count == 1);
  CHECK(held.ring->held().frames == 6);
  REQUIRE(other.publish(account, 3'900'000));  // what the reader had is given
  CHECK(held.ring->tail() >= 1);
  CHECK(held.ring->tail() <= 2);

  const auto report = store->set_budget(9_MiB);
  CHECK(report.frames >= 6);
  CHECK(other.ring->kept_frames() == 0);  // first the other channel whole, then what is held
  CHECK(held.ring->kept_frames() >= 1);
  CHECK(store->stats().charged <= 9_MiB);
  held.ring->remove_reliable(cursor.get());
  CHECK(held.ring->held().frames == 0);
}

TEST_CASE_METHOD(Fixture,
                 "depth does not take what a reliable reader has not had",
                 "[frame][ring]") {
  open(32_MiB, 4);
  Channel channel(*store, false);
  auto cursor = channel.ring->add_reliable(0);
  for (int i = 0; i < 4; ++i) REQUIRE(channel.publish(account, 100));
  CHECK_FALSE(channel.publish(account, 100));
  channel.ring->set_depth(2);
  CHECK(channel.ring->kept_frames() == 4);
  channel.ring->advance(*cursor, 3);
  CHECK(channel.ring->kept_frames() == 2);
  REQUIRE(channel.publish(account, 100));
  channel.ring->remove_reliable(cursor.get());
  CHECK(channel.ring->kept_frames() == 2);
  REQUIRE(channel.publish(account, 100));
  CHECK(channel.ring->kept_frames() == 2);
}

TEST_CASE_METHOD(Fixture, "unfinished frames come out of the ingest share", "[frame][store]") {
  open(64_MiB);  // the share: 16 MiB; one session: 8 MiB
  CHECK(store->ingest_share() == 16_MiB);
  CHECK(store->max_frame_bytes() == 8_MiB);
  Channel a(*store, false);
  Channel b(*store, false);
  Channel c(*store, false);
  IngestAccount account_b;
  IngestAccount account_c;
  frame::Reservation room;
  CHECK(a.producer.reserve(100, (8_MiB).count + 1, account, room) == Reserve::kTooLarge);
  CHECK_FALSE(room);
  REQUIRE(a.producer.reserve(100, (8_MiB).count, account, room) == Reserve::kGranted);
  CHECK(room.head().size() == 100);
  CHECK(room.data().size() == (8_MiB).count);
  CHECK(room.data().data() == room.head().data() + 100);
  frame::Reservation more;
  CHECK(a.producer.reserve(0, 1000, account, more) == Reserve::kNoRoom);  // its half is used
  REQUIRE(b.producer.reserve(0, (7_MiB).count, account_b, more) == Reserve::kGranted);
  frame::Reservation third;
  CHECK(c.producer.reserve(0, (2_MiB).count, account_c, third) == Reserve::kNoRoom);
  CHECK(account_c.held() == 0_B);
  CHECK(store->stats().ingest_held == 15_MiB);

  Counter door;
  store->notify_room(door.watcher);
  more.reset();
  CHECK(*door.count == 1);
  REQUIRE(c.producer.reserve(0, (2_MiB).count, account_c, third) == Reserve::kGranted);
  const auto published = a.producer.publish(std::move(room), {.sequence = 1});
  REQUIRE(published == frame::Publish::kPublished);
  CHECK(account.held() == 0_B);
  third = {};
  CHECK(store->stats().ingest_held == 0_B);
  CHECK(*door.count == 1);  // told once
}

TEST_CASE_METHOD(Fixture,
                 "a first pin ticket is always given, the rest up to the share",
                 "[frame][store]") {
  open(16_MiB);  // pins: 4 MiB
  CHECK(store->pin_budget() == 4_MiB);
  auto first = store->try_pin(6_MiB, nullptr);
  REQUIRE(first);
  Counter waiter;
  CHECK_FALSE(store->try_pin(1_MiB, waiter.watcher));
  CHECK_FALSE(store->try_pin(1_MiB, waiter.watcher));
  CHECK(store->pin_waiters() == 1);
  first = {};
  CHECK(*waiter.count == 1);
  CHECK(store->pin_waiters() == 0);
  auto second = store->try_pin(3_MiB, nullptr);
  auto third = store->try_pin(1_MiB, nullptr);
  CHECK(second);
  CHECK(third);
  CHECK_FALSE(store->try_pin(1_B, nullptr));
  CHECK(store->stats().pins_held == 4_MiB);
  store->set_pin_share(0.5);
  CHECK(store->try_pin(1_B, nullptr));
}

TEST_CASE_METHOD(Fixture,
                 "a removed ring gives everything back, and its readers see it gone",
                 "[frame][store]") {
  open(32_MiB);
  Channel channel(*store, true);
  for (int i = 0; i < 100; ++i) REQUIRE(channel.publish(account, 5000));
  auto held = channel.ring->read(99).frame;
  store->remove_ring(channel.ring);
  CHECK(channel.ring->read(99).state == ReadResult::State::kGone);
  CHECK(channel.ring->kept_frames() == 0);
  CHECK_FALSE(channel.publish(account, 10));
  CHECK_FALSE(channel.ring->attach(5));
  CHECK(store->stats().rings == 0);
  CHECK(test::intact(held));
  held.reset();
  CHECK(store->stats().charged == 64_KiB);  // the shared slab, open for the next small channel
}

TEST_CASE_METHOD(Fixture, "a depth set for all rings holds for those to come", "[frame][store]") {
  open(32_MiB);
  Channel channel(*store, false);
  for (int i = 0; i < 50; ++i) REQUIRE(channel.publish(account, 10));
  store->set_depth(5);
  CHECK(channel.ring->kept_frames() == 5);
  CHECK(store->add_ring(false)->depth() == 5);
  store->set_depth(0);
  CHECK(channel.ring->depth() == 1);
  store->set_depth(100'000);
  CHECK(channel.ring->depth() == frame::kRingCapacity);
}

TEST_CASE_METHOD(Fixture, "a watcher is told of a frame, once a burst", "[frame][ring]") {
  open(32_MiB);
  Channel channel(*store, false);
  Counter session;
  channel.ring->add_watcher(session.watcher);
  for (int i = 0; i < 5; ++i) REQUIRE(channel.publish(account, 10));
  CHECK(*session.count == 1);
  session.drain();
  REQUIRE(channel.publish(account, 10));
  CHECK(*session.count == 2);
  session.drain();
  channel.ring->remove_watcher(session.watcher.get());
  REQUIRE(channel.publish(account, 10));
  CHECK(*session.count == 2);
}

TEST_CASE_METHOD(Fixture, "publishing, reserving and reading allocate nothing", "[frame][ring]") {
  open(32_MiB, 16);
  Channel channel(*store, false);
  for (int i = 0; i < 1000; ++i) REQUIRE(channel.publish(account, 100));
  const auto before = test::allocations();
  bool good = true;
  for (int i = 0; i < 10'000; ++i) {
    good = good && channel.publish(account, 100);
    auto frame = channel.ring->read(channel.ring->head() - 1).frame;
    good = good && frame && frame.data_bytes() == 100;
  }
  CHECK(test::allocations() == before);
  CHECK(good);
}

TEST_CASE("ten thousand channels with one small frame each cost little", "[frame][store]") {
  SystemClock clock;
  const auto anonymous_before = resident("RssAnon");
  auto store = test::make_store({}, clock);  // as it comes
  IngestAccount account;
  std::vector<Channel> channels;
  channels.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) {
    channels.emplace_back(*store, false);
    REQUIRE(channels.back().publish(account, 256));
  }
  REQUIRE(test::wait_until([&] { return store->stats().warm >= 4_MiB; }));
  const auto stats = store->stats();
  CHECK(stats.rings == 10'000);
  CHECK(stats.charged <= 8_MiB);
  CHECK(stats.committed <= 64_MiB);
  const auto books = resident("RssAnon") - anonymous_before;
  INFO("slots, blocks and books: " << books.count / 10'000 << " bytes a channel");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(books.count / 10'000 <= 8192);
#endif
  for (const auto& channel : channels) REQUIRE(channel.has_newest());
}
