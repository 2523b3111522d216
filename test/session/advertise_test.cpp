// Channels and epochs (protocol.md §3, Channels and Epochs).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

/// What Advertise was answered with: 0 = Advertised.
int answer_to(FakePeer& peer, std::uint32_t number, const std::string& name, std::uint64_t epoch) {
  peer.pump();
  std::erase_if(peer.received, [](const auto& m) { return m.has_reject() || m.has_advertised(); });
  peer.advertise(number, name, epoch);
  peer.pump();
  for (const auto& message : peer.received) {
    if (message.has_advertised() && message.advertised().channel() == number) return 0;
    if (message.has_reject() && message.reject().channel() == number)
      return message.reject().code();
  }
  return -1;
}

}  // namespace

TEST_CASE("names have 1 to 256 bytes of UTF-8 without control characters, stars and question marks",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  std::uint32_t number = 0;
  for (const std::string& name : {std::string("a"),
                                  std::string(256, 'n'),
                                  std::string("lidar front/ü/点"),
                                  std::string("/leading//double/")}) {
    INFO(name);
    CHECK(answer_to(peer, ++number, name, 7) == 0);
  }
  for (const std::string& name : {std::string(),
                                  std::string(257, 'n'),
                                  std::string("a*"),
                                  std::string("a?"),
                                  std::string("a\nb"),
                                  std::string("a\x7f"),
                                  std::string("a\0b", 3)}) {
    INFO(name);
    CHECK(answer_to(peer, ++number, name, 7) == v1::REJECT_LIMIT);
  }
  CHECK(answer_to(peer, 0, "zero", 7) == v1::REJECT_LIMIT);  // numbers start at 1
  CHECK_FALSE(peer.closed);
}

TEST_CASE("a live holder keeps its name unless the newcomer has the same key of 16 bytes or more",
          "[session][advertise]") {
  TestBridge bridge;
  const std::string key(16, 'k');
  FakePeer holder(bridge, true, key);
  CHECK(answer_to(holder, 1, "a", 7) == 0);
  for (const std::string& other : {std::string(), std::string(16, 'x'), std::string(17, 'k')}) {
    FakePeer newcomer(bridge, true, other);
    CHECK(answer_to(newcomer, 1, "a", 7) == v1::REJECT_NAME_TAKEN);
  }
  FakePeer same(bridge, true, key);
  CHECK(answer_to(same, 1, "a", 7) == 0);
  for (const std::string& weak : {std::string(), std::string(15, 'k')}) {
    FakePeer first(bridge, true, weak);
    FakePeer second(bridge, true, weak);
    CHECK(answer_to(first, 1, "weak" + weak, 7) == 0);
    CHECK(answer_to(second, 1, "weak" + weak, 7) == v1::REJECT_NAME_TAKEN);
  }
  CHECK(bridge.channel("a").live);
}

TEST_CASE("the newest Advertise sets policy, latched and schema, and everybody is told",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer watcher(bridge);
  v1::ClientMessage message;
  auto* advertise = message.mutable_advertise();
  advertise->set_channel(1);
  advertise->set_name("a");
  advertise->set_epoch(7);
  advertise->set_frame_id("base");
  sensor.send(message);
  auto channels = watcher.next_channels();
  REQUIRE(channels);
  const auto id = channels->channel(0).id();
  CHECK(id != 0);
  CHECK(channels->channel(0).frame_id() == "base");
  CHECK(channels->channel(0).policy() == v1::POLICY_DROP_OLDEST);
  CHECK_FALSE(channels->channel(0).latched());
  CHECK(channels->channel(0).first_sequence() == 0);
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  advertise->set_policy(v1::POLICY_BACKPRESSURE);
  advertise->set_latched(true);
  advertise->set_schema("sensor_msgs/msg/Imu");
  advertise->set_encoding("cdr");
  advertise->set_schema_encoding("ros2msg");
  advertise->set_schema_data("float64 x");
  sensor.send(message);
  channels = watcher.next_channels();
  REQUIRE(channels);
  const auto& info = channels->channel(0);
  CHECK(info.id() == id);
  CHECK(info.policy() == v1::POLICY_BACKPRESSURE);
  CHECK(info.latched());
  CHECK(info.schema() == "sensor_msgs/msg/Imu");
  CHECK(info.encoding() == "cdr");
  CHECK(info.schema_encoding() == "ros2msg");
  CHECK(info.schema_data() == "float64 x");
  CHECK(info.epoch() == 7);
  CHECK(info.first_sequence() == 1);
  CHECK(info.last_sequence() == 3);
  CHECK(info.live());
  sensor.disconnect();
  channels = watcher.next_channels();
  REQUIRE(channels);
  CHECK_FALSE(channels->channel(0).live());
}

TEST_CASE("ChannelInfo names the frames of the present epoch only", "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  sensor.advertise(1, "a", 8);
  sensor.frame(1, 50);
  sensor.frame(1, 51);
  FakePeer peer(bridge, false);
  peer.send(hello_message());
  const auto channels = peer.next_channels();
  REQUIRE(channels);
  CHECK(channels->channel(0).epoch() == 8);
  CHECK(channels->channel(0).first_sequence() == 50);
  CHECK(channels->channel(0).last_sequence() == 51);
}

TEST_CASE("a number under another name ends the first channel, a name under another number moves",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  sensor.frame(1, 1);
  sensor.advertise(1, "b");
  CHECK_FALSE(bridge.channel("a").live);
  CHECK(bridge.channel("b").live);
  const auto ack = sensor.next_ack();  // the last of the channel that ended
  REQUIRE(ack);
  CHECK(ack->sequence() == 1);
  sensor.advertise(2, "b");
  CHECK(bridge.channel("b").live);
  sensor.frame(2, 1);
  CHECK(bridge.channel("b").published == 1);
  sensor.frame(1, 2);
  auto reject = sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_UNKNOWN_CHANNEL);
  CHECK(bridge.channel("b").received == 1);
}

