// What a subscription may ask for (protocol.md §4, Subscribe, Quality, max_hz; §2, 10 changes).
#include "session/fake_peer.h"
#include "support/seed.h"

#include <catch2/catch.hpp>

#include <limits>
#include <random>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("Subscribe is answered with the channels matched and the quality as applied",
          "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a/x");
  sensor.advertise(2, "a/y");
  sensor.advertise(3, "b");
  FakePeer peer(bridge);
  peer.subscribe(4, "a/*", [](auto& s) { s.mutable_quality()->set_max_hz(5); });
  auto state = peer.next_state();
  REQUIRE(state);
  CHECK(state->id() == 4);
  CHECK(state->channel_size() == 2);
  CHECK(state->applied().max_hz() == 5);
  CHECK_FALSE(state->ended());
  CHECK_FALSE(state->degraded());
  sensor.advertise(4, "a/z");
  state = peer.next_state();
  REQUIRE(state);
  CHECK(state->channel_size() == 3);
  peer.subscribe(4, "a/*", [](auto& s) { s.mutable_quality()->set_max_hz(7); });
  state = peer.next_state();
  REQUIRE(state);
  CHECK(state->applied().max_hz() == 7);
  CHECK_FALSE(peer.next_state());
  peer.unsubscribe(4);
  state = peer.next_state();
  REQUIRE(state);
  CHECK(state->ended());
  peer.unsubscribe(4);
  const auto reject = peer.next_reject();
  REQUIRE(reject);
  CHECK(reject->subscription() == 4);
}

TEST_CASE("a name without wildcards may appear later", "[session][quality]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  peer.subscribe(1, "later");
  auto state = peer.next_state();
  REQUIRE(state);
  CHECK(state->channel_size() == 0);
  FakePeer sensor(bridge);
  sensor.advertise(1, "later");
  state = peer.next_state();
  REQUIRE(state);
  CHECK(state->channel_size() == 1);
}

TEST_CASE(
    "contradictory, negative, unknown and not yet supported qualities are refused, and the "
    "old quality stays",
    "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer peer(bridge);
  peer.subscribe(1, "a", [](auto& s) { s.mutable_quality()->set_max_hz(10); });
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::function<void(v1::Quality&)>> wrongs{
      [](auto& q) { q.set_max_hz(-1); },
      [nan](auto& q) { q.set_max_hz(nan); },
      [](auto& q) { q.set_max_hz(std::numeric_limits<float>::infinity()); },
      [](auto& q) { q.set_leaf(-0.1); },
      [nan](auto& q) { q.set_leaf(static_cast<double>(nan)); },
      [](auto& q) { q.set_sampling(v1::SAMPLING_VOXEL_FIRST); },
      [](auto& q) { q.set_sampling(v1::SAMPLING_STRIDE); },
      [](auto& q) { q.set_sampling(static_cast<v1::Sampling>(77)); },
      [](auto& q) { q.set_output(static_cast<v1::Output>(77)); },
      [](auto& q) { q.add_fields("x"); },
      [](auto& q) { q.set_min_range(5), q.set_max_range(4); },
      [](auto& q) { q.mutable_region()->mutable_min()->set_x(1); },
      // Not contradictory, but of a later version of this bridge.
      [](auto& q) { q.set_max_points(1000); },
  };
  for (std::size_t i = 0; i < wrongs.size(); ++i) {
    INFO("quality " << i);
    for (const std::uint32_t id : {1U, 2U}) {
      peer.received.clear();
      peer.subscribe(id, "a", [&](auto& s) { wrongs[i](*s.mutable_quality()); });
      const auto reject = peer.next_reject();
      REQUIRE(reject);
      CHECK(reject->code() == v1::REJECT_QUALITY);
      CHECK(reject->subscription() == id);
      CHECK(reject->channel() == 0);
      CHECK_FALSE(peer.next_state());
    }
  }
  sensor.frame(1, 1);
  const auto got = peer.frames();
  REQUIRE(got.size() == 1);
  CHECK(got[0].subscription() == 1);
}

TEST_CASE("patterns that cannot be are refused as PATTERN or LIMIT", "[session][quality]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  for (const std::string& pattern :
       {std::string(), std::string("a\nb"), std::string(257, 'p'), std::string("\x01")}) {
    peer.subscribe(3, pattern);
    const auto reject = peer.next_reject();
    REQUIRE(reject);
    CHECK((reject->code() == v1::REJECT_PATTERN || reject->code() == v1::REJECT_LIMIT));
    CHECK((reject->code() == v1::REJECT_LIMIT) == (pattern.size() > 256));
    CHECK(reject->subscription() == 3);
  }
  peer.subscribe(0, "a");
  CHECK(peer.next_reject());
  peer.subscribe(3, std::string(256, 'p'));
  CHECK_FALSE(peer.next_reject());
  peer.subscribe(4, "**/a?/*");
  CHECK_FALSE(peer.next_reject());
}

TEST_CASE("one channel may match several subscriptions, each gets its frames",
          "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "robot/lidar/points");
  FakePeer peer(bridge);
  peer.subscribe(1, "robot/lidar/points");
  peer.subscribe(2, "robot/*/points");
  peer.subscribe(3, "**");
  peer.subscribe(4, "robot/*");
  peer.subscribe(5, "robot/lidar/point?");
  peer.subscribe(6, "Robot/**");
  sensor.frame(1, 1);
  std::vector<std::uint32_t> ids;
  for (const auto& frame : peer.frames()) ids.push_back(frame.subscription());
  std::ranges::sort(ids);
  CHECK(ids == std::vector<std::uint32_t>{1, 2, 3, 5});
  bridge.check_books();
}

