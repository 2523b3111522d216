// Credit, reliable subscriptions, and what ends them (protocol.md §4, Credit; §3, Reliable).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

struct Bench {
  explicit Bench(v1::Policy policy = v1::POLICY_BACKPRESSURE) {
    sensor.advertise(1, "a", 7, policy);
    id = sensor.next_advertised()->id();
  }
  void subscribe(std::uint32_t credit, bool reliable = true) {
    consumer.subscribe(1, "a", [&](auto& s) {
      s.set_credit(credit);
      s.set_reliable(reliable);
      s.set_queue_frames(1000);
    });
  }
  void send(std::uint64_t first, std::uint64_t last) {
    for (; first <= last; ++first) sensor.frame(1, first);
    sensor.tick(milliseconds(100));
  }
  std::uint64_t window() {
    std::uint64_t told = 0;
    for (const auto& ack : sensor.acks()) told = ack.window_bytes();
    return told;
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
  FakePeer consumer{bridge};
  std::uint32_t id = 0;
};

}  // namespace

TEST_CASE("credit n lets n frames of a channel be unanswered, and each Credit lets more come",
          "[session][credit]") {
  Bench bench(v1::POLICY_DROP_OLDEST);
  bench.subscribe(3, false);
  bench.send(1, 10);
  CHECK(bench.consumer.frames().size() == 3);
  bench.consumer.credit(1, bench.id, 2);
  CHECK(bench.consumer.frames().size() == 2);
  bench.consumer.credit(1, bench.id, 1);
  CHECK(bench.consumer.frames().size() == 1);
  bench.consumer.credit(1, bench.id, 1000);  // surplus is ignored
  CHECK(bench.consumer.frames().size() == 3);
  bench.consumer.credit(1, bench.id, 0xffffffffU);
  CHECK(bench.consumer.frames().size() == 1);
  bench.send(11, 20);
  CHECK(bench.consumer.frames().size() == 2);  // one of the ten before is unanswered
  CHECK(bench.consumer.gaps().empty());
  bench.consumer.credit(9, bench.id, 1);  // no such subscription, no such channel: nothing happens
  bench.consumer.credit(1, 999, 1);
  CHECK(bench.consumer.rejects().empty());
  CHECK(bench.consumer.frames().empty());
  bench.bridge.check_books(false);
}

TEST_CASE("credit is counted per channel, and gaps cost none", "[session][credit]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  sensor.advertise(2, "b");
  const auto id = sensor.next_advertised()->id();
  consumer.subscribe(1, "*", [](auto& s) { s.set_credit(1); });
  for (std::uint64_t i = 1; i <= 10; ++i) sensor.frame(1, i);
  for (std::uint64_t i = 1; i <= 10; ++i) sensor.frame(2, i);
  CHECK(consumer.frames().size() == 2);  // one of each
  CHECK(consumer.gaps().size() == 2);    // they trailed too far: told without credit
  consumer.credit(1, id, 1);
  CHECK(consumer.frames().size() == 1);
}

TEST_CASE("credit can be changed, and given up, while the subscription runs", "[session][credit]") {
  Bench bench;
  bench.subscribe(2);
  bench.send(1, 10);
  CHECK(bench.consumer.frames().size() == 2);
  bench.subscribe(4);
  CHECK(bench.consumer.frames().size() == 2);
  bench.subscribe(0);
  CHECK(bench.consumer.frames().size() == 6);
  bench.sensor.pump();
  CHECK(bench.bridge.channel("a").published == 10);
  bench.send(11, 11);
  CHECK(bench.window() > 0);
  CHECK(bench.consumer.frames().size() == 1);
  bench.bridge.check_books();
}

