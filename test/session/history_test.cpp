// Where a subscription begins (protocol.md §4, History; §3, latched).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

std::vector<std::uint64_t> numbers(FakePeer& peer) {
  std::vector<std::uint64_t> all;
  for (const auto& frame : peer.frames()) all.push_back(frame.sequence());
  return all;
}

std::vector<std::uint64_t> range(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> all;
  for (; first <= last; ++first) all.push_back(first);
  return all;
}

void from(v1::Subscribe& subscribe,
          const std::string& channel,
          std::uint64_t epoch,
          std::uint64_t sequence) {
  subscribe.set_history(v1::HISTORY_FROM);
  auto* position = subscribe.add_from();
  position->set_channel(channel);
  position->set_epoch(epoch);
  position->set_sequence(sequence);
}

/// Ten frames of epoch 7 on channel "a", the first of them numbered.
struct Bench {
  explicit Bench(std::uint64_t first = 1) {
    sensor.advertise(1, "a", 7);
    for (std::uint64_t i = 0; i < 10; ++i) sensor.frame(1, first + i);
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
};

}  // namespace

TEST_CASE("history NONE begins with the next frame, LAST with the newest, ALL_KEPT with the oldest",
          "[session][history]") {
  Bench bench;
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a");
  CHECK(peer.frames().empty());
  bench.sensor.frame(1, 11);
  CHECK(numbers(peer) == range(11, 11));
  peer.subscribe(2, "a", [](auto& s) { s.set_history(v1::HISTORY_LAST); });
  CHECK(numbers(peer) == range(11, 11));
  peer.subscribe(3, "a", [](auto& s) { s.set_history(v1::HISTORY_ALL_KEPT); });
  CHECK(numbers(peer) == range(1, 11));  // queue_frames does not limit what history promised
  bench.bridge.store->set_depth(4);
  peer.subscribe(4, "a", [](auto& s) { s.set_history(v1::HISTORY_ALL_KEPT); });
  CHECK(numbers(peer) == range(8, 11));
  CHECK(peer.gaps().empty());
  bench.bridge.check_books();
}

TEST_CASE("history is read when a subscription first meets a channel, not again when it changes",
          "[session][history]") {
  Bench bench;
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a");
  peer.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_ALL_KEPT); });
  CHECK(peer.frames().empty());
  peer.subscribe(1, "b");
  bench.sensor.frame(1, 11);
  peer.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_ALL_KEPT); });
  CHECK(numbers(peer) == range(11, 11));  // what came meanwhile; nothing from before it left
  peer.subscribe(1, "b");
  peer.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_ALL_KEPT); });
  CHECK(peer.frames().empty());  // and nothing twice
  CHECK(peer.gaps().empty());
  bench.bridge.check_books();
}