TEST_CASE("max_hz takes a frame if it is at most a quarter of the period early",
          "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer peer(bridge);
  peer.subscribe(1, "a", [](auto& s) { s.mutable_quality()->set_max_hz(10); });
  std::uint64_t sequence = 0;
  const auto after = [&](int ms) {
    bridge.clock.advance(milliseconds(ms));
    sensor.frame(1, ++sequence);
    return peer.next_frame();
  };
  CHECK(after(0));              // due at 100
  CHECK_FALSE(after(74));       // 74
  const auto taken = after(1);  // 75: due at 200
  REQUIRE(taken);
  CHECK(taken->result().skipped_frames() == 1);
  CHECK_FALSE(after(99));      // 174
  CHECK(after(1));             // 175: due at 300
  CHECK(after(525));           // 700: due at max(400, 700 - 50) = 650
  CHECK(after(0));             // 700 >= 650 - 25: due at 750
  CHECK_FALSE(after(1));       // 701
  CHECK_FALSE(after(23));      // 724
  const auto late = after(1);  // 725
  REQUIRE(late);
  CHECK(late->result().skipped_frames() == 2);
  CHECK(peer.gaps().empty());  // skips are not gaps
  bridge.check_books();
}

TEST_CASE("10 Hz asked of a jittery 10 Hz sensor gives 10 Hz, of a 30 Hz sensor 10 Hz",
          "[session][quality]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const int sensor_hz : {10, 30}) {
    TestBridge bridge;
    FakePeer sensor(bridge);
    sensor.advertise(1, "a");
    FakePeer peer(bridge);
    peer.subscribe(1, "a", [](auto& s) {
      s.mutable_quality()->set_max_hz(10);
      s.set_queue_frames(100);
    });
    const std::uint64_t frames = static_cast<std::uint64_t>(sensor_hz) * 60;
    const std::int64_t period = 1'000'000'000 / sensor_hz;
    std::int64_t now = 0;
    std::size_t got = 0;
    for (std::uint64_t i = 0; i < frames; ++i) {
      // Each comes up to a fifth of its period early or late.
      const auto jitter = static_cast<std::int64_t>(random() % 1000) * period / 2500 - period / 5;
      const std::int64_t at = static_cast<std::int64_t>(i) * period + period + jitter;
      bridge.clock.advance(nanoseconds(at - now));
      now = at;
      sensor.frame(1, i + 1);
      got += peer.frames().size();
    }
    INFO(sensor_hz << " Hz: " << got << " of 600");
    CHECK(got >= 590);
    CHECK(got <= 610);
    CHECK(peer.gaps().empty());
    bridge.check_books();
  }
}

TEST_CASE("rates beyond reason are kept without harm", "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer peer(bridge);
  peer.subscribe(1, "a", [](auto& s) { s.mutable_quality()->set_max_hz(1e-30F); });
  peer.subscribe(2, "a", [](auto& s) { s.mutable_quality()->set_max_hz(3e38F); });
  for (std::uint64_t i = 1; i <= 10; ++i) {
    sensor.frame(1, i);
    peer.tick(milliseconds(1000));
  }
  CHECK(peer.frames().size() == 11);
  bridge.check_books();
}

TEST_CASE("a change of quality goes on at the next frame, without losing the place",
          "[session][quality]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer peer(bridge);
  peer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  peer.reading = false;
  for (std::uint64_t i = 1; i <= 10; ++i) sensor.frame(1, i);
  peer.subscribe(1, "a", [](auto& s) {
    s.set_queue_frames(100);
    s.mutable_quality()->set_max_hz(1);
  });
  peer.reading = true;
  CHECK(peer.frames().size() == 1);
  auto books = bridge.subscription(peer.id(), 1, "a");
  CHECK(books->skipped == 9);
  peer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  sensor.frame(1, 11);
  const auto got = peer.frames();
  REQUIRE(got.size() == 1);
  CHECK(got[0].result().skipped_frames() == 9);
  CHECK(peer.gaps().empty());
  bridge.check_books();
}

TEST_CASE("of more than ten changes in a second the last one wins", "[session][quality]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  const auto change = [&](float hz) {
    peer.subscribe(1, "a", [hz](auto& s) { s.mutable_quality()->set_max_hz(hz); });
  };
  change(100);
  CHECK(peer.next_state());
  for (int i = 1; i <= 30; ++i) change(static_cast<float>(i));
  std::vector<float> applied;
  while (const auto state = peer.next_state()) applied.push_back(state->applied().max_hz());
  REQUIRE(applied.size() == 10);
  CHECK(applied.back() == 10);
  CHECK(peer.rejects().empty());
  peer.tick(milliseconds(999));
  CHECK_FALSE(peer.next_state());
  peer.tick(milliseconds(1));
  const auto state = peer.next_state();
  REQUIRE(state);
  CHECK(state->applied().max_hz() == 30);
  CHECK_FALSE(peer.next_state());
  change(31);
  CHECK(peer.next_state()->applied().max_hz() == 31);
  for (int i = 1; i <= 30; ++i) change(static_cast<float>(i));
  peer.unsubscribe(1);  // what is postponed ends with it
  std::optional<v1::SubscriptionState> last;
  while (auto next = peer.next_state()) last = next;
  REQUIRE(last);
  CHECK(last->ended());
  peer.tick(milliseconds(5000));
  CHECK_FALSE(peer.next_state());
}