TEST_CASE("a reliable frame was had when it was handed over, or with credit when it was answered",
          "[session][reliable]") {
  Bench bench;
  bench.bridge.store->set_depth(5);
  SECTION("without credit") {
    bench.subscribe(0);
    for (std::uint64_t i = 1; i <= 50; i += 5) {
      bench.send(i, i + 4);
      CHECK(bench.consumer.frames().size() == 5);
      bench.sensor.pump();
      CHECK(bench.window() > 0);
    }
  }
  SECTION("with credit") {
    bench.subscribe(10);
    bench.send(1, 5);
    CHECK(bench.consumer.frames().size() == 5);
    CHECK(bench.window() == 0);  // handed over, but not answered: held
    bench.sensor.frame(1, 6);
    CHECK(bench.sensor.next_reject()->code() == v1::REJECT_WINDOW);
    bench.consumer.credit(1, bench.id, 2);
    bench.sensor.pump();
    CHECK(bench.window() > 0);
    bench.sensor.frame(1, 6);
    bench.sensor.frame(1, 7);
    CHECK(bench.sensor.rejects().empty());
    CHECK(bench.bridge.channel("a").kept_frames == 5);
  }
  SECTION("with credit that is given before the batch is done") {
    bench.subscribe(10);
    bench.consumer.reading = false;
    bench.send(1, 5);
    bench.consumer.pump();
    REQUIRE(bench.consumer.take_batch());
    bench.consumer.credit(1, bench.id, 5);
    bench.sensor.pump();
    CHECK(bench.window() == 0);
    bench.consumer.finish_batch();
    bench.sensor.pump();
    CHECK(bench.window() > 0);
    bench.consumer.reading = true;
    bench.consumer.pump();
  }
  CHECK(bench.consumer.gaps().empty());
  bench.bridge.check_books(false);
}

TEST_CASE("frames that a reliable reader passes over are not held for it", "[session][reliable]") {
  Bench bench;
  bench.bridge.store->set_depth(5);
  SECTION("skipped by its own max_hz") {
    bench.consumer.subscribe(1, "a", [](auto& s) {
      s.set_reliable(true);
      s.mutable_quality()->set_max_hz(0.001F);
    });
    for (std::uint64_t i = 1; i <= 20; ++i) {
      bench.send(i, i);
      bench.consumer.pump();
      bench.sensor.pump();
      CHECK(bench.window() > 0);
    }
    CHECK(bench.consumer.frames().size() == 1);
  }
  SECTION("too old") {
    bench.consumer.subscribe(1, "a", [](auto& s) {
      s.set_reliable(true);
      s.set_max_age_ms(1);
    });
    for (std::uint64_t i = 1; i <= 20; ++i) {
      bench.send(i, i);  // takes 100 ms
      bench.consumer.pump();
      bench.sensor.pump();
      CHECK(bench.window() > 0);
    }
    CHECK(bench.consumer.frames().empty());
  }
  CHECK(bench.sensor.rejects().empty());
  bench.bridge.check_books();
}

TEST_CASE("reliable counts for BACKPRESSURE channels only, also when the policy changes",
          "[session][reliable]") {
  Bench bench(v1::POLICY_DROP_OLDEST);
  bench.consumer.subscribe(1, "a", [](auto& s) { s.set_reliable(true); });
  bench.consumer.reading = false;
  bench.send(1, 10);
  bench.consumer.reading = true;
  CHECK(bench.consumer.frames().size() == 3);
  CHECK(bench.consumer.gaps().size() == 1);
  bench.sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  bench.consumer.pump();
  bench.consumer.reading = false;
  bench.send(11, 20);
  bench.consumer.reading = true;
  CHECK(bench.consumer.frames().size() == 10);
  CHECK(bench.consumer.gaps().empty());
  bench.sensor.advertise(1, "a", 7, v1::POLICY_DROP_OLDEST);
  bench.consumer.pump();
  bench.consumer.reading = false;
  bench.send(21, 30);
  bench.consumer.reading = true;
  CHECK(bench.consumer.frames().size() == 3);
  bench.bridge.check_books();
}

