// The window of a channel, and go back n (protocol.md §3, Window and Reject).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

session::HubOptions small_window() {
  session::HubOptions options;
  options.window_bytes = 1'000'000;
  return options;
}

/// A producer on a BACKPRESSURE channel, and a reliable reader that does not read.
struct Held {
  explicit Held(session::HubOptions options = small_window()) : bridge(std::move(options)) {
    sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
    advertised = *sensor.next_advertised();
    consumer.subscribe(1, "a", [](auto& s) { s.set_reliable(true); });
    consumer.reading = false;
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
  FakePeer consumer{bridge};
  v1::Advertised advertised;
};

}  // namespace

TEST_CASE("a DROP_OLDEST channel's window is advice: nothing is refused for it",
          "[session][window]") {
  TestBridge bridge(small_window());
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_reliable(true); });
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 50; ++i) sensor.frame(1, i, 700'000);
  CHECK(sensor.rejects().empty());
  for (const auto& ack : sensor.acks()) CHECK(ack.window_bytes() > 0);
  consumer.reading = true;
  consumer.pump();
  bridge.check_books();
}

TEST_CASE(
    "a BACKPRESSURE window shrinks by what reliable readers have not had, and beyond it is "
    "WINDOW, to be sent again",
    "[session][window]") {
  Held held;
  CHECK(held.advertised.window_bytes() == 1'000'000);
  std::uint64_t told = held.advertised.window_bytes();
  std::uint64_t unacknowledged = 0;
  std::uint64_t sequence = 0;
  // A producer that keeps to the rule is not refused once.
  while (unacknowledged + 60'000 <= told || (unacknowledged == 0 && told > 0)) {
    held.sensor.frame(1, ++sequence, 60'000);
    unacknowledged += 60'000;
    held.sensor.tick(milliseconds(20));
    for (const auto& ack : held.sensor.acks()) {
      told = ack.window_bytes();
      unacknowledged = (sequence - ack.sequence()) * 60'000;
    }
    REQUIRE(sequence < 100);
  }
  held.sensor.tick(milliseconds(100));
  CHECK(held.sensor.rejects().empty());
  CHECK(sequence >= 16);
  for (const auto& ack : held.sensor.acks()) told = ack.window_bytes();
  while (told > 0) {  // one frame of any size while nothing is unacknowledged
    held.sensor.frame(1, ++sequence, 60'000);
    held.sensor.tick(milliseconds(100));
    CHECK(held.sensor.rejects().empty());
    for (const auto& ack : held.sensor.acks()) told = ack.window_bytes();
  }
  held.sensor.frame(1, ++sequence, 1);
  const auto reject = held.sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_WINDOW);
  CHECK(reject->retry());
  CHECK(reject->sequence() == sequence);
  held.sensor.tick(milliseconds(1000));
  CHECK(held.sensor.acks().empty());  // it is not acknowledged

  held.consumer.reading = true;
  held.consumer.pump();
  held.sensor.pump();
  const auto ack = held.sensor.next_ack();  // a rise from 0 is told at once
  REQUIRE(ack);
  CHECK(ack->sequence() == sequence - 1);
  CHECK(ack->window_bytes() > 0);
  CHECK(held.consumer.frames().size() == sequence - 1);
  CHECK(held.consumer.gaps().empty());
  held.bridge.check_books();
}

TEST_CASE("a frame larger than the window passes while nothing is unacknowledged",
          "[session][window]") {
  Held held;
  held.sensor.frame(1, 1, 3'000'000);
  CHECK(held.sensor.rejects().empty());
  const auto ack = held.sensor.next_ack();
  REQUIRE(ack);
  CHECK(ack->window_bytes() == 0);
  held.sensor.frame(1, 2, 10);
  const auto reject = held.sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_WINDOW);
}

