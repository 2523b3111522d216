// The limits of protocol.md §2, point 7. (Names, frame headers and Hello's close are tested beside
// their subjects.)
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

int last_code(FakePeer& peer) {
  int code = 0;
  while (const auto reject = peer.next_reject()) code = reject->code();
  return code;
}

}  // namespace

TEST_CASE("a bridge has 4096 channels at most, a session 256", "[session][limits]") {
  TestBridge bridge;
  std::vector<std::unique_ptr<FakePeer>> sensors;
  for (std::uint32_t s = 0; s < 16; ++s) {
    sensors.push_back(std::make_unique<FakePeer>(bridge));
    for (std::uint32_t i = 1; i <= 256; ++i)
      sensors[s]->advertise(i, std::to_string(s) + "/" + std::to_string(i));
    CHECK(last_code(*sensors[s]) == 0);
    sensors[s]->advertise(300, "one more " + std::to_string(s));
    CHECK(last_code(*sensors[s]) == v1::REJECT_LIMIT);
    sensors[s]->advertise(1, std::to_string(s) + "/1", 8);  // a known one is none more
    CHECK(last_code(*sensors[s]) == 0);
  }
  CHECK(bridge.hub->channels().size() == 4096);
  FakePeer late(bridge);
  late.advertise(1, "late");
  CHECK(last_code(late) == v1::REJECT_LIMIT);
  sensors[0]->unadvertise(2);
  sensors[0]->advertise(300, "other");  // the name is kept, the channel counts
  CHECK(last_code(*sensors[0]) == v1::REJECT_LIMIT);
  CHECK_FALSE(late.closed);
}

TEST_CASE("a session has 64 subscriptions at most", "[session][limits]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  for (std::uint32_t id = 1; id <= 64; ++id) peer.subscribe(id, "a");
  CHECK(last_code(peer) == 0);
  peer.subscribe(65, "a");
  CHECK(last_code(peer) == v1::REJECT_LIMIT);
  peer.subscribe(64, "b");  // a change is none more
  CHECK(last_code(peer) == 0);
  peer.unsubscribe(3);
  peer.subscribe(65, "a");
  CHECK(last_code(peer) == 0);
}

