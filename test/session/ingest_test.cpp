// Frames in: sequences, epochs, Acks (protocol.md §3).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("the first frame of an epoch may have any number, and numbers end at 2^63-1",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  sensor.frame(1, 1'000'000);
  CHECK(consumer.next_frame());
  sensor.frame(1, kLast);
  CHECK(consumer.next_frame());
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_SOURCE);
  CHECK(gaps[0].first() == 1'000'001);
  CHECK(gaps[0].last() == kLast - 1);
  sensor.frame(1, kLast + 1);
  sensor.frame(1, std::numeric_limits<std::uint64_t>::max());
  sensor.frame(1, 0);
  const auto rejects = sensor.rejects();
  REQUIRE(rejects.size() == 3);
  for (const auto& reject : rejects) CHECK(reject.code() == v1::REJECT_SEQUENCE);
  bridge.check_books();
}

TEST_CASE("a frame of another epoch is refused, as EPOCH where the channel had it before",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  sensor.advertise(1, "a", 8);
  sensor.frame(1, 1, 10, 8);
  sensor.frame(1, 2, 10, 0);
  sensor.frame(1, 3, 10, 9);
  sensor.frame(1, 3, 10, 7);
  const auto rejects = sensor.rejects();
  REQUIRE(rejects.size() == 2);
  CHECK(rejects[0].code() == v1::REJECT_SEQUENCE);
  CHECK(rejects[1].code() == v1::REJECT_EPOCH);
  sensor.frame(1, 3, 10, 8);  // neither used the number up
  CHECK(sensor.rejects().empty());
  const auto books = bridge.channel("a");
  CHECK(books.received == 5);
  CHECK(books.published == 3);
  CHECK(books.rejected == 2);
  bridge.check_books();
}

TEST_CASE("an Ack comes with every eighth frame, and 100 ms after the first that it covers",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  sensor.pump();
  for (std::uint64_t i = 1; i <= 7; ++i) sensor.frame(1, i);
  CHECK(sensor.acks().empty());
  sensor.frame(1, 8);
  auto acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].channel() == 1);
  CHECK(acks[0].sequence() == 8);
  CHECK(acks[0].window_bytes() > 0);
  sensor.tick(milliseconds(500));
  CHECK(sensor.acks().empty());  // nothing is owed
  sensor.frame(1, 9);
  sensor.tick(milliseconds(60));
  sensor.frame(1, 10);
  CHECK(sensor.acks().empty());
  sensor.tick(milliseconds(39));
  CHECK(sensor.acks().empty());
  sensor.tick(milliseconds(1));
  acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].sequence() == 10);
}

TEST_CASE("an Ack comes when half of the window is used", "[session][ingest]") {
  session::HubOptions options;
  options.window_bytes = 1 << 20;
  TestBridge bridge(options);
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  const auto advertised = sensor.next_advertised();
  REQUIRE(advertised);
  REQUIRE(advertised->window_bytes() == 1 << 20);
  sensor.frame(1, 1, 300'000);
  CHECK(sensor.acks().empty());
  sensor.frame(1, 2, 300'000);
  const auto acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].sequence() == 2);
}

TEST_CASE("duplicates and final refusals are acknowledged, refusals without a number are not",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  for (std::uint64_t i = 1; i <= 8; ++i) sensor.frame(1, i);
  CHECK(sensor.acks().size() == 1);
  for (int i = 0; i < 8; ++i) sensor.frame(1, 3);
  auto acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].sequence() == 8);
  auto bad = cloud_frame(1, 9, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);
  sensor.tick(milliseconds(100));
  acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].sequence() == 9);
  sensor.frame(1, 10, 10, 99);  // of no known epoch
  sensor.frame(2, 10);          // of no known channel
  sensor.send_bytes("\x0a\x7f");
  sensor.tick(milliseconds(100));
  CHECK(sensor.acks().empty());
  bridge.check_books();
}

TEST_CASE("a final refusal becomes a Gap REJECTED, one without a number nothing",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  sensor.frame(1, 1);
  CHECK(consumer.next_frame());
  sensor.frame(1, 2, 10, 99);
  sensor.frame(1, 0);
  sensor.frame(1, 2);
  CHECK(consumer.next_frame());
  CHECK(consumer.gaps().empty());
  auto bad = cloud_frame(1, 3, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);
  bad.mutable_frame()->set_sequence(6);  // 4 and 5 never came
  sensor.send(bad);
  CHECK(consumer.gaps().empty());  // told before the next frame
  sensor.frame(1, 8);
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() >= 3);
  CHECK(gaps[0].reason() == v1::GAP_REJECTED);
  CHECK(gaps[0].first() == 3);
  CHECK(gaps[0].last() == 3);
  CHECK(gaps[1].reason() == v1::GAP_SOURCE);
  CHECK(gaps[1].first() == 4);
  CHECK(gaps[1].last() == 5);
  CHECK(gaps.back().last() == 7);
  std::uint64_t next = 3;
  for (const auto& gap : gaps) {
    CHECK(gap.first() == next);
    CHECK(gap.frames() == 0);
    next = gap.last() + 1;
  }
  CHECK(consumer.next_frame());
  bridge.check_books();
}

