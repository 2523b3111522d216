// What a consumer is told about frames that do not come (protocol.md §4, Cursor and Gap).
#include "session/fake_peer.h"
#include "session/ledger.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

/// A sensor on channel "a", and a consumer that does not read.
struct Bench {
  explicit Bench(const std::function<void(v1::Subscribe&)>& more = [](v1::Subscribe&) {}) {
    consumer.observe = [this](const v1::ServerMessage& message) {
      ledger.on(message);
    };
    sensor.advertise(1, "a");
    consumer.subscribe(1, "a", more);
    consumer.received.clear();
    consumer.reading = false;
  }
  void send(std::uint64_t first, std::uint64_t last, std::size_t bytes = 100) {
    for (; first <= last; ++first) sensor.frame(1, first, bytes);
  }
  void read() {
    consumer.reading = true;
    consumer.pump();
    consumer.reading = false;
    INFO(ledger.complaint());
    CHECK(ledger.complaint().empty());
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
  FakePeer consumer{bridge};
  Ledger ledger;
};

}  // namespace

TEST_CASE("queue_frames and queue_bytes say how far a consumer may trail behind the newest frame",
          "[session][gap]") {
  SECTION("frames") {
    Bench bench([](auto& s) { s.set_queue_frames(5); });
    bench.send(1, 20);
    bench.read();
    CHECK(bench.consumer.frames().size() == 6);
    const auto gaps = bench.consumer.gaps();
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0].reason() == v1::GAP_QUEUE);
    CHECK(gaps[0].frames() == 14);
    bench.bridge.check_books();
  }
  SECTION("bytes") {
    Bench bench([](auto& s) {
      s.set_queue_frames(100);
      s.set_queue_bytes(350'000);
    });
    bench.send(1, 20, 100'000);
    bench.read();
    CHECK(bench.consumer.frames().size() == 4);  // three wait behind the newest
    const auto gaps = bench.consumer.gaps();
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0].reason() == v1::GAP_QUEUE);
    CHECK(gaps[0].frames() == 16);
    bench.bridge.check_books();
  }
  SECTION("a limit below the newest frame still gives the newest") {
    Bench bench([](auto& s) { s.set_queue_bytes(1); });
    bench.send(1, 3, 100'000);
    bench.read();
    const auto frames = bench.consumer.frames();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].sequence() == 3);
    bench.bridge.check_books();
  }
}

TEST_CASE("what memory pushed out and what a shrink took are told apart, each as one gap",
          "[session][gap]") {
  Bench bench([](auto& s) { s.set_queue_frames(1000); });
  bench.bridge.store->set_depth(10);
  bench.send(1, 30);
  bench.bridge.store->set_depth(1000);
  bench.send(31, 60, 200'000);
  bench.bridge.store->set_budget(Bytes{2ULL << 20});
  bench.bridge.store->set_budget(Bytes{64ULL << 20});
  bench.send(61, 62);
  bench.read();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].reason() == v1::GAP_EVICTED);
  CHECK(gaps[0].first() == 1);
  CHECK(gaps[0].frames() == 20);
  CHECK(gaps[1].reason() == v1::GAP_SHRINK);
  CHECK(gaps[1].first() == 21);
  CHECK(gaps[1].frames() > 10);
  const auto& told = bench.ledger.told.begin()->second;
  CHECK(told.frames + told.lost == 62);
  bench.bridge.check_books();
}

TEST_CASE("frames that are too old become one gap, counted from their arrival here",
          "[session][gap]") {
  Bench bench([](auto& s) {
    s.set_queue_frames(1000);
    s.set_max_age_ms(100);
  });
  bench.send(1, 5);
  bench.bridge.clock.advance(milliseconds(60));
  bench.send(6, 8);
  bench.bridge.clock.advance(milliseconds(41));
  bench.send(9, 10);
  bench.read();
  auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_AGE);
  CHECK(gaps[0].first() == 1);
  CHECK(gaps[0].last() == 5);
  CHECK(gaps[0].frames() == 5);
  CHECK(bench.consumer.frames().size() == 5);
  // What it had spent in another bridge counts; a clock ahead of ours takes nothing off.
  auto message = opaque_frame(1, 11, pattern_bytes(11, 1));
  message.mutable_frame()->set_hops(1);
  message.mutable_frame()->set_received_ns(bench.bridge.clock.wall_ns() - 90'000'000);
  bench.sensor.send(message);
  message = opaque_frame(1, 12, pattern_bytes(12, 1));
  message.mutable_frame()->set_hops(1);
  message.mutable_frame()->set_received_ns(bench.bridge.clock.wall_ns() + 1'000'000'000);
  bench.sensor.send(message);
  bench.bridge.clock.advance(milliseconds(11));
  bench.read();
  gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].first() == 11);
  CHECK(gaps[0].last() == 11);
  CHECK(bench.consumer.frames().size() == 1);
  // Never from the sensor's clock.
  message = opaque_frame(1, 13, pattern_bytes(13, 1));
  message.mutable_frame()->set_received_ns(1);
  message.mutable_frame()->set_stamp_ns(1);
  message.mutable_frame()->set_sent_ns(1);
  bench.sensor.send(message);
  bench.read();
  CHECK(bench.consumer.frames().size() == 1);
  bench.bridge.check_books();
}