TEST_CASE("strings of Hello have 256 bytes at most, the token 8 KiB", "[session][limits]") {
  TestBridge bridge;
  const std::vector<std::function<void(v1::Hello&, std::size_t)>> fields{
      [](auto& hello, std::size_t n) { hello.set_name(std::string(n, 'x')); },
      [](auto& hello, std::size_t n) { hello.set_agent(std::string(n, 'x')); },
      [](auto& hello, std::size_t n) { hello.set_peer_key(std::string(n, 'x')); },
      [](auto& hello, std::size_t n) { hello.set_token(std::string(n + 8192 - 256, 'x')); },
  };
  for (std::size_t i = 0; i < fields.size(); ++i) {
    INFO("field " << i);
    v1::ClientMessage message;
    fields[i](*message.mutable_hello(), 256);
    FakePeer fits(bridge, false);
    fits.send(message);
    fits.pump();
    CHECK(fits.received.front().has_welcome());
    fields[i](*message.mutable_hello(), 257);
    FakePeer above(bridge, false);
    above.send(message);
    CHECK(last_code(above) == v1::REJECT_LIMIT);
    REQUIRE(above.closed);
    CHECK(above.closed->kind == session::CloseKind::kProtocol);
  }
  v1::ClientMessage message;
  message.mutable_hello()->set_token(std::string(40'000, 'x'));
  const std::string bytes = message.SerializeAsString();
  FakePeer above(bridge, false);
  above.send_pieces(bytes, {100, 5000}, true);
  CHECK(last_code(above) == v1::REJECT_LIMIT);
  CHECK(above.closed);
}

TEST_CASE("schema_data has 1 MiB at most each, 16 MiB in all", "[session][limits]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  const auto advertise = [&](std::uint32_t number, std::size_t bytes) {
    v1::ClientMessage message;
    message.mutable_advertise()->set_channel(number);
    message.mutable_advertise()->set_name("c" + std::to_string(number));
    message.mutable_advertise()->set_epoch(7);
    message.mutable_advertise()->set_schema_data(std::string(bytes, 's'));
    if (number % 2 == 0) {
      sensor.send(message);
    } else {
      const auto whole = message.SerializeAsString();
      sensor.send_pieces(whole, {whole.size() / 2}, number % 3 == 0);
    }
    return last_code(sensor);
  };
  CHECK(advertise(1, (1 << 20) + 1) == v1::REJECT_LIMIT);
  CHECK(advertise(2, (1 << 20) + 1) == v1::REJECT_LIMIT);
  for (std::uint32_t i = 1; i <= 16; ++i) CHECK(advertise(i, 1 << 20) == 0);
  CHECK(advertise(17, 1) == v1::REJECT_LIMIT);
  CHECK(advertise(16, 1000) == 0);  // smaller than it was
  CHECK(advertise(17, 1000) == 0);
  CHECK_FALSE(sensor.closed);
}

TEST_CASE("strings of Advertise, and control messages of 64 KiB", "[session][limits]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  v1::ClientMessage message;
  message.mutable_advertise()->set_channel(1);
  message.mutable_advertise()->set_name("a");
  message.mutable_advertise()->set_schema(std::string(257, 's'));
  peer.send(message);
  CHECK(last_code(peer) == v1::REJECT_LIMIT);
  message.mutable_subscribe()->set_id(1);
  message.mutable_subscribe()->set_channel("a");
  for (int i = 0; i < 300; ++i)
    message.mutable_subscribe()->add_from()->set_channel(std::string(250, 'c'));
  const std::string bytes = message.SerializeAsString();
  REQUIRE(bytes.size() > 65'536);
  peer.send_bytes(bytes);
  CHECK(last_code(peer) == v1::REJECT_LIMIT);
  for (const bool known : {false, true}) {
    peer.send_pieces(bytes, {10, 30'000}, known);
    CHECK(last_code(peer) == v1::REJECT_LIMIT);
  }
  CHECK_FALSE(peer.closed);
  CHECK_FALSE(peer.next_state());
  peer.subscribe(1, "a");
  CHECK(peer.next_state());
}

TEST_CASE("a frame's header before data has 64 KiB at most", "[session][limits]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const auto code = [&](std::uint64_t sequence, std::size_t filler) {
    auto message = opaque_frame(1, sequence, pattern_bytes(1, 1000));
    std::string bytes = message.frame().SerializeAsString();
    // An unknown field in front makes the header longer; it is skipped, and counts.
    std::string unknown("\xa2\x06", 2);  // field 100's neighbour 96, length-delimited
    unknown[0] = '\x82';
    for (std::size_t n = filler;; n >>= 7U) {
      unknown.push_back(static_cast<char>(n < 128 ? n : (n & 127U) | 128U));
      if (n < 128) break;
    }
    bytes = unknown + std::string(filler, 'u') + bytes;
    std::string envelope("\x7a", 1);
    for (std::size_t n = bytes.size();; n >>= 7U) {
      envelope.push_back(static_cast<char>(n < 128 ? n : (n & 127U) | 128U));
      if (n < 128) break;
    }
    sensor.send_bytes(envelope + bytes);
    const int whole = last_code(sensor);
    sensor.send_pieces(envelope + bytes, {10, filler / 2}, true);
    CHECK(last_code(sensor) == (whole == v1::REJECT_LIMIT ? whole : 0));
    return whole;
  };
  CHECK(code(1, 60'000) == 0);
  CHECK(code(2, 66'000) == v1::REJECT_LIMIT);
  CHECK(bridge.channel("a").published == 1);
  bridge.check_books();
}

TEST_CASE("a cloud has 2^22 points at most", "[session][limits]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  auto message = cloud_frame(1, 1, 1);
  auto* cloud = message.mutable_frame()->mutable_cloud();
  cloud->clear_fields();
  auto* field = cloud->add_fields();
  field->set_name("xyz");
  field->set_type(v1::TYPE_INT8);
  field->set_count(3);
  cloud->set_point_step(0);
  cloud->set_row_step(0);
  cloud->set_layout(v1::LAYOUT_SOA);
  cloud->set_width((1 << 22) + 1);
  sensor.send(message);
  CHECK(last_code(sensor) == v1::REJECT_TOO_LARGE);
}