TEST_CASE("refused numbers at the end of an epoch are told before its Gap EPOCH",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a", 7);
  consumer.subscribe(1, "a");
  sensor.frame(1, 1);
  CHECK(consumer.next_frame());
  auto bad = cloud_frame(1, 2, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);
  sensor.advertise(1, "a", 8);
  sensor.frame(1, 1);
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[0].reason() == v1::GAP_REJECTED);
  CHECK(gaps[0].epoch() == 7);
  CHECK(gaps[0].first() == 2);
  CHECK(gaps[0].last() == 2);
  CHECK(gaps[1].reason() == v1::GAP_EPOCH);
  CHECK(gaps[1].epoch() == 7);
  CHECK(consumer.next_frame());
}

TEST_CASE("what a sensor says passes as sent: depth images, opaque data, poses, hops and origins",
          "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  v1::ClientMessage message;
  auto* frame = message.mutable_frame();
  frame->set_channel(1);
  frame->set_sequence(1);
  frame->set_epoch(7);
  frame->set_stamp_ns(-5);
  frame->set_clock(v1::CLOCK_SOURCE_TAI);
  frame->set_sent_ns(77);
  frame->set_frame_id("camera");
  frame->mutable_pose()->mutable_position()->set_x(1.5);
  frame->mutable_origin()->set_z(-2.5);
  frame->set_hops(3);
  frame->set_received_ns(1'699'999'999'000'000'000);
  frame->set_source_epoch(99);
  frame->set_source_sequence(98);
  auto* depth = frame->mutable_depth();
  depth->set_width(4);
  depth->set_height(2);
  depth->set_encoding("16UC1");
  depth->set_row_step(8);
  depth->set_fx(1);
  depth->set_fy(1);
  depth->set_data(pattern_bytes(1, 16));
  const auto compare = [&] {
    sensor.send(message);
    auto got = consumer.next_frame();
    REQUIRE(got);
    const v1::Frame& sent = message.frame();
    CHECK(got->subscription() == 1);
    got->clear_subscription();
    got->clear_result();
    got->clear_forwarded_ns();
    got->set_channel(sent.channel());
    got->set_epoch(sent.epoch());
    if (sent.hops() == 0) {
      CHECK(got->received_ns() == bridge.clock.wall_ns());
      got->set_received_ns(sent.received_ns());
    }
    CHECK(got->SerializeAsString() == sent.SerializeAsString());
  };
  compare();
  // Fields that only the bridge sets are ignored from a peer.
  frame->set_sequence(2);
  frame->set_hops(0);
  compare();
  frame->set_sequence(3);
  frame->set_received_ns(0);
  frame->mutable_opaque()->set_data(std::string("\0\1\2", 3));
  compare();
  frame->set_sequence(4);
  frame->mutable_opaque()->set_data("");
  compare();
  frame->set_sequence(5);
  frame->mutable_result()->set_points_in(1234);
  frame->set_subscription(55);
  frame->set_forwarded_ns(5);
  sensor.send(message);
  const auto got = consumer.next_frame();
  REQUIRE(got);
  CHECK(got->subscription() == 1);
  CHECK(got->result().points_in() == 0);
  CHECK(got->forwarded_ns() == bridge.clock.wall_ns());
  bridge.check_books();
}

TEST_CASE("oddities of a cloud are accepted and told once a channel", "[session][ingest]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  for (std::uint64_t i = 1; i <= 5; ++i) {
    auto message = cloud_frame(1, i, 10);
    message.mutable_frame()->mutable_cloud()->set_row_step(0);
    message.mutable_frame()->mutable_cloud()->mutable_data()->append("more");
    sensor.send(message);
  }
  CHECK(sensor.rejects().empty());
  std::vector<std::string> codes;
  while (const auto status = sensor.next_status()) codes.push_back(status->code());
  CHECK(codes == std::vector<std::string>{"row_step", "data_longer"});
}

TEST_CASE("a message that a broken connection cut off was not received", "[session][ingest]") {
  TestBridge bridge;
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  const auto bytes = cloud_frame(1, 2, 50'000).SerializeAsString();
  {
    FakePeer sensor(bridge);
    sensor.advertise(1, "a");
    sensor.frame(1, 1);
    sensor.begin(bytes.size());
    sensor.chunk(std::string_view(bytes).substr(0, bytes.size() - 1));
    CHECK(bridge.store->stats().ingest_held.count >= 800'000);
  }
  CHECK(bridge.store->stats().ingest_held.count == 0);
  CHECK(bridge.channel("a").received == 1);
  FakePeer again(bridge);
  again.advertise(1, "a");
  CHECK(again.next_advertised()->last_sequence() == 1);
  again.send_bytes(bytes);
  CHECK(consumer.frames().size() == 2);
  bridge.check_books();
}