TEST_CASE("numbers that never were frames are told apart from frames that were lost",
          "[session][gap]") {
  Bench bench([](auto& s) {
    s.set_queue_frames(1000);
    s.set_max_age_ms(100);
  });
  bench.send(1, 1);
  bench.send(5, 5);
  bench.bridge.clock.advance(milliseconds(101));
  bench.send(8, 8);
  bench.read();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 4);
  CHECK(gaps[0].reason() == v1::GAP_AGE);
  CHECK(gaps[1].reason() == v1::GAP_SOURCE);
  CHECK(gaps[1].first() == 2);
  CHECK(gaps[1].last() == 4);
  CHECK(gaps[2].reason() == v1::GAP_AGE);
  CHECK(gaps[3].reason() == v1::GAP_SOURCE);
  CHECK(gaps[3].first() == 6);
  CHECK(gaps[3].last() == 7);
  bench.bridge.check_books();
}

TEST_CASE("gaps come before the next frame, and without one when nothing follows",
          "[session][gap]") {
  Bench bench([](auto& s) {
    s.set_queue_frames(1000);
    s.set_max_age_ms(10);
  });
  bench.send(1, 3);
  bench.bridge.clock.advance(milliseconds(11));
  bench.read();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].frames() == 3);
  bench.bridge.check_books();
}

TEST_CASE("a new epoch is told to those who had a position in the old one, after its tail",
          "[session][gap]") {
  Bench bench([](auto& s) { s.set_queue_frames(1000); });
  FakePeer fresh(bench.bridge);
  bench.send(1, 3);
  bench.sensor.advertise(1, "a", 8);
  bench.send(1, 2);
  fresh.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_LAST); });
  fresh.subscribe(2, "a");
  bench.send(3, 3);
  bench.read();
  CHECK(fresh.gaps().empty());
  CHECK(fresh.frames().size() == 3);
  std::vector<std::string> told;
  for (const auto& message : bench.consumer.received) {
    if (message.has_frame())
      told.push_back(std::to_string(message.frame().epoch()) + ":" +
                     std::to_string(message.frame().sequence()));
    if (message.has_gap()) told.push_back("gap " + std::to_string(message.gap().epoch()));
  }
  CHECK(told == std::vector<std::string>{"7:1", "7:2", "7:3", "gap 7", "8:1", "8:2", "8:3"});
  bench.bridge.check_books();
}

TEST_CASE("a lost tail of the old epoch is told before its end", "[session][gap]") {
  Bench bench([](auto& s) { s.set_queue_frames(1000); });
  bench.send(1, 2);
  bench.read();
  bench.send(3, 6);
  bench.sensor.advertise(1, "a", 8);
  bench.bridge.store->set_depth(2);
  bench.send(1, 5);
  bench.read();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[0].reason() == v1::GAP_EVICTED);
  CHECK(gaps[0].epoch() == 7);
  CHECK(gaps[0].first() == 3);
  CHECK(gaps[0].last() == 6);
  CHECK(gaps[1].reason() == v1::GAP_EPOCH);
  CHECK(gaps[1].epoch() == 7);
  CHECK(gaps[2].reason() == v1::GAP_EVICTED);
  CHECK(gaps[2].epoch() == 8);
  CHECK(gaps[2].first() == 1);
  CHECK(gaps[2].last() == 3);
  bench.bridge.check_books();
}