TEST_CASE("a channel that is born after the subscription is promised from its first frame",
          "[session][history]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  peer.subscribe(1, "new/*", [](auto& s) { s.set_queue_frames(100); });
  FakePeer sensor(bridge);
  sensor.advertise(1, "new/one");
  for (std::uint64_t i = 1; i <= 5; ++i) sensor.frame(1, i);  // before the session looks
  CHECK(numbers(peer) == range(1, 5));
  CHECK(peer.gaps().empty());
  const auto books = bridge.subscription(peer.id(), 1, "new/one");
  REQUIRE(books);
  CHECK(books->promised == 5);
  bridge.check_books();
}

TEST_CASE("FROM goes on after the position, without a gap where the frames are kept",
          "[session][history]") {
  Bench bench;
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 4); });
  CHECK(numbers(peer) == range(5, 10));
  peer.subscribe(2, "a", [](auto& s) { from(s, "a", 7, 10); });
  CHECK(peer.frames().empty());
  bench.sensor.frame(1, 11);
  CHECK(numbers(peer).size() == 2);
  CHECK(peer.gaps().empty());
  bench.bridge.check_books();
}

TEST_CASE("FROM a position whose frames are partly evicted tells the missing head",
          "[session][history]") {
  Bench bench;
  bench.bridge.store->set_depth(3);
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 4); });
  CHECK(numbers(peer) == range(8, 10));
  const auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_EVICTED);
  CHECK(gaps[0].epoch() == 7);
  CHECK(gaps[0].first() == 5);
  CHECK(gaps[0].last() == 7);
  CHECK(gaps[0].frames() == 3);
  bench.bridge.check_books();
}

TEST_CASE("FROM a time before this boot tells RESTART up to the first that this boot saw",
          "[session][history]") {
  Bench bench(101);
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 90); });
  CHECK(numbers(peer) == range(101, 110));
  auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_RESTART);
  CHECK(gaps[0].first() == 91);
  CHECK(gaps[0].last() == 100);
  CHECK(gaps[0].frames() == 0);
  bench.bridge.store->set_depth(2);  // and with the oldest evicted, both
  peer.subscribe(2, "a", [](auto& s) { from(s, "a", 7, 90); });
  CHECK(numbers(peer) == range(109, 110));
  gaps = peer.gaps();
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].reason() == v1::GAP_RESTART);
  CHECK(gaps[0].last() == 100);
  CHECK(gaps[1].reason() == v1::GAP_EVICTED);
  CHECK(gaps[1].first() == 101);
  CHECK(gaps[1].last() == 108);
  CHECK(gaps[1].frames() == 8);
  bench.bridge.check_books();
}

TEST_CASE("RESTART ends before a number that this boot refused", "[session][history]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  auto bad = cloud_frame(1, 10, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);
  sensor.frame(1, 11);
  FakePeer peer(bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 5); });
  const auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].reason() == v1::GAP_RESTART);
  CHECK(gaps[0].first() == 6);
  CHECK(gaps[0].last() == 9);
  CHECK(gaps[1].reason() == v1::GAP_REJECTED);
  CHECK(gaps[1].first() == 10);
  CHECK(gaps[1].last() == 10);
  CHECK(numbers(peer) == range(11, 11));
}

TEST_CASE("FROM an unknown epoch tells EPOCH, then all that is kept", "[session][history]") {
  Bench bench;
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 99, 4); });
  CHECK(numbers(peer) == range(1, 10));
  const auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_EPOCH);
  CHECK(gaps[0].epoch() == 99);
  CHECK(gaps[0].first() == 0);
  CHECK(gaps[0].last() == 0);
  bench.bridge.check_books();
}

TEST_CASE("FROM a position in an earlier epoch tells that epoch's tail, its end, and goes on",
          "[session][history]") {
  Bench bench;
  bench.sensor.advertise(1, "a", 8);
  for (std::uint64_t i = 1; i <= 3; ++i) bench.sensor.frame(1, i);
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 8); });
  peer.pump();
  std::vector<std::string> told;
  for (const auto& message : peer.received) {
    if (message.has_frame())
      told.push_back(std::to_string(message.frame().epoch()) + ":" +
                     std::to_string(message.frame().sequence()));
    if (message.has_gap()) {
      CHECK(message.gap().reason() == v1::GAP_EPOCH);
      told.push_back("over " + std::to_string(message.gap().epoch()));
    }
  }
  CHECK(told == std::vector<std::string>{"7:9", "7:10", "over 7", "8:1", "8:2", "8:3"});
  bench.bridge.check_books();
}

TEST_CASE("FROM ahead of the ring waits, and what the sensor sends again was had already",
          "[session][history]") {
  TestBridge bridge;  // of a new boot: the sensor goes on within its epoch
  FakePeer peer(bridge);
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  SECTION("the sensor has sent nothing yet") {}
  SECTION("the sensor has begun again") {
    sensor.frame(1, 6);
    sensor.frame(1, 7);
  }
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 20); });
  peer.reading = false;  // many at once: what is not promised is not lost to the queue either
  for (std::uint64_t i = 8; i <= 22; ++i) sensor.frame(1, i);
  peer.reading = true;
  CHECK(numbers(peer) == range(21, 22));
  CHECK(peer.gaps().empty());
  const auto books = bridge.subscription(peer.id(), 1, "a");
  REQUIRE(books);
  CHECK(books->promised == 2);
  bridge.check_books();
}

TEST_CASE(
    "numbers between FROM and the first frame of this boot are RESTART, also when the frame "
    "comes later",
    "[session][history]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  peer.subscribe(1, "a", [](auto& s) { from(s, "a", 7, 20); });
  sensor.frame(1, 25);
  sensor.frame(1, 27);
  const auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].reason() == v1::GAP_RESTART);
  CHECK(gaps[0].first() == 21);
  CHECK(gaps[0].last() == 24);
  CHECK(gaps[1].reason() == v1::GAP_SOURCE);
  CHECK(gaps[1].first() == 26);
  CHECK(numbers(peer) == std::vector<std::uint64_t>{25, 27});
}

TEST_CASE("a matched channel that FROM does not name begins as ALL_KEPT", "[session][history]") {
  Bench bench;
  FakePeer peer(bench.bridge);
  peer.subscribe(1, "*", [](auto& s) { from(s, "other", 7, 4); });
  CHECK(numbers(peer) == range(1, 10));
  CHECK(peer.gaps().empty());
}

TEST_CASE("the newest latched frame comes with every history, max_age does not apply to it",
          "[session][latched]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "calibration", 7, v1::POLICY_DROP_OLDEST, true);
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  sensor.disconnect();
  bridge.clock.advance(std::chrono::hours(1));
  FakePeer peer(bridge);
  const auto young = [](v1::Subscribe& s) {
    s.set_max_age_ms(10);
  };
  peer.subscribe(1, "calibration", young);
  CHECK(numbers(peer) == range(3, 3));
  CHECK(peer.gaps().empty());
  peer.subscribe(2, "calibration", [&](auto& s) {
    young(s);
    s.set_history(v1::HISTORY_LAST);
  });
  CHECK(numbers(peer) == range(3, 3));
  peer.subscribe(3, "calibration", [&](auto& s) {
    young(s);
    s.set_history(v1::HISTORY_ALL_KEPT);
  });
  CHECK(numbers(peer) == range(3, 3));
  auto gaps = peer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_AGE);
  CHECK(gaps[0].frames() == 2);
  peer.subscribe(4, "calibration", [&](auto& s) {
    young(s);
    from(s, "calibration", 7, 2);
  });
  CHECK(numbers(peer) == range(3, 3));
  peer.subscribe(5, "calibration", [&](auto& s) { from(s, "calibration", 7, 3); });
  CHECK(peer.frames().empty());  // it has it already
  bridge.check_books();
}

TEST_CASE("a latched frame is evicted last", "[session][latched]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "calibration", 7, v1::POLICY_DROP_OLDEST, true);
  sensor.advertise(2, "clouds", 7);
  sensor.frame(1, 1, 500'000);
  for (std::uint64_t i = 1; i <= 200; ++i) sensor.frame(2, i, 1'000'000);
  bridge.store->set_budget(Bytes{4ULL << 20});
  CHECK(bridge.channel("calibration").kept_frames == 1);
  FakePeer peer(bridge);
  peer.subscribe(1, "calibration");
  CHECK(peer.next_frame());
  bridge.check_books();
}
