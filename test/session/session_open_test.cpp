// Opening and closing a session (protocol.md §2, points 1 to 5).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test
using session::CloseKind;
using session::Flow;

namespace {

v1::ClientMessage ping_message() {
  v1::ClientMessage message;
  message.mutable_ping()->set_cookie(5);
  return message;
}

/// The parser's verdict MALFORMED: a field that ends behind the message.
const std::string kGarbage("\x0a\x7f\x01", 3);

}  // namespace

TEST_CASE("whatever comes before Hello is answered with MALFORMED and ends the session",
          "[session][open]") {
  TestBridge bridge;
  const std::string large(100'000, 'x');
  const std::vector<std::string> firsts{
      ping_message().SerializeAsString(),
      opaque_frame(1, 1, "abc").SerializeAsString(),
      opaque_frame(1, 1, large).SerializeAsString(),
      kGarbage,
      std::string(),
      std::string("\xfa\x01\x01x", 4),
  };
  for (const std::string& first : firsts) {
    for (const bool pieces : {false, true}) {
      INFO(first.size() << " bytes, in pieces: " << pieces);
      FakePeer peer(bridge, false);
      const Flow flow =
          pieces ? peer.send_pieces(first, {first.size() / 2}, true) : peer.send_bytes(first);
      CHECK(flow == Flow::kStop);
      const auto reject = peer.next_reject();
      REQUIRE(reject);
      CHECK(reject->code() == v1::REJECT_MALFORMED);
      REQUIRE(peer.closed);
      CHECK(peer.closed->kind == CloseKind::kProtocol);
    }
  }
  CHECK(bridge.hub->sessions() == 0);
}

TEST_CASE("a Hello in any number of pieces opens the session", "[session][open]") {
  TestBridge bridge;
  const std::string hello = hello_message(std::string(16, 'k')).SerializeAsString();
  for (std::size_t cut = 1; cut < hello.size(); ++cut) {
    FakePeer peer(bridge, false);
    peer.send_pieces(hello, {cut}, cut % 2 == 0);
    peer.pump();
    REQUIRE_FALSE(peer.received.empty());
    CHECK(peer.received.front().has_welcome());
  }
}

TEST_CASE("a session without Hello is closed after ten seconds, not before", "[session][open]") {
  TestBridge bridge;
  FakePeer silent(bridge, false);
  FakePeer late(bridge, false);
  silent.tick(milliseconds(9'999));
  CHECK_FALSE(silent.closed);
  late.send(hello_message());
  silent.tick(milliseconds(1));
  REQUIRE(silent.closed);
  CHECK(silent.closed->kind == CloseKind::kHelloTimeout);
  late.tick(milliseconds(60'000));
  CHECK_FALSE(late.closed);
}

TEST_CASE("Hello comes once; a second one is refused and changes nothing", "[session][open]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  peer.send(hello_message());
  const auto reject = peer.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_MALFORMED);
  CHECK_FALSE(peer.closed);
  peer.ping(1);
  CHECK(peer.next([](const auto& message) { return message.has_pong(); }));
}

TEST_CASE("Welcome tells the limits and the bridge's wall clock", "[session][open]") {
  session::HubOptions options;
  options.bridge_name = "here";
  options.version = "1.2";
  options.max_message_bytes = 123'456;
  options.ping_interval_ms = 777;
  TestBridge bridge(options);
  FakePeer one(bridge, false);
  one.send(hello_message());
  one.pump();
  FakePeer two(bridge, false);
  two.send(hello_message());
  two.pump();
  const auto& welcome = one.received.front().welcome();
  CHECK(welcome.bridge() == "here");
  CHECK(welcome.version() == "1.2");
  CHECK(welcome.max_message_bytes() == 123'456);
  CHECK(welcome.max_frame_bytes() == bridge.store->max_frame_bytes().count);
  CHECK(welcome.ping_interval_ms() == 777);
  CHECK(welcome.now_ns() == bridge.clock.wall_ns());
  CHECK(welcome.boot_id() == two.received.front().welcome().boot_id());
  CHECK(welcome.session() != two.received.front().welcome().session());
}

TEST_CASE("the first list of channels comes in several messages, and only the last is complete",
          "[session][open]") {
  session::HubOptions options;
  options.max_channels_per_session = 2000;
  TestBridge bridge(options);
  FakePeer sensor(bridge);
  const std::size_t count = 1500;
  for (std::uint32_t i = 1; i <= count; ++i) {
    sensor.advertise(i, "c/" + std::to_string(i));
    sensor.pump();
  }
  FakePeer peer(bridge, false);
  peer.send(hello_message());
  peer.pump();
  std::size_t told = 0;
  std::size_t lists = 0;
  bool complete = false;
  for (const auto& message : peer.received) {
    if (!message.has_channels()) continue;
    CHECK_FALSE(complete);
    complete = message.channels().complete();
    told += static_cast<std::size_t>(message.channels().channel_size());
    ++lists;
  }
  CHECK(complete);
  CHECK(told == count);
  CHECK(lists >= 3);
}

TEST_CASE("a channel, a new epoch and a new schema are announced before a frame that uses them",
          "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  const auto announce = [&](std::uint64_t epoch, const std::string& schema) {
    v1::ClientMessage message;
    message.mutable_advertise()->set_channel(1);
    message.mutable_advertise()->set_name("a");
    message.mutable_advertise()->set_epoch(epoch);
    message.mutable_advertise()->set_schema(schema);
    sensor.send(message);
  };
  std::uint64_t sequence = 0;
  // All at once, while the consumer's strand does not run: the order must come from the session.
  const std::vector<std::pair<std::uint64_t, std::string>> lives{
      {7, "one"}, {7, "two"}, {8, "two"}, {9, "three"}};
  for (const auto& [epoch, schema] : lives) {
    announce(epoch, schema);
    sensor.frame(1, ++sequence);
    consumer.pump();
    std::optional<v1::ChannelInfo> known;
    bool framed = false;
    for (const auto& message : consumer.received) {
      if (message.has_channels() && message.channels().channel_size() > 0)
        known = message.channels().channel(message.channels().channel_size() - 1);
      if (!message.has_frame()) continue;
      framed = true;
      REQUIRE(known);
      CHECK(known->epoch() == epoch);
      CHECK(known->schema() == schema);
      CHECK(known->id() == message.frame().channel());
      CHECK(known->live());
    }
    CHECK(framed);
    consumer.received.clear();
  }
  bridge.check_books();
}

TEST_CASE("an announcement that does not fit into a write holds back the frames that need it",
          "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a", 7);
  consumer.subscribe(1, "a");
  consumer.received.clear();
  const auto advertise = [&](std::uint32_t number, const std::string& name, std::size_t schema) {
    v1::ClientMessage message;
    auto* channel = message.mutable_advertise();
    channel->set_channel(number);
    channel->set_name(name);
    channel->set_epoch(8);
    channel->set_schema_data(std::string(schema, 's'));
    sensor.send(message);
  };
  advertise(2, "b", 64'900);  // one list, which leaves a few hundred bytes of a write
  advertise(3, "c", 65'600);
  advertise(1, "a", 900);
  sensor.send(opaque_frame(1, 1, "x"));
  consumer.pump();
  bool announced = false;
  bool framed = false;
  for (const auto& message : consumer.received) {
    for (const auto& info : message.channels().channel())
      announced = announced || (info.name() == "a" && info.epoch() == 8);
    if (!message.has_frame()) continue;
    framed = true;
    CHECK(announced);
  }
  CHECK(framed);
}

TEST_CASE("sixteen messages in a row that do not parse end the session, fifteen do not",
          "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const auto garbage = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (i % 2 == 0) {
        sensor.send_bytes(kGarbage);
      } else {
        sensor.send_pieces(kGarbage, {1}, true);
      }
    }
  };
  garbage(15);
  CHECK(sensor.rejects().size() == 15);
  sensor.frame(1, 1);  // a good one: the row is over
  garbage(15);
  CHECK_FALSE(sensor.closed);
  sensor.ping(1);
  garbage(15);
  CHECK_FALSE(sensor.closed);
  garbage(1);
  REQUIRE(sensor.closed);
  CHECK(sensor.closed->kind == CloseKind::kMalformed);
  for (const auto& reject : sensor.rejects()) CHECK(reject.code() == v1::REJECT_MALFORMED);
}

TEST_CASE("messages and payloads of a later version are not counted among the sixteen",
          "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  v1::ClientMessage no_payload;
  no_payload.mutable_frame()->set_channel(1);
  for (std::uint64_t i = 1; i <= 40; ++i) {
    sensor.send_bytes(std::string("\xfa\x01\x01x", 4));  // field 31
    no_payload.mutable_frame()->set_sequence(i);
    sensor.send(no_payload);
  }
  CHECK_FALSE(sensor.closed);
  const auto rejects = sensor.rejects();
  CHECK(rejects.size() == 80);
  for (const auto& reject : rejects) CHECK(reject.code() == v1::REJECT_UNSUPPORTED);
  bridge.check_books();
}

TEST_CASE("a Pong goes ahead of frames that wait", "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
  consumer.received.clear();
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 100; ++i) sensor.frame(1, i, 3000);
  consumer.pump();
  consumer.ping(42);
  consumer.reading = true;
  consumer.pump();
  REQUIRE(consumer.received.size() == 101);
  REQUIRE(consumer.received.front().has_pong());
  CHECK(consumer.received.front().pong().cookie() == 42);
  CHECK(consumer.received.front().pong().now_ns() == bridge.clock.wall_ns());
}

TEST_CASE("Goodbye ends the channels at once, after their last Acks", "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  sensor.frame(1, 1);
  sensor.frame(1, 2);
  sensor.pump();
  CHECK(sensor.acks().empty());
  sensor.goodbye("done");
  REQUIRE(sensor.closed);
  CHECK(sensor.closed->kind == CloseKind::kNormal);
  const auto ack = sensor.next_ack();
  REQUIRE(ack);
  CHECK(ack->sequence() == 2);
  CHECK_FALSE(bridge.channel("a").live);
  FakePeer other(bridge);
  other.advertise(1, "a", 8);
  CHECK(other.next_advertised());  // the name is free before the first connection is gone
}

TEST_CASE("a half close without subscriptions gives the last Acks and ends the session",
          "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  sensor.advertise(2, "b");
  sensor.frame(1, 1);
  sensor.frame(2, 7);
  sensor.half_close();
  REQUIRE(sensor.closed);
  CHECK(sensor.closed->kind == CloseKind::kNormal);
  const auto acks = sensor.acks();
  CHECK(acks.size() == 2);
  CHECK_FALSE(bridge.channel("a").live);
  CHECK_FALSE(bridge.channel("b").live);
}

TEST_CASE("a peer that half-closes with subscriptions goes on receiving", "[session][open]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer both(bridge);
  sensor.advertise(1, "a");
  both.advertise(1, "b");
  both.frame(1, 1);
  both.subscribe(1, "a");
  both.half_close();
  CHECK_FALSE(both.closed);
  CHECK(both.next_ack());
  CHECK_FALSE(bridge.channel("b").live);
  sensor.frame(1, 1);
  CHECK(both.next_frame());
  both.tick(milliseconds(3'600'000));
  CHECK_FALSE(both.closed);
}

TEST_CASE("sessions beyond the limit and beyond the rate are refused before they begin",
          "[session][open]") {
  session::HubOptions options;
  options.max_sessions = 3;
  options.accept_rate = 10;
  TestBridge bridge(options);
  std::vector<std::unique_ptr<FakePeer>> peers;
  for (int i = 0; i < 3; ++i) peers.push_back(std::make_unique<FakePeer>(bridge));
  auto refused = bridge.hub->admit();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().cause == session::Refusal::Cause::kMaxSessions);
  peers.pop_back();
  CHECK(bridge.hub->admit());  // and given back
  bridge.hub->set_max_sessions(2);
  CHECK_FALSE(bridge.hub->admit());
  bridge.hub->set_max_sessions(100);
  int taken = 0;
  while (bridge.hub->admit()) ++taken;
  CHECK(taken < 10);
  refused = bridge.hub->admit();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().cause == session::Refusal::Cause::kAcceptRate);
  bridge.clock.advance(std::chrono::seconds(1));
  CHECK(bridge.hub->admit());
}

TEST_CASE("a peer that does not read what it asks for is not read from", "[session][open]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  peer.reading = false;
  Flow flow = Flow::kContinue;
  int sent = 0;
  for (; sent < 100'000 && flow == Flow::kContinue; ++sent)
    flow = peer.send_bytes(kGarbage + "\x0a\x01x");
  // Malformed ends the session first; so ask for something that is only refused.
  FakePeer asker(bridge);
  asker.reading = false;
  flow = Flow::kContinue;
  for (sent = 0; sent < 100'000 && flow == Flow::kContinue; ++sent) {
    v1::ClientMessage message;
    message.mutable_unadvertise()->set_channel(9);
    flow = asker.send(message);
  }
  CHECK(flow == Flow::kPause);
  CHECK(bridge.hub->session_list().size() == 2);
  for (const auto& one : bridge.hub->session_list()) CHECK(one.outbox_bytes < 300'000);
  asker.reading = true;
  asker.pump();
  CHECK(asker.rejects().size() == static_cast<std::size_t>(sent));  // the one that waited too
  for (const auto& one : bridge.hub->session_list()) CHECK(one.outbox_bytes < 1000);
}