TEST_CASE("the books balance at any moment: promised = delivered + skipped + lost + waiting",
          "[session][gap]") {
  Bench bench([](auto& s) { s.set_queue_frames(3); });
  bench.send(1, 5);
  bench.bridge.check_books(false);
  bench.consumer.pump();
  REQUIRE(bench.consumer.take_batch());
  bench.bridge.check_books(false);
  auto books = bench.bridge.subscription(bench.consumer.id(), 1, "a");
  REQUIRE(books);
  CHECK(books->delivered == 0);
  CHECK(books->waiting == 4);  // handed over in full only when the batch is done
  CHECK(books->lost == 1);
  bench.send(6, 9);
  bench.bridge.check_books(false);
  bench.consumer.finish_batch();
  books = bench.bridge.subscription(bench.consumer.id(), 1, "a");
  CHECK(books->delivered == 4);
  CHECK(books->waiting == 4);
  bench.bridge.check_books(false);
  bench.read();
  bench.bridge.check_books();
  books = bench.bridge.subscription(bench.consumer.id(), 1, "a");
  CHECK(books->promised == 9);
  REQUIRE(books->gaps.size() == 1);
  CHECK(books->gaps[0].first == wire::GapReason::kQueue);
}

TEST_CASE("the last SubscriptionState of an id is its last word, and its counters balance",
          "[session][gap]") {
  Bench bench([](auto& s) { s.set_queue_frames(3); });
  bench.send(1, 10);
  bench.consumer.pump();
  SECTION("with a batch on its way") {
    REQUIRE(bench.consumer.take_batch());
    bench.consumer.unsubscribe(1);
    CHECK(bench.bridge.subscription(bench.consumer.id(), 1, "a"));
    bench.send(11, 20);
    bench.consumer.finish_batch();
  }
  SECTION("with nothing on its way") {
    bench.consumer.unsubscribe(1);
  }
  bench.send(21, 22);
  bench.read();
  REQUIRE_FALSE(bench.consumer.received.empty());
  REQUIRE(bench.consumer.received.back().has_subscription_state());
  const auto& state = bench.consumer.received.back().subscription_state();
  CHECK(state.ended());
  CHECK(state.id() == 1);
  std::uint64_t frames = 0;
  std::uint64_t lost = 0;
  for (const auto& message : bench.consumer.received) {
    if (message.has_frame()) ++frames;
    if (message.has_gap()) lost += message.gap().frames();
  }
  CHECK(state.counters().delivered() == frames);
  CHECK(state.counters().lost() == lost);
  CHECK(state.counters().promised() == frames + lost);
  CHECK(bench.bridge.hub->subscriptions().empty());
  // The id may be taken again.
  bench.consumer.received.clear();
  bench.consumer.subscribe(1, "a");
  bench.send(23, 23);
  bench.read();
  CHECK(bench.consumer.frames().size() == 1);
}

TEST_CASE("an id that is taken again while its last batch is on the way begins anew behind it",
          "[session][gap]") {
  Bench bench;
  bench.send(1, 2);
  bench.consumer.pump();
  REQUIRE(bench.consumer.take_batch());
  bench.consumer.unsubscribe(1);
  bench.consumer.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_LAST); });
  CHECK(bench.consumer.rejects().empty());
  bench.consumer.finish_batch();
  bench.read();
  std::vector<std::string> told;
  for (const auto& message : bench.consumer.received) {
    if (message.has_frame()) told.push_back(std::to_string(message.frame().sequence()));
    if (message.has_subscription_state())
      told.emplace_back(message.subscription_state().ended() ? "ended" : "state");
  }
  CHECK(told == std::vector<std::string>{"1", "2", "ended", "state", "2"});
  bench.bridge.check_books();
}

TEST_CASE("frames that were on their way when a consumer broke off are counted as that",
          "[session][gap]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  {
    FakePeer consumer(bridge);
    consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
    consumer.pump();
    consumer.reading = false;
    for (std::uint64_t n = 1; n <= 3; ++n) sensor.frame(1, n);
    consumer.pump();
    REQUIRE(consumer.take_batch());
    consumer.disconnect();
  }
  CHECK(bridge.session_metrics.promised_frames.value() == 3);
  CHECK(bridge.session_metrics.broken_off_frames.value() == 3);
  CHECK(bridge.session_metrics.delivered_frames.value() == 0);
  bridge.check_books();
}
