// One channel's load is not another's loss (protocol.md §4, Cursor).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("clouds of 5 MB never displace a small state message", "[session][isolation]") {
  TestBridge bridge;
  FakePeer lidar(bridge);
  FakePeer state(bridge);
  lidar.advertise(1, "points");
  state.advertise(1, "state");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "*", [](auto& s) { s.set_queue_frames(50); });
  consumer.reading = false;
  std::uint64_t clouds = 0;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    state.frame(1, i, 60);
    for (int k = 0; k < 3; ++k) lidar.frame(1, ++clouds, 5'000'000);
  }
  CHECK(lidar.rejects().empty());
  consumer.reading = true;
  std::size_t states = 0;
  std::uint64_t points = 0;
  for (const auto& frame : consumer.frames()) {
    if (frame.opaque().data().size() == 60) {
      CHECK(frame.sequence() == ++states);
    } else {
      ++points;
    }
  }
  CHECK(states == 50);
  CHECK(points >= 1);
  std::uint64_t lost = 0;
  for (const auto& gap : consumer.gaps()) lost += gap.frames();
  CHECK(points + lost == clouds);
  bridge.check_books();
}

TEST_CASE("a small message does not wait for all the large ones before it",
          "[session][isolation]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "points");
  sensor.advertise(2, "state");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "points", [](auto& s) { s.set_queue_frames(100); });
  consumer.subscribe(2, "state");
  consumer.received.clear();
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 8; ++i) sensor.frame(1, i, 2'000'000);
  sensor.frame(2, 1, 10);
  consumer.reading = true;
  consumer.pump();
  std::size_t place = 0;
  for (const auto& message : consumer.received) {
    if (message.has_frame() && message.frame().subscription() == 2) break;
    ++place;
  }
  CHECK(place <= 2);
  CHECK(consumer.frames().size() == 9);
}

TEST_CASE("a consumer that stops reading changes nothing for the others", "[session][isolation]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer good(bridge);
  FakePeer stuck(bridge);
  good.subscribe(1, "a");
  stuck.subscribe(1, "a");
  stuck.reading = false;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    sensor.frame(1, i, 1'000'000);
    CHECK(good.frames().size() == 1);
  }
  CHECK(good.gaps().empty());
  CHECK(sensor.rejects().empty());
  stuck.reading = true;
  const auto frames = stuck.frames();
  CHECK(frames.size() == 3);
  std::uint64_t lost = 0;
  for (const auto& gap : stuck.gaps()) lost += gap.frames();
  CHECK(lost + frames.size() == 300);
  bridge.check_books();
}

TEST_CASE("many small frames of many channels leave in few writes, each channel in order",
          "[session][isolation]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  for (std::uint32_t c = 1; c <= 20; ++c) sensor.advertise(c, "c" + std::to_string(c));
  consumer.subscribe(1, "*", [](auto& s) { s.set_queue_frames(100); });
  consumer.received.clear();
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 50; ++i) {
    for (std::uint32_t c = 1; c <= 20; ++c) sensor.frame(c, i, 50);
  }
  std::size_t batches = 0;
  consumer.pump();
  while (consumer.take_batch()) {
    consumer.finish_batch();
    ++batches;
  }
  CHECK(batches <= 1000 / 24 + 2);
  std::map<std::uint32_t, std::uint64_t> last;
  for (const auto& frame : consumer.frames()) CHECK(frame.sequence() == ++last[frame.channel()]);
  CHECK(last.size() == 20);
  for (const auto& [channel, count] : last) CHECK(count == 50);
  bridge.check_books();
}
