// One peer, two sessions: the newer one takes over, and nothing appears twice (protocol.md §3).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

TEST_CASE("a takeover fences the old session in the middle of a frame", "[session][takeover]") {
  TestBridge bridge;
  const std::string key(16, 'k');
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  FakePeer old_one(bridge, true, key);
  old_one.advertise(1, "a", 7);
  old_one.frame(1, 1);
  const auto bytes = cloud_frame(1, 2, 5000).SerializeAsString();
  old_one.begin(bytes.size());
  old_one.chunk(std::string_view(bytes).substr(0, 40'000));
  FakePeer new_one(bridge, true, key);
  new_one.advertise(1, "a", 7);
  const auto advertised = new_one.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->last_sequence() == 1);
  SECTION("the new session sends the same frame first") {
    new_one.send_bytes(bytes);
    old_one.chunk(std::string_view(bytes).substr(40'000));
    old_one.session().end_message();
  }
  SECTION("the old session's frame ends first") {
    old_one.chunk(std::string_view(bytes).substr(40'000));
    old_one.session().end_message();
    new_one.send_bytes(bytes);
  }
  const auto reject = old_one.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_UNKNOWN_CHANNEL);
  old_one.frame(1, 3);
  CHECK(old_one.next_reject());
  old_one.tick(milliseconds(1000));
  for (const auto& ack : old_one.acks()) CHECK(ack.sequence() <= 1);
  old_one.disconnect();  // what it ends is its own no more
  CHECK(bridge.channel("a").live);
  new_one.frame(1, 3);
  const auto frames = consumer.frames();
  REQUIRE(frames.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(frames[i].sequence() == i + 1);
  CHECK(consumer.gaps().empty());
  const auto books = bridge.channel("a");
  CHECK(books.received == 3);
  bridge.check_books();
}

TEST_CASE("a takeover may bring a new epoch, and can be taken back", "[session][takeover]") {
  TestBridge bridge;
  const std::string key(20, 'k');
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  FakePeer one(bridge, true, key);
  FakePeer two(bridge, true, key);
  one.advertise(1, "a", 7);
  one.frame(1, 1);
  two.advertise(5, "a", 8);
  two.frame(5, 1);
  one.frame(1, 2);
  CHECK(one.next_reject()->code() == v1::REJECT_UNKNOWN_CHANNEL);
  one.advertise(1, "a", 7);
  CHECK(one.next_reject()->code() == v1::REJECT_EPOCH);  // the channel has had it
  CHECK(two.rejects().empty());
  one.advertise(1, "a", 8);
  CHECK(one.next_advertised());
  two.frame(5, 2);
  CHECK(two.next_reject());
  one.frame(1, 2);
  std::vector<std::string> told;
  consumer.pump();
  for (const auto& message : consumer.received) {
    if (message.has_frame())
      told.push_back(std::to_string(message.frame().epoch()) + ":" +
                     std::to_string(message.frame().sequence()));
    if (message.has_gap()) told.emplace_back("gap");
  }
  CHECK(told == std::vector<std::string>{"7:1", "gap", "8:1", "8:2"});
  bridge.check_books();
}

TEST_CASE("what was not acknowledged comes again after a broken connection: no loss, no double",
          "[session][takeover]") {
  TestBridge bridge;
  const std::string key(16, 'k');
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(10'000); });
  std::uint64_t acknowledged = 0;
  std::uint64_t made = 0;
  std::unique_ptr<FakePeer> sensor;
  for (int life = 0; life < 20; ++life) {
    auto next = std::make_unique<FakePeer>(bridge, true, key);  // the old one is not gone yet
    next->advertise(1, "a", 7);
    acknowledged = next->next_advertised()->last_sequence();
    sensor = std::move(next);
    for (std::uint64_t i = acknowledged + 1; i <= made; ++i) sensor->frame(1, i);
    for (int i = 0; i <= life; ++i) sensor->frame(1, ++made);
    if (life % 3 == 0 && made > 3) sensor->frame(1, made - 2);
    for (const auto& ack : sensor->acks()) acknowledged = ack.sequence();
    CHECK(acknowledged <= made);
  }
  const auto frames = consumer.frames();
  REQUIRE(frames.size() == made);
  for (std::size_t i = 0; i < frames.size(); ++i) REQUIRE(frames[i].sequence() == i + 1);
  CHECK(consumer.gaps().empty());
  bridge.check_books();
}