TEST_CASE("thirty seconds without progress while frames wait end the claim, silence does not",
          "[session][reliable]") {
  Bench bench;
  bench.subscribe(2);
  bench.consumer.tick(std::chrono::hours(1));
  bench.send(1, 1);
  CHECK(bench.consumer.frames().size() == 1);
  bench.consumer.credit(1, bench.id, 1);
  for (int i = 0; i < 100; ++i) bench.consumer.tick(milliseconds(1000));
  CHECK_FALSE(bench.consumer.next_status());
  bench.send(2, 10);  // takes 100 ms
  bench.sensor.pump();
  bench.consumer.tick(milliseconds(29'800));
  CHECK_FALSE(bench.consumer.next_status());
  bench.consumer.credit(1, bench.id, 1);  // progress
  bench.consumer.tick(milliseconds(29'900));
  CHECK_FALSE(bench.consumer.next_status());
  bench.consumer.tick(milliseconds(200));
  const auto status = bench.consumer.next_status();
  REQUIRE(status);
  CHECK(status->code() == "reliable_ended");
  bench.bridge.store->set_depth(2);
  CHECK(bench.bridge.channel("a").kept_frames == 2);  // nothing is held any more
  bench.consumer.credit(1, bench.id, 10);
  CHECK_FALSE(bench.consumer.closed);
  CHECK(bench.consumer.frames().size() >= 2);
  bench.subscribe(2);  // asked for again: it counts again
  bench.send(11, 13);
  CHECK(bench.consumer.gaps().size() <= 1);
}

TEST_CASE("a claim that ends on one channel leaves the subscription's other channels theirs",
          "[session][reliable]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "slow", 7, v1::POLICY_BACKPRESSURE);
  sensor.advertise(2, "good", 7, v1::POLICY_BACKPRESSURE);
  const auto slow = sensor.next_advertised()->id();
  const auto good = sensor.next_advertised()->id();
  FakePeer consumer(bridge);
  consumer.subscribe(1, "*", [](auto& s) {
    s.set_reliable(true);
    s.set_credit(1);
  });
  std::uint64_t sequence = 0;
  for (int second = 0; second < 35; ++second) {
    ++sequence;
    sensor.frame(1, sequence);
    sensor.frame(2, sequence);
    consumer.credit(1, good, 1);
    consumer.tick(milliseconds(1000));
  }
  CHECK(consumer.next_status());
  CHECK_FALSE(consumer.next_status());
  bridge.store->set_depth(2);
  for (int i = 0; i < 5; ++i) sensor.frame(2, ++sequence);
  CHECK(sensor.next_reject()->code() == v1::REJECT_WINDOW);  // still held on the other
  consumer.credit(1, slow, 1);
  consumer.pump();
}

TEST_CASE("the claim ends with its subscription and with its session", "[session][reliable]") {
  Bench bench;
  bench.bridge.store->set_depth(3);
  bench.subscribe(1);
  bench.send(1, 3);
  CHECK(bench.window() == 0);
  SECTION("unsubscribe") {
    bench.consumer.unsubscribe(1);
  }
  SECTION("a change to unreliable") {
    bench.subscribe(1, false);
  }
  SECTION("a change of the pattern") {
    bench.consumer.subscribe(1, "b");
  }
  SECTION("disconnect") {
    bench.consumer.disconnect();
  }
  bench.sensor.pump();
  const auto ack = bench.sensor.next_ack();
  REQUIRE(ack);
  CHECK(ack->window_bytes() > 0);
  bench.send(4, 10);
  CHECK(bench.sensor.rejects().empty());
}

TEST_CASE("a shrink outranks a claim: what was held becomes Gap SHRINK", "[session][reliable]") {
  Bench bench;
  bench.subscribe(0);
  bench.consumer.reading = false;
  std::uint64_t sequence = 0;
  for (int i = 0; i < 30; ++i) {
    bench.sensor.frame(1, ++sequence, 200'000);
    bench.sensor.tick(milliseconds(100));
  }
  CHECK(bench.sensor.rejects().empty());
  bench.bridge.store->set_budget(Bytes{2ULL << 20});
  bench.consumer.reading = true;
  const auto frames = bench.consumer.frames();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_SHRINK);
  CHECK(gaps[0].frames() + frames.size() == 30);
  bench.bridge.check_books();
}