TEST_CASE("Unadvertise ends the channel after its last Ack; unknown numbers are refused",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(3, "a");
  sensor.frame(3, 1);
  sensor.unadvertise(3);
  const auto ack = sensor.next_ack();
  REQUIRE(ack);
  CHECK(ack->sequence() == 1);
  CHECK_FALSE(bridge.channel("a").live);
  sensor.frame(3, 2);
  sensor.unadvertise(3);
  const auto rejects = sensor.rejects();
  REQUIRE(rejects.size() == 2);
  for (const auto& reject : rejects) CHECK(reject.code() == v1::REJECT_UNKNOWN_CHANNEL);
}

TEST_CASE("a session gets its own channels too", "[session][advertise]") {
  TestBridge bridge;
  FakePeer both(bridge);
  both.subscribe(1, "**");
  both.advertise(1, "mine");
  both.frame(1, 1);
  CHECK(both.next_frame());
  bridge.check_books();
}

TEST_CASE("epoch 0 lets the bridge choose, and there is no resume", "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 0);
  auto advertised = sensor.next_advertised();
  REQUIRE(advertised);
  const auto first = advertised->epoch();
  CHECK(first != 0);
  sensor.frame(1, 1);
  sensor.frame(1, 2, 100, first);
  CHECK(sensor.rejects().empty());
  sensor.advertise(1, "a", 0);
  advertised = sensor.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->epoch() != first);
  CHECK(advertised->last_sequence() == 0);
}

TEST_CASE("an epoch that the channel had before is refused, sixteen of them are remembered",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  for (std::uint64_t epoch = 100; epoch <= 116; ++epoch) {
    CHECK(answer_to(sensor, 1, "a", epoch) == 0);
  }
  // 116 is the present one; 100 to 115 came before it.
  for (std::uint64_t epoch = 100; epoch <= 115; ++epoch) {
    CHECK(answer_to(sensor, 1, "a", epoch) == v1::REJECT_EPOCH);
  }
  CHECK(answer_to(sensor, 1, "a", 116) == 0);
  CHECK(answer_to(sensor, 1, "a", 117) == 0);
  CHECK(answer_to(sensor, 1, "a", 101) == v1::REJECT_EPOCH);
  CHECK(answer_to(sensor, 1, "a", 100) == 0);  // forgotten: a new life as far as anybody knows
  bridge.check_books();
}

TEST_CASE("Advertised tells what a producer needs to go on within its epoch",
          "[session][advertise]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7);
  auto advertised = sensor.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->channel() == 1);
  CHECK(advertised->id() != 0);
  CHECK(advertised->last_sequence() == 0);
  CHECK(advertised->window_bytes() == 16ULL << 20);
  CHECK(advertised->epoch() == 7);
  const auto id = advertised->id();
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  auto bad = cloud_frame(1, 4, 10);
  bad.mutable_frame()->mutable_cloud()->set_data("short");
  sensor.send(bad);  // finally refused: its number is used up
  sensor.disconnect();
  FakePeer again(bridge);
  again.advertise(9, "a", 7);
  advertised = again.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->id() == id);
  CHECK(advertised->last_sequence() == 4);
  again.advertise(9, "a", 8);
  advertised = again.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->last_sequence() == 0);
}

TEST_CASE(
    "a channel that nobody fills or reads is removed after ten minutes, a latched one after a "
    "day, and a number is never given again",
    "[session][advertise]") {
  TestBridge bridge;
  FakePeer watcher(bridge);
  std::uint32_t plain = 0;
  {
    FakePeer sensor(bridge);
    sensor.advertise(1, "plain");
    plain = sensor.next_advertised()->id();
    sensor.advertise(2, "latched", 7, v1::POLICY_DROP_OLDEST, true);
    sensor.frame(1, 1);
    bridge.clock.advance(std::chrono::hours(2));
    bridge.hub->sweep();
    CHECK(bridge.hub->channels().size() == 2);  // it has a producer
  }
  bridge.clock.advance(std::chrono::minutes(9));
  FakePeer reader(bridge);
  reader.subscribe(1, "plain", [](auto& s) { s.set_history(v1::HISTORY_LAST); });
  CHECK(reader.next_frame());
  bridge.clock.advance(std::chrono::minutes(9));
  bridge.hub->sweep();
  CHECK(bridge.hub->channels().size() == 2);  // it was read nine minutes ago
  bridge.clock.advance(std::chrono::minutes(2));
  bridge.hub->sweep();
  REQUIRE(bridge.hub->channels().size() == 1);
  CHECK(bridge.hub->channels()[0].name == "latched");
  std::vector<std::uint32_t> removed;
  while (auto channels = watcher.next_channels())
    removed.insert(removed.end(), channels->removed().begin(), channels->removed().end());
  CHECK(removed == std::vector<std::uint32_t>{plain});
  // The subscription goes on without it, and says so.
  std::optional<v1::SubscriptionState> state;
  while (auto next = reader.next_state()) state = next;
  REQUIRE(state);
  CHECK(state->channel_size() == 0);
  CHECK_FALSE(state->ended());
  CHECK(state->counters().delivered() == 1);
  bridge.clock.advance(std::chrono::hours(24));
  bridge.hub->sweep();
  CHECK(bridge.hub->channels().empty());
  FakePeer sensor(bridge);
  sensor.advertise(1, "plain");
  CHECK(sensor.next_advertised()->id() > plain);
  sensor.frame(1, 1);
  CHECK(reader.next_frame());  // a channel of that name may appear later
  bridge.check_books();
}
