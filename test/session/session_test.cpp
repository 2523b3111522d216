#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

TEST_CASE(
    "the bridge answers Hello with Welcome and a list of channels that says when it is complete",
    "[session]") {
  TestBridge bridge;
  FakePeer peer(bridge, false);
  peer.send(hello_message());
  peer.pump();
  REQUIRE(peer.received.size() == 2);
  REQUIRE(peer.received[0].has_welcome());
  CHECK(peer.received[0].welcome().boot_id() != 0);
  CHECK(peer.received[0].welcome().max_frame_bytes() == bridge.store->max_frame_bytes().count);
  REQUIRE(peer.received[1].has_channels());
  CHECK(peer.received[1].channels().complete());
}

TEST_CASE("a frame arrives as it was sent, with the bridge's own numbers filled in", "[session]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  consumer.subscribe(5, "lidar/**");
  sensor.advertise(1, "lidar/front");
  const auto advertised = sensor.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->last_sequence() == 0);
  CHECK(advertised->window_bytes() > 0);
  consumer.pump();  // the session meets the channel when it is told of it
  const auto sent = cloud_frame(1, 1, 1000);
  sensor.send(sent);
  const auto got = consumer.next_frame();
  REQUIRE(got);
  CHECK(got->subscription() == 5);
  CHECK(got->channel() == advertised->id());
  CHECK(got->epoch() == 7);
  CHECK(got->frame_id() == "lidar");
  CHECK(got->cloud().SerializeAsString() == sent.frame().cloud().SerializeAsString());
  CHECK(got->received_ns() != 0);
  CHECK(got->forwarded_ns() != 0);
  CHECK(got->result().points_in() == 1000);
  CHECK(got->result().decimator() == "none");
  sensor.tick(milliseconds(100));
  const auto ack = sensor.next_ack();
  REQUIRE(ack);
  CHECK(ack->sequence() == 1);
  bridge.check_books();
}

TEST_CASE(
    "frames in any number of pieces are the same frame, and their data goes straight into the "
    "arena",
    "[session]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
  std::uint64_t sequence = 0;
  const auto try_one = [&](const std::vector<std::size_t>& cuts, bool known, bool direct) {
    const auto sent = cloud_frame(1, ++sequence, 5000);
    sensor.send_pieces(sent.SerializeAsString(), cuts, known, direct);
    const auto got = consumer.next_frame();
    REQUIRE(got);
    REQUIRE(got->sequence() == sequence);
    REQUIRE(got->cloud().data() == sent.frame().cloud().data());
  };
  for (std::size_t cut = 1; cut < 200; ++cut) {
    try_one({cut}, true, true);
    try_one({cut, cut + 7}, false, true);
    try_one({cut, cut + 100}, true, false);
  }
  CHECK(sensor.direct_bytes > 150ULL * 80'000);
  bridge.check_books();
}

TEST_CASE("a duplicate is acknowledged, counted and dropped", "[session]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  sensor.frame(1, 1);
  sensor.frame(1, 2);
  sensor.frame(1, 1);
  sensor.frame(1, 2);
  CHECK(consumer.frames().size() == 2);
  const auto books = bridge.channel("a");
  CHECK(books.received == 4);
  CHECK(books.duplicate == 2);
  bridge.check_books();
}

TEST_CASE("numbers that the producer left out become a Gap SOURCE, refused ones a Gap REJECTED",
          "[session]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  sensor.frame(1, 10);  // the first may have any number
  REQUIRE(consumer.next_frame());
  CHECK_FALSE(consumer.next_gap());
  sensor.frame(1, 13);
  auto gap = consumer.next_gap();
  REQUIRE(gap);
  CHECK(gap->reason() == v1::GAP_SOURCE);
  CHECK(gap->first() == 11);
  CHECK(gap->last() == 12);
  CHECK(gap->frames() == 0);
  REQUIRE(consumer.next_frame());

  auto bad = cloud_frame(1, 14, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);
  const auto reject = sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_DATA_TOO_SHORT);
  CHECK(reject->sequence() == 14);
  CHECK_FALSE(reject->retry());
  sensor.frame(1, 15);
  gap = consumer.next_gap();
  REQUIRE(gap);
  CHECK(gap->reason() == v1::GAP_REJECTED);
  CHECK(gap->first() == 14);
  CHECK(gap->last() == 14);
  REQUIRE(consumer.next_frame());
  bridge.check_books();
}

TEST_CASE("a consumer that trails too far gets the newest and is told what it lost", "[session]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 20; ++i) sensor.frame(1, i);
  consumer.reading = true;
  const auto gap = consumer.next_gap();
  REQUIRE(gap);
  CHECK(gap->reason() == v1::GAP_QUEUE);
  CHECK(gap->first() == 1);
  CHECK(gap->last() == 17);
  CHECK(gap->frames() == 17);
  const auto frames = consumer.frames();
  REQUIRE(frames.size() == 3);
  CHECK(frames.front().sequence() == 18);
  bridge.check_books();
}

TEST_CASE(
    "a broken connection loses nothing and doubles nothing: same epoch, what was not acknowledged "
    "again",
    "[session]") {
  TestBridge bridge;
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
  const std::string key(16, 'k');
  {
    FakePeer sensor(bridge, true, key);
    sensor.advertise(1, "a", 99);
    for (std::uint64_t i = 1; i <= 5; ++i) sensor.frame(1, i);
    sensor.pump();
  }
  consumer.pump();
  FakePeer again(bridge, true, key);
  again.advertise(4, "a", 99);
  const auto advertised = again.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->last_sequence() == 5);
  for (std::uint64_t i = 4; i <= 8; ++i) again.frame(4, i);
  const auto frames = consumer.frames();
  REQUIRE(frames.size() == 8);
  for (std::size_t i = 0; i < frames.size(); ++i) CHECK(frames[i].sequence() == i + 1);
  CHECK_FALSE(consumer.next_gap());
  bridge.check_books();
}
