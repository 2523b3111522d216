// The bridge goes away (protocol.md §2, point 6), and the one way in which memory ends a session
// (§4).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

#include <set>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test
using session::CloseKind;

namespace {

std::optional<v1::Drain> drain_of(FakePeer& peer) {
  const auto found = peer.next([](const auto& message) { return message.has_drain(); });
  return found ? std::optional(found->drain()) : std::nullopt;
}

}  // namespace

TEST_CASE("every session is told of a drain once, with times to return that differ",
          "[session][drain]") {
  TestBridge bridge;
  std::vector<std::unique_ptr<FakePeer>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<FakePeer>(bridge));
    peers.back()->advertise(1, "c" + std::to_string(i));
  }
  bridge.hub->drain(milliseconds(10'000), milliseconds(1000), "upgrade");
  CHECK(bridge.hub->draining());
  std::set<std::uint32_t> retries;
  for (auto& peer : peers) {
    const auto drain = drain_of(*peer);
    REQUIRE(drain);
    CHECK(drain->reason() == "upgrade");
    CHECK(drain->deadline_ms() == 10'000);
    CHECK(drain->retry_after_ms() >= 1000);
    CHECK(drain->retry_after_ms() <= 2000);
    retries.insert(drain->retry_after_ms());
    peer->tick(milliseconds(0));
    CHECK_FALSE(drain_of(*peer));
  }
  CHECK(retries.size() > 10);
}

TEST_CASE(
    "producers' windows go to 0, and they are closed first, spread over the first half, each "
    "after its last Ack",
    "[session][drain]") {
  TestBridge bridge;
  std::vector<std::unique_ptr<FakePeer>> sensors;
  for (std::uint32_t i = 0; i < 10; ++i) {
    sensors.push_back(std::make_unique<FakePeer>(bridge));
    sensors.back()->advertise(
        1, "c" + std::to_string(i), 7, i == 9 ? v1::POLICY_BACKPRESSURE : v1::POLICY_DROP_OLDEST);
    sensors.back()->frame(1, 1);
  }
  FakePeer consumer(bridge);
  consumer.subscribe(1, "**", [](auto& s) { s.set_queue_frames(100); });
  bridge.hub->drain(milliseconds(10'000), milliseconds(1000), "test");
  for (auto& sensor : sensors) {
    const auto acks = sensor->acks();
    REQUIRE_FALSE(acks.empty());
    CHECK(acks.back().window_bytes() == 0);
    CHECK(acks.back().sequence() == 1);
  }
  if (!sensors[9]->closed) {  // beyond the window: only BACKPRESSURE refuses
    sensors[9]->frame(1, 2);
    CHECK(sensors[9]->next_reject()->code() == v1::REJECT_WINDOW);
  }
  std::vector<int> closed_at;
  std::set<FakePeer*> closed;
  std::vector<std::uint64_t> sent(10, 1);
  for (int at = 0; at <= 5000; at += 100) {
    for (std::size_t i = 0; i < sensors.size(); ++i) {
      auto& sensor = sensors[i];
      sensor->pump();
      if (sensor->closed && closed.insert(sensor.get()).second) {
        closed_at.push_back(at);
        CHECK(sensor->closed->kind == CloseKind::kGoingAway);
        const auto acks = sensor->acks();
        if (sent[i] > 1 && i < 9) {
          REQUIRE_FALSE(acks.empty());
          CHECK(acks.back().sequence() == sent[i]);
        }
        sensor->disconnect(true);
      } else if (!sensor->closed && i < 9) {
        sensor->frame(1, ++sent[i]);  // one that does not obey: nothing is refused for it
        CHECK(sensor->rejects().empty());
      }
    }
    consumer.pump();
    CHECK(static_cast<bool>(consumer.closed) == (closed.size() == sensors.size()));
    bridge.clock.advance(milliseconds(100));
    consumer.pump();
  }
  REQUIRE(closed_at.size() == 10);
  CHECK(closed_at.front() == 0);
  CHECK(closed_at.back() <= 5000);
  for (std::size_t i = 1; i < closed_at.size(); ++i) CHECK(closed_at[i] - closed_at[i - 1] <= 600);
  // The consumer had everything, then it was closed.
  REQUIRE(consumer.closed);
  CHECK(consumer.closed->kind == CloseKind::kGoingAway);
  std::uint64_t all = 0;
  for (const auto one : sent) all += one - 1;
  CHECK(consumer.frames().size() == all);
  CHECK(consumer.gaps().empty());
}

TEST_CASE("a consumer that does not reach the head is closed at the deadline, with Gap SHUTDOWN",
          "[session][drain]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer slow(bridge);
  slow.subscribe(1, "a", [](auto& s) {
    s.set_queue_frames(100);
    s.set_credit(1);
  });
  for (std::uint64_t i = 1; i <= 5; ++i) sensor.frame(1, i);
  CHECK(slow.frames().size() == 1);
  bridge.hub->drain(milliseconds(4'000), milliseconds(1000), "test");
  sensor.pump();
  sensor.disconnect();
  slow.tick(milliseconds(3'900));
  CHECK_FALSE(slow.closed);
  slow.tick(milliseconds(100));
  REQUIRE(slow.closed);
  CHECK(slow.closed->kind == CloseKind::kGoingAway);
  const auto gaps = slow.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_SHUTDOWN);
  CHECK(gaps[0].first() == 2);
  CHECK(gaps[0].last() == 5);
  CHECK(gaps[0].frames() == 4);
  bridge.check_books();
}

TEST_CASE("a frame that is half sent in parts at the deadline is lost, and told so",
          "[session][drain]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer slow(bridge, true, {}, 4096);
  slow.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  sensor.send(cloud_frame(1, 1, 1000));
  sensor.send(cloud_frame(1, 2, 1000));
  slow.reading = false;
  slow.pump();
  REQUIRE(slow.take_batch());
  bridge.hub->drain(milliseconds(1'000), milliseconds(1000), "test");
  sensor.pump();
  sensor.disconnect();
  slow.tick(milliseconds(1'000));
  REQUIRE(slow.closed);
  slow.finish_batch();
  slow.reading = true;
  slow.pump();
  std::uint64_t lost = 0;
  for (const auto& gap : slow.gaps()) {
    CHECK(gap.reason() == v1::GAP_SHUTDOWN);
    lost += gap.frames();
  }
  CHECK(lost == 2);
  bridge.check_books();
}

TEST_CASE("sessions that neither produce nor read are closed at once, and none may begin",
          "[session][drain]") {
  TestBridge bridge;
  FakePeer idle(bridge);
  bridge.hub->drain(milliseconds(4'000), milliseconds(1500), "test");
  idle.pump();
  REQUIRE(idle.closed);
  CHECK(idle.closed->kind == CloseKind::kGoingAway);
  const auto refused = bridge.hub->admit();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().cause == session::Refusal::Cause::kDraining);
  CHECK(refused.error().retry_after_s == 2);
  bridge.hub->drain(milliseconds(1), milliseconds(1), "again");  // the first one counts
  CHECK(bridge.hub->draining());
}

namespace {

/// A store in which one large frame uses all of what may be pinned.
frame::StoreOptions one_pin() {
  auto options = TestBridge::small_store();
  options.pin_share = 0.02;  // 1.3 MB
  return options;
}

}  // namespace

TEST_CASE(
    "a peer that moves no byte of a large frame is closed when others wait for its memory, "
    "never else",
    "[session][stall]") {
  TestBridge bridge({}, one_pin());
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer stalled(bridge);
  stalled.subscribe(1, "a");
  FakePeer other(bridge);
  stalled.reading = false;
  sensor.frame(1, 1, 1'000'000);
  stalled.pump();
  REQUIRE(stalled.take_batch());
  stalled.tick(std::chrono::minutes(10));
  CHECK_FALSE(stalled.closed);  // nobody waits
  other.subscribe(1, "a", [](auto& s) { s.set_history(v1::HISTORY_LAST); });
  CHECK(other.frames().empty());
  CHECK(bridge.store->pin_waiters() == 1);
  SECTION("it does not move") {
    stalled.tick(milliseconds(1'000));
    REQUIRE(stalled.closed);
    CHECK(stalled.closed->kind == CloseKind::kPolicy);
    stalled.disconnect();
    CHECK(other.next_frame());
  }
  SECTION("it moves slowly") {
    for (int i = 0; i < 20; ++i) {
      stalled.session().batch_progress(1);
      stalled.tick(milliseconds(9'000));
      CHECK_FALSE(stalled.closed);
    }
    stalled.tick(milliseconds(10'000));
    REQUIRE(stalled.closed);
    stalled.disconnect();
  }
  SECTION("it goes on") {
    stalled.finish_batch();
    CHECK(other.next_frame());
    stalled.tick(std::chrono::minutes(10));
    CHECK_FALSE(stalled.closed);
  }
  CHECK_FALSE(sensor.closed);  // who only produces is never closed for it
}

TEST_CASE("a peer that moves no byte of small frames is closed after 2 s when a shrink took them",
          "[session][stall]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer stalled(bridge);
  stalled.subscribe(1, "a");
  stalled.reading = false;
  sensor.frame(1, 1, 10'000);
  stalled.pump();
  REQUIRE(stalled.take_batch());
  stalled.tick(std::chrono::minutes(1));
  CHECK_FALSE(stalled.closed);  // the frame is still kept: nobody lacks its memory
  stalled.session().batch_progress(1);
  bridge.store->set_budget(Bytes{0});
  stalled.tick(milliseconds(1'999));
  CHECK_FALSE(stalled.closed);
  stalled.tick(milliseconds(1'001));
  REQUIRE(stalled.closed);
  CHECK(stalled.closed->kind == CloseKind::kPolicy);
}

TEST_CASE("who waits for a large frame's ticket still gets the newest, and small frames meanwhile",
          "[session][stall]") {
  TestBridge bridge({}, one_pin());
  FakePeer sensor(bridge);
  sensor.advertise(1, "large");
  sensor.advertise(2, "small");
  FakePeer stalled(bridge);
  stalled.subscribe(1, "large");
  FakePeer other(bridge);
  other.subscribe(1, "*");
  stalled.reading = false;
  sensor.frame(1, 1, 1'000'000);
  stalled.pump();
  REQUIRE(stalled.take_batch());
  for (std::uint64_t i = 2; i <= 10; ++i) {
    sensor.frame(1, i, 1'000'000);
    sensor.frame(2, i, 100);
    const auto frames = other.frames();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].opaque().data().size() == 100);
  }
  stalled.finish_batch();
  const auto frames = other.frames();
  REQUIRE(frames.size() == 3);
  CHECK(frames.back().sequence() == 10);
  std::uint64_t lost = 0;
  for (const auto& gap : other.gaps()) lost += gap.frames();
  CHECK(lost == 7);
}