TEST_CASE("what is beyond the window is refused also where nobody is reliable",
          "[session][window]") {
  TestBridge bridge(small_window());
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  sensor.frame(1, 1, 400'000);
  sensor.frame(1, 2, 700'000);  // 400 000 are not acknowledged yet
  auto reject = sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_WINDOW);
  sensor.tick(milliseconds(100));
  CHECK(sensor.next_ack());
  sensor.frame(1, 2, 700'000);
  CHECK(sensor.rejects().empty());
  bridge.check_books();
}

TEST_CASE("after WINDOW every later frame has the same answer until the number comes again",
          "[session][window]") {
  Held held;
  held.sensor.frame(1, 1, 2'000'000);
  held.sensor.frame(1, 2, 10);
  held.consumer.reading = true;  // room comes, but number 2 has to come first
  held.consumer.pump();
  held.sensor.pump();
  held.sensor.received.clear();
  for (std::uint64_t i = 3; i <= 6; ++i) held.sensor.frame(1, i, 10);
  auto rejects = held.sensor.rejects();
  REQUIRE(rejects.size() == 4);
  for (std::size_t i = 0; i < rejects.size(); ++i) {
    CHECK(rejects[i].code() == v1::REJECT_WINDOW);
    CHECK(rejects[i].retry());
    CHECK(rejects[i].sequence() == i + 3);
  }
  held.sensor.frame(1, 1, 2'000'000);  // a duplicate is a duplicate all the same
  CHECK(held.sensor.rejects().empty());
  for (std::uint64_t i = 2; i <= 6; ++i) held.sensor.frame(1, i, 10);
  CHECK(held.sensor.rejects().empty());
  CHECK(held.consumer.frames().size() == 6);
  CHECK(held.consumer.gaps().empty());
  const auto books = held.bridge.channel("a");
  CHECK(books.received == 12);
  CHECK(books.published == 6);
  CHECK(books.duplicate == 1);
  CHECK(books.rejected == 5);
  held.bridge.check_books();
}

TEST_CASE("a fault of a frame behind a refused one is answered, but uses no number up",
          "[session][window]") {
  Held held;
  held.sensor.frame(1, 1, 2'000'000);
  held.sensor.frame(1, 2, 10);
  auto far = opaque_frame(1, 3, "x");
  far.mutable_frame()->set_hops(9);
  held.sensor.send(far);
  const auto rejects = held.sensor.rejects();
  REQUIRE(rejects.size() == 2);
  CHECK(rejects[1].code() == v1::REJECT_LIMIT);
  held.consumer.reading = true;
  held.consumer.pump();
  held.sensor.pump();
  held.sensor.frame(1, 2, 10);
  held.sensor.send(far);
  held.sensor.frame(1, 4, 10);
  const auto gaps = held.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_REJECTED);
  CHECK(gaps[0].first() == 3);
  CHECK(held.consumer.frames().size() == 3);
  held.bridge.check_books();
}

TEST_CASE("advertising again ends go back n: the producer goes on from last_sequence",
          "[session][window]") {
  Held held;
  held.sensor.frame(1, 1, 2'000'000);
  held.sensor.frame(1, 2, 10);
  held.consumer.reading = true;
  held.consumer.pump();
  held.sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  const auto advertised = held.sensor.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->last_sequence() == 1);
  held.sensor.received.clear();
  held.sensor.frame(1, 3, 10);
  CHECK(held.sensor.rejects().empty());
}

TEST_CASE("a ring that is full of frames for reliable readers closes the window",
          "[session][window]") {
  Held held;
  held.bridge.store->set_depth(4);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    held.sensor.frame(1, i, 10);
    held.sensor.tick(milliseconds(100));
  }
  CHECK(held.sensor.rejects().empty());
  const auto acks = held.sensor.acks();
  REQUIRE_FALSE(acks.empty());
  CHECK(acks.back().window_bytes() == 0);
  held.sensor.frame(1, 5, 10);
  const auto reject = held.sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_WINDOW);
  held.consumer.reading = true;
  held.consumer.pump();
  CHECK(held.sensor.next_ack());
  held.sensor.frame(1, 5, 10);
  CHECK(held.consumer.frames().size() == 5);
  held.bridge.check_books();
}
