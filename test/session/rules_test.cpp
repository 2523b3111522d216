// Sentences of protocol.md §2 to §4 that no other file of this folder asks about.
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

const std::string kGarbage("\x0a\x7f\x01", 3);
const std::string kOfALaterVersion("\xfa\x01\x01x", 4);  // field 31
constexpr std::uint32_t kCrcOf123456789 = 0xE3069283U;

/// CRC-32C's own check value.
const std::string kChecked = "123456789";

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80U; value >>= 7U) out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
  return out;
}

/// A Ping of exactly that many bytes: most of it is a field that nobody knows.
std::string ping_of(std::size_t bytes) {
  v1::Ping ping;
  ping.set_cookie(4);
  std::string body = ping.SerializeAsString() + varint((50U << 3U) | 2U);
  const std::size_t filler = bytes - 1 - 3 - body.size() - 3;
  body += varint(filler) + std::string(filler, 'f');
  return '\x3a' + varint(body.size()) + body;
}

/// Two unfinished frames of other sessions that fill the ingest share.
struct FullDoor {
  explicit FullDoor(TestBridge& bridge) {
    const auto largest = bridge.store->max_frame_bytes().count;
    const auto whole = opaque_frame(1, 1, std::string(largest, 'h')).SerializeAsString();
    for (const char* name : {"holder/1", "holder/2"}) {
      holders.push_back(std::make_unique<FakePeer>(bridge));
      holders.back()->advertise(1, name);
      holders.back()->begin(whole.size());
      holders.back()->chunk(std::string_view(whole).substr(0, 1000));
    }
  }
  std::vector<std::unique_ptr<FakePeer>> holders;
};

/// The monotonic time of another clock, and a wall clock that somebody sets.
class SetClock final : public Clock {
 public:
  explicit SetClock(const Clock& steady) : steady_(steady) {}
  [[nodiscard]] Monotonic now() const override { return steady_.now(); }
  [[nodiscard]] std::int64_t wall_ns() const override { return steady_.wall_ns() + set; }
  std::int64_t set = 0;

 private:
  const Clock& steady_;
};

}  // namespace

// ---- §2

TEST_CASE("the limits and times that nobody configured are those of the protocol",
          "[session][rules]") {
  const session::HubOptions options;
  CHECK(options.hello_timeout == milliseconds(10'000));
  CHECK(options.ping_interval_ms == 10'000);
  CHECK(options.max_channels == 4096);
  CHECK(options.max_channels_per_session == 256);
  CHECK(options.max_subscriptions_per_session == 64);
  CHECK(options.max_schema_bytes == 1ULL << 20);
  CHECK(options.max_schema_bytes_total == 16ULL << 20);
  CHECK(options.max_points == 1ULL << 22);
  CHECK(options.queue_frames == 2);
  CHECK(options.queue_bytes == 32ULL << 20);
  CHECK(options.memory_wait == milliseconds(250));
  CHECK(options.reliable_timeout == milliseconds(30'000));
  CHECK(options.stall_timeout == milliseconds(10'000));
  CHECK(options.channel_remove_after == std::chrono::minutes(10));
  CHECK(options.latched_remove_after == std::chrono::hours(24));
  CHECK(frame::StoreOptions{}.ingest_share == 0.25);
}

TEST_CASE("a Pong carries the Ping's cookie and its time of sending", "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  v1::ClientMessage message;
  message.mutable_ping()->set_cookie(77);
  message.mutable_ping()->set_sent_ns(-123'456'789);
  peer.send(message);
  const auto pong = peer.next([](const auto& one) { return one.has_pong(); });
  REQUIRE(pong);
  CHECK(pong->pong().cookie() == 77);
  CHECK(pong->pong().sent_ns() == -123'456'789);
  CHECK(pong->pong().now_ns() == bridge.clock.wall_ns());
}

TEST_CASE("of the Pings of a peer that does not read, sixty-four are answered",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  const auto pongs = [&] {
    std::size_t count = 0;
    while (peer.next([](const auto& one) { return one.has_pong(); })) ++count;
    return count;
  };
  peer.reading = false;
  for (std::uint64_t i = 1; i <= 100; ++i) peer.ping(i);
  peer.reading = true;
  CHECK(pongs() == 64);
  peer.ping(101);
  CHECK(pongs() == 1);
  CHECK(peer.rejects().empty());
}

TEST_CASE("a message of a later version parses, and ends a row of those that do not",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  for (int i = 0; i < 15; ++i) peer.send_bytes(kGarbage);
  peer.send_bytes(kOfALaterVersion);
  for (int i = 0; i < 15; ++i) peer.send_bytes(kGarbage);
  CHECK_FALSE(peer.closed);
  peer.send_bytes(kGarbage);
  REQUIRE(peer.closed);
  CHECK(peer.closed->kind == session::CloseKind::kMalformed);
}

TEST_CASE("no message names a channel or an epoch that was not announced before it",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer both(bridge, true, {}, 4096);  // small: some frames come in parts
  std::map<std::uint32_t, std::set<std::uint64_t>> announced;
  std::vector<std::string> complaints;
  std::map<std::string, int> seen;
  const auto must_know = [&](const char* what, std::uint32_t channel) {
    ++seen[what];
    if (!announced.contains(channel))
      complaints.push_back(std::string(what) + " names " + std::to_string(channel));
  };
  both.observe = [&](const v1::ServerMessage& message) {
    for (const auto& info : message.channels().channel()) announced[info.id()].insert(info.epoch());
    if (message.has_advertised()) must_know("Advertised", message.advertised().id());
    if (message.has_gap()) must_know("Gap", message.gap().channel());
    if (message.has_part()) must_know("FramePart", message.part().channel());
    for (const auto channel : message.subscription_state().channel())
      must_know("SubscriptionState", channel);
    if (!message.has_frame()) return;
    must_know("Frame", message.frame().channel());
    if (!announced[message.frame().channel()].contains(message.frame().epoch()))
      complaints.push_back("Frame of epoch " + std::to_string(message.frame().epoch()));
  };
  both.subscribe(1, "**", [](auto& s) { s.set_queue_frames(1); });
  for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
    // Nobody's strand runs in between: the order has to come from the session.
    both.reading = false;
    for (std::uint32_t c = 1; c <= 30; ++c) {
      sensor.advertise(c, "theirs/" + std::to_string(c), epoch);
      both.advertise(c, "mine/" + std::to_string(c), epoch);
      for (std::uint64_t i = 1; i <= 4; ++i) {
        sensor.send(c % 10 == 0 ? cloud_frame(c, i, 1000) : opaque_frame(c, i, "x"));
        both.frame(c, i);
      }
    }
    both.subscribe(static_cast<std::uint32_t>(epoch) + 1, "theirs/*", [](auto& s) {
      s.set_history(v1::HISTORY_ALL_KEPT);
    });
    both.reading = true;
    both.pump();
  }
  for (const auto& one : complaints) UNSCOPED_INFO(one);
  CHECK(complaints.empty());
  for (const char* what : {"Advertised", "Gap", "FramePart", "SubscriptionState", "Frame"}) {
    INFO(what);
    CHECK(seen[what] > 0);
  }
  bridge.check_books();
}

TEST_CASE("a control message of 65536 bytes is taken, one of 65537 is LIMIT", "[session][rules]") {
  for (const bool produces : {false, true}) {
    TestBridge bridge;
    FakePeer peer(bridge);
    if (produces) peer.advertise(1, "a");
    for (const std::size_t bytes : {65'536U, 65'537U}) {
      const std::string message = ping_of(bytes);
      REQUIRE(message.size() == bytes);
      for (const int way : {0, 1, 2}) {
        INFO(bytes << " bytes, way " << way << ", produces " << produces);
        if (way == 0) {
          peer.send_bytes(message);
        } else {
          peer.send_pieces(message, {3, 40'000}, way == 1);
        }
        const auto pong = peer.next([](const auto& one) { return one.has_pong(); });
        const auto rejects = peer.rejects();
        CHECK(pong.has_value() == (bytes == 65'536));
        REQUIRE(rejects.size() == (bytes == 65'536 ? 0 : 1));
        if (!rejects.empty()) CHECK(rejects[0].code() == v1::REJECT_LIMIT);
      }
    }
    CHECK_FALSE(peer.closed);
    CHECK(bridge.store->stats().ingest_held.count == 0);
  }
}

TEST_CASE("each short string of Advertise may have 256 bytes, not 257", "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  const std::vector<std::function<void(v1::Advertise&, const std::string&)>> strings{
      [](auto& a, const auto& text) { a.set_name(text); },
      [](auto& a, const auto& text) { a.set_frame_id(text); },
      [](auto& a, const auto& text) { a.set_schema(text); },
      [](auto& a, const auto& text) { a.set_encoding(text); },
      [](auto& a, const auto& text) { a.set_schema_encoding(text); },
  };
  for (std::size_t i = 0; i < strings.size(); ++i) {
    INFO("string " << i);
    v1::ClientMessage message;
    auto& advertise = *message.mutable_advertise();
    advertise.set_channel(1);
    advertise.set_name("a");
    strings[i](advertise, std::string(257, 's'));
    peer.send(message);
    const auto reject = peer.next_reject();
    REQUIRE(reject);
    CHECK(reject->code() == v1::REJECT_LIMIT);
    CHECK(reject->channel() == 1);
    CHECK_FALSE(peer.next_advertised());
    strings[i](advertise, std::string(256, 's'));
    peer.send(message);
    CHECK(peer.next_advertised());
  }
}

TEST_CASE("ten changes a second are counted for each subscription alone", "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  for (const std::uint32_t id : {1U, 2U}) peer.subscribe(id, "a");
  while (peer.next_state()) {
  }
  for (int i = 1; i <= 10; ++i) {
    for (const std::uint32_t id : {1U, 2U}) {
      peer.subscribe(
          id, "a", [i](auto& s) { s.mutable_quality()->set_max_hz(static_cast<float>(i)); });
      const auto state = peer.next_state();
      REQUIRE(state);
      CHECK(state->id() == id);
      CHECK(state->applied().max_hz() == static_cast<float>(i));
    }
  }
}

TEST_CASE("Unsubscribe of an id that is not there is LIMIT about that id", "[session][rules]") {
  TestBridge bridge;
  FakePeer peer(bridge);
  peer.unsubscribe(12);
  const auto reject = peer.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_LIMIT);
  CHECK(reject->subscription() == 12);
  CHECK_FALSE(peer.next_state());
}

// ---- §3

TEST_CASE("a latched channel whose frames went under pressure is removed like another",
          "[session][rules]") {
  TestBridge bridge;
  {
    FakePeer sensor(bridge);
    sensor.advertise(1, "given up", 7, v1::POLICY_DROP_OLDEST, true);
    sensor.advertise(2, "empty", 7, v1::POLICY_DROP_OLDEST, true);
    sensor.frame(1, 1, 500'000);
    bridge.store->set_budget(Bytes{100'000});
    bridge.store->set_budget(Bytes{64ULL << 20});
    CHECK(bridge.channel("given up").kept_frames == 0);
    sensor.advertise(3, "kept", 7, v1::POLICY_DROP_OLDEST, true);
    sensor.frame(3, 1);
  }
  bridge.clock.advance(std::chrono::minutes(10) - milliseconds(1));
  bridge.hub->sweep();
  CHECK(bridge.hub->channels().size() == 3);
  bridge.clock.advance(milliseconds(1));
  bridge.hub->sweep();
  CHECK(bridge.channel("given up").name.empty());
  CHECK(bridge.channel("kept").name == "kept");
  CHECK(bridge.channel("empty").name == "empty");  // it has lost nothing
  bridge.clock.advance(std::chrono::hours(24));
  bridge.hub->sweep();
  CHECK(bridge.hub->channels().empty());
}

TEST_CASE("a frame of one of sixteen earlier epochs is EPOCH, of one before them SEQUENCE",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  for (std::uint64_t epoch = 100; epoch <= 117; ++epoch) sensor.advertise(1, "a", epoch);
  for (std::uint64_t epoch = 100; epoch <= 118; ++epoch) {
    if (epoch == 117) continue;
    INFO("epoch " << epoch);
    sensor.frame(1, 1, 10, epoch);
    const auto reject = sensor.next_reject();
    REQUIRE(reject);
    CHECK(reject->code() == (epoch > 100 && epoch < 117 ? v1::REJECT_EPOCH : v1::REJECT_SEQUENCE));
    CHECK(reject->sequence() == 1);
  }
  sensor.frame(1, 1, 10, 117);
  CHECK(sensor.rejects().empty());
  bridge.check_books();
}

TEST_CASE("the first number of a new epoch is no gap, not even to who followed the old one",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  sensor.advertise(1, "a", 7);
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  sensor.advertise(1, "a", 8);
  sensor.frame(1, 50);
  sensor.frame(1, 51);
  CHECK(consumer.frames().size() == 5);
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_EPOCH);
  CHECK(gaps[0].epoch() == 7);
  CHECK(gaps[0].frames() == 0);
  bridge.check_books();
}

TEST_CASE("every final refusal uses its number up, is acknowledged and becomes a Gap REJECTED",
          "[session][rules]") {
  const std::vector<std::pair<v1::RejectCode, std::function<void(v1::Frame&)>>> faults{
      {v1::REJECT_LIMIT,
       [](auto& f) {
         f.set_hops(8);
       }},
      {v1::REJECT_LIMIT,
       [](auto& f) {
         f.set_frame_id(std::string(257, 'f'));
       }},
      {v1::REJECT_UNSUPPORTED,
       [](auto& f) {
         f.clear_payload();
       }},
      {v1::REJECT_TOO_LARGE,
       [](auto& f) {
         f.mutable_cloud()->set_width((1 << 22) + 1);
       }},
      {v1::REJECT_CODEC,
       [](auto& f) {
         f.mutable_cloud()->set_codec(static_cast<v1::Codec>(9));
       }},
      {v1::REJECT_LAYOUT,
       [](auto& f) {
         f.mutable_cloud()->set_point_step(0);
       }},
      {v1::REJECT_FIELD,
       [](auto& f) {
         f.mutable_cloud()->mutable_fields(0)->set_offset(99);
       }},
      {v1::REJECT_DATA_TOO_SHORT,
       [](auto& f) {
         f.mutable_cloud()->set_data("short");
       }},
      {v1::REJECT_CHECKSUM,
       [](auto& f) {
         f.set_crc32c(1);
       }},
  };
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  std::uint64_t sequence = 1;
  sensor.frame(1, sequence);
  CHECK(consumer.next_frame());
  for (const auto& [code, change] : faults) {
    INFO(v1::RejectCode_Name(code));
    auto message = cloud_frame(1, ++sequence, 10);
    change(*message.mutable_frame());
    sensor.send(message);
    const auto reject = sensor.next_reject();
    REQUIRE(reject);
    CHECK(v1::RejectCode_Name(reject->code()) == v1::RejectCode_Name(code));
    CHECK_FALSE(reject->retry());
    sensor.tick(milliseconds(100));
    const auto acks = sensor.acks();
    REQUIRE_FALSE(acks.empty());
    CHECK(acks.back().sequence() == sequence);
    sensor.frame(1, ++sequence);
    const auto gaps = consumer.gaps();
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0].reason() == v1::GAP_REJECTED);
    CHECK(gaps[0].first() == sequence - 1);
    CHECK(gaps[0].last() == sequence - 1);
    CHECK(gaps[0].frames() == 0);
    CHECK(consumer.frames().size() == 1);
  }
  bridge.check_books();
}

TEST_CASE("the window is judged after sequence, epoch and duplicate, and before the payload",
          "[session][rules]") {
  session::HubOptions options;
  options.window_bytes = 1'000'000;
  TestBridge bridge(options);
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a", 6, v1::POLICY_BACKPRESSURE);
  sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  sensor.advertise(2, "b", 7, v1::POLICY_BACKPRESSURE);
  consumer.subscribe(1, "a", [](auto& s) { s.set_reliable(true); });
  consumer.reading = false;
  sensor.frame(1, 1, 2'000'000);  // closes the window
  CHECK(sensor.rejects().empty());
  const auto answer = [&](std::uint64_t sequence, const std::function<void(v1::Frame&)>& change) {
    auto message = cloud_frame(1, sequence, 10);
    change(*message.mutable_frame());
    CHECK(sensor.send(message) == session::Flow::kContinue);  // the socket is always read
    const auto rejects = sensor.rejects();
    if (rejects.empty()) return std::string("none");
    return v1::RejectCode_Name(rejects[0].code()) + (rejects[0].retry() ? ", retry" : "");
  };
  CHECK(answer(0, [](auto&) {}) == "REJECT_SEQUENCE");
  CHECK(answer(2, [](auto& f) { f.set_epoch(99); }) == "REJECT_SEQUENCE");
  CHECK(answer(2, [](auto& f) { f.set_epoch(6); }) == "REJECT_EPOCH");
  CHECK(answer(1, [](auto& f) { f.clear_payload(); }) == "none");  // a duplicate
  CHECK(answer(2, [](auto& f) { f.clear_payload(); }) == "REJECT_WINDOW, retry");
  CHECK(answer(2, [](auto& f) { f.mutable_cloud()->set_width(1 << 23); }) ==
        "REJECT_WINDOW, retry");
  CHECK(answer(3, [](auto& f) { f.mutable_cloud()->set_point_step(0); }) == "REJECT_WINDOW, retry");
  sensor.frame(2, 1);  // another channel goes on
  CHECK(sensor.rejects().empty());
  consumer.reading = true;
  consumer.pump();
  sensor.pump();
  CHECK(answer(3, [](auto&) {}) == "REJECT_WINDOW, retry");  // 2 has to come first
  CHECK(answer(2, [](auto& f) { f.clear_payload(); }) == "REJECT_UNSUPPORTED");
  CHECK(answer(3, [](auto&) {}) == "none");
  CHECK(bridge.channel("a").published == 2);
  CHECK(consumer.frames().size() == 2);
  bridge.check_books();
}

TEST_CASE("half of a DROP_OLDEST channel's window makes an Ack too", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const auto advertised = sensor.next_advertised();
  REQUIRE(advertised);
  CHECK(advertised->window_bytes() == 16ULL << 20);
  sensor.frame(1, 1, 5'000'000);
  CHECK(sensor.acks().empty());
  sensor.frame(1, 2, 5'000'000);
  const auto acks = sensor.acks();
  REQUIRE(acks.size() == 1);
  CHECK(acks[0].sequence() == 2);
}

TEST_CASE("a rise of the window from 0 is told at once, whatever opened it", "[session][rules]") {
  TestBridge bridge;
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) { s.set_reliable(true); });
  auto sensor = std::make_unique<FakePeer>(bridge);
  sensor->advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  CHECK(sensor->next_advertised()->window_bytes() > 0);
  consumer.pump();
  consumer.reading = false;
  const auto shut = [&] {
    std::optional<std::uint64_t> told;
    for (const auto& ack : sensor->acks()) told = ack.window_bytes();
    CHECK(told == 0U);
  };
  const auto must_open = [&] {
    sensor->tick(milliseconds(100));
    const auto acks = sensor->acks();
    REQUIRE(acks.size() == 1);
    CHECK(acks[0].sequence() == 2);
    CHECK(acks[0].window_bytes() > 0);
    sensor->tick(milliseconds(10'000));
    CHECK(sensor->acks().empty());
  };
  sensor->frame(1, 1, 200'000);
  SECTION("a larger budget") {
    bridge.store->set_budget(Bytes{2ULL << 20});
    sensor->tick(milliseconds(100));
    sensor->acks();
    sensor->frame(1, 2, 60'000);
    sensor->tick(milliseconds(100));
    sensor->acks();
    bridge.store->set_budget(Bytes{1ULL << 20});
    sensor->advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
    const auto advertised = sensor->next_advertised();
    REQUIRE(advertised);
    CHECK(advertised->window_bytes() == 0);
    bridge.store->set_budget(Bytes{64ULL << 20});
    must_open();
  }
  SECTION("a deeper ring") {
    bridge.store->set_depth(2);
    sensor->frame(1, 2, 10);
    sensor->tick(milliseconds(100));
    shut();
    bridge.store->set_depth(100);
    must_open();
  }
  SECTION("a reader that catches up with who has just come back") {
    bridge.store->set_depth(2);
    sensor->frame(1, 2, 10);
    sensor = std::make_unique<FakePeer>(bridge);
    sensor->advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
    const auto advertised = sensor->next_advertised();
    REQUIRE(advertised);
    CHECK(advertised->window_bytes() == 0);
    CHECK(sensor->acks().empty());
    consumer.reading = true;
    consumer.pump();
    sensor->pump();
    must_open();
  }
  consumer.reading = true;
  consumer.pump();
  bridge.check_books();
}

TEST_CASE("NO_MEMORY is judged after the head's faults and before the checksum, and explained",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  sensor.frame(1, 1);
  CHECK(consumer.next_frame());
  {
    const FullDoor door(bridge);
    auto message = cloud_frame(1, 2, 10);
    message.mutable_frame()->mutable_cloud()->set_data("short");
    sensor.send(message);
    auto reject = sensor.next_reject();  // at once: it needs no room
    REQUIRE(reject);
    CHECK(reject->code() == v1::REJECT_DATA_TOO_SHORT);
    message = cloud_frame(1, 3, 10);
    message.mutable_frame()->set_crc32c(1);
    CHECK(sensor.send(message) == session::Flow::kPause);
    sensor.tick(milliseconds(249));
    CHECK(sensor.rejects().empty());
    sensor.tick(milliseconds(1));
    reject = sensor.next_reject();
    REQUIRE(reject);
    CHECK(reject->code() == v1::REJECT_NO_MEMORY);
    CHECK(reject->sequence() == 3);
    CHECK_FALSE(reject->retry());
  }
  sensor.frame(1, 4);
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_REJECTED);
  CHECK(gaps[0].first() == 2);
  CHECK(gaps[0].last() == 3);
  CHECK(consumer.frames().size() == 1);
  bridge.check_books();
}

TEST_CASE("one session holds at most half of the ingest share, another one still gets room",
          "[session][rules]") {
  TestBridge bridge;
  const std::uint64_t half = bridge.store->ingest_share().count / 2;
  CHECK(bridge.store->max_frame_bytes().count <= half);
  FakePeer greedy(bridge);
  FakePeer other(bridge);
  greedy.advertise(1, "greedy");
  other.advertise(1, "other");
  const std::string most(half * 3 / 4, 'm');
  greedy.send(parts_of(opaque_frame(1, 1, most).frame(), 1, most.size() / 2)[0]);
  CHECK(bridge.store->stats().ingest_held.count >= most.size());
  const auto second = opaque_frame(1, 2, most).SerializeAsString();
  greedy.begin(second.size());
  const auto taken = greedy.chunk(second);
  CHECK(taken.flow == session::Flow::kPause);
  CHECK(taken.bytes < 100);
  const auto theirs = opaque_frame(1, 1, most).SerializeAsString();
  other.send_pieces(theirs, {1000}, true);
  CHECK(other.rejects().empty());
  CHECK(bridge.channel("other").published == 1);
  greedy.tick(milliseconds(250));
  CHECK(greedy.chunk(std::string_view(second).substr(taken.bytes)).flow ==
        session::Flow::kContinue);
  greedy.session().end_message();
  const auto reject = greedy.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_NO_MEMORY);
  CHECK(reject->sequence() == 2);
}

TEST_CASE("in the canonical order a frame is judged before its data is read, and takes no memory",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const std::vector<std::pair<v1::RejectCode, std::function<void(v1::Frame&)>>> faults{
      {v1::REJECT_LIMIT,
       [](auto& f) {
         f.set_hops(8);
       }},
      {v1::REJECT_UNKNOWN_CHANNEL,
       [](auto& f) {
         f.set_channel(9);
       }},
      {v1::REJECT_SEQUENCE,
       [](auto& f) {
         f.set_sequence(0);
       }},
      {v1::REJECT_TOO_LARGE,
       [](auto& f) {
         f.mutable_cloud()->set_width((1 << 22) + 1);
       }},
      {v1::REJECT_CODEC,
       [](auto& f) {
         f.mutable_cloud()->set_codec(static_cast<v1::Codec>(9));
       }},
      {v1::REJECT_LAYOUT,
       [](auto& f) {
         f.mutable_cloud()->set_point_step(0);
       }},
      {v1::REJECT_FIELD,
       [](auto& f) {
         f.mutable_cloud()->mutable_fields(0)->set_offset(99);
       }},
      {v1::REJECT_DATA_TOO_SHORT,
       [](auto& f) {
         f.mutable_cloud()->set_width(100'001);
       }},
  };
  std::uint64_t sequence = 0;
  for (const auto& [code, change] : faults) {
    INFO(v1::RejectCode_Name(code));
    auto message = cloud_frame(1, ++sequence, 100'000);
    change(*message.mutable_frame());
    const auto bytes = message.SerializeAsString();
    sensor.begin(bytes.size());
    CHECK(sensor.chunk(std::string_view(bytes).substr(0, 1000)).flow == session::Flow::kContinue);
    CHECK(sensor.session().direct_buffer().empty());
    CHECK(bridge.store->stats().ingest_held.count == 0);
    sensor.chunk(std::string_view(bytes).substr(1000));
    CHECK(bridge.store->stats().ingest_held.count == 0);
    sensor.session().end_message();
    const auto reject = sensor.next_reject();
    REQUIRE(reject);
    CHECK(v1::RejectCode_Name(reject->code()) == v1::RejectCode_Name(code));
  }
  bridge.check_books();
}

TEST_CASE("a checksum is judged over the data as transmitted, whatever the payload is",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  const std::vector<std::function<void(v1::Frame&)>> payloads{
      [](auto& f) { f.mutable_opaque()->set_data(kChecked); },
      [](auto& f) {
        f.mutable_cloud()->set_codec(v1::CODEC_ZSTD);
        f.mutable_cloud()->set_raw_size(160);
        f.mutable_cloud()->set_data(kChecked);
      },
      [](auto& f) {
        auto* depth = f.mutable_depth();
        depth->set_width(4);
        depth->set_height(1);
        depth->set_encoding("16UC1");
        depth->set_fx(1);
        depth->set_fy(1);
        depth->set_data(kChecked);
      },
  };
  std::uint64_t sequence = 0;
  const auto send = [&](const std::function<void(v1::Frame&)>& payload, std::uint32_t crc) {
    auto message = cloud_frame(1, ++sequence, 10);
    payload(*message.mutable_frame());
    message.mutable_frame()->set_crc32c(crc);
    sensor.send(message);
    const auto rejects = sensor.rejects();
    return rejects.empty() ? 0 : static_cast<int>(rejects[0].code());
  };
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    INFO("payload " << i);
    CHECK(send(payloads[i], kCrcOf123456789) == 0);
    const auto got = consumer.next_frame();
    REQUIRE(got);
    CHECK(got->has_crc32c());
    CHECK(got->crc32c() == kCrcOf123456789);
    CHECK(send(payloads[i], kCrcOf123456789 + 1) == v1::REJECT_CHECKSUM);
    CHECK(send(payloads[i], 0) == v1::REJECT_CHECKSUM);  // present, though 0
    CHECK_FALSE(consumer.next_frame());
  }
  const auto empty = [](v1::Frame& f) {
    f.mutable_opaque()->clear_data();
  };
  CHECK(send(empty, 0) == 0);  // what no bytes have
  CHECK(send(empty, 1) == v1::REJECT_CHECKSUM);
  CHECK(consumer.frames().size() == 1);
  bridge.check_books();
}

TEST_CASE("each oddity of fields is told once a channel, also in its next epoch",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  std::map<std::string, int> told;
  for (const std::uint64_t epoch : {7U, 8U}) {
    for (const std::uint32_t channel : {1U, 2U}) {
      sensor.advertise(channel, "c" + std::to_string(channel), epoch);
      for (std::uint64_t i = 1; i <= 3; ++i) {
        auto message = cloud_frame(channel, i, 10);
        auto* cloud = message.mutable_frame()->mutable_cloud();
        cloud->add_fields()->set_name("intensity");
        cloud->mutable_fields(4)->set_type(v1::TYPE_UINT8);
        cloud->add_fields()->set_name("new");
        cloud->mutable_fields(5)->set_type(static_cast<v1::Type>(99));
        sensor.send(message);
      }
    }
  }
  CHECK(sensor.rejects().empty());
  while (const auto status = sensor.next_status()) {
    ++told[status->code()];
    CHECK(status->level() == v1::LEVEL_WARNING);
  }
  CHECK(told == std::map<std::string, int>{{"field_twice", 2}, {"field_type", 2}});
}

TEST_CASE("a large frame of no advertised channel is UNKNOWN_CHANNEL in any encoding",
          "[session][rules]") {
  const auto canonical = opaque_frame(9, 1, std::string(100'000, 'x'));
  v1::Frame payload;
  *payload.mutable_opaque() = canonical.frame().opaque();
  v1::Frame head = canonical.frame();
  head.clear_payload();
  const std::string body = payload.SerializeAsString() + head.SerializeAsString();
  const std::string payload_first = '\x7a' + varint(body.size()) + body;
  for (const bool producer : {false, true}) {
    TestBridge bridge;
    FakePeer peer(bridge);
    if (producer) peer.advertise(1, "a");
    for (const std::string& bytes : {canonical.SerializeAsString(), payload_first}) {
      for (const int way : {0, 1, 2}) {
        INFO("producer " << producer << ", way " << way);
        if (way == 0) {
          peer.send_bytes(bytes);
        } else {
          peer.send_pieces(bytes, {50'000}, way == 1);
        }
        const auto rejects = peer.rejects();
        REQUIRE(rejects.size() == 1);
        CHECK(v1::RejectCode_Name(rejects[0].code()) == "REJECT_UNKNOWN_CHANNEL");
      }
    }
  }
}

TEST_CASE("a cloud without points is forwarded with 0 points", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  for (const auto& [width, height] : {std::pair{0U, 1U}, {5U, 0U}, {0U, 0U}}) {
    auto message = cloud_frame(1, ++sensor.frames_sent, 0);
    message.mutable_frame()->mutable_cloud()->set_width(width);
    message.mutable_frame()->mutable_cloud()->set_height(height);
    sensor.send(message);
    CHECK(sensor.rejects().empty());
    const auto got = consumer.next_frame();
    REQUIRE(got);
    CHECK(got->cloud().SerializeAsString() == message.frame().cloud().SerializeAsString());
    CHECK(got->has_result());
    CHECK(got->result().points_in() == 0);
    CHECK(got->result().points_out() == 0);
  }
  bridge.check_books();
}

TEST_CASE("the end of a session drops its transfer: its memory is free, its number unused",
          "[session][rules]") {
  TestBridge bridge;
  const auto sent = opaque_frame(1, 1, std::string(1'000'000, 't'));
  const auto parts = parts_of(sent.frame(), 1, 500'000);
  {
    FakePeer sensor(bridge);
    sensor.advertise(1, "a");
    sensor.send(parts[0]);
    sensor.send(parts[1]);
    CHECK(bridge.store->stats().ingest_held.count >= 1'000'000);
  }
  CHECK(bridge.store->stats().ingest_held.count == 0);
  CHECK(bridge.channel("a").received == 0);
  FakePeer again(bridge);
  again.advertise(1, "a");
  CHECK(again.next_advertised()->last_sequence() == 0);
  for (const auto& part : parts) again.send(part);  // a new session counts from 1 again
  CHECK(again.rejects().empty());
  CHECK(bridge.channel("a").published == 1);
  bridge.check_books();
}

TEST_CASE("a transfer above max_frame_bytes is TOO_LARGE and takes no memory", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const std::size_t bytes = bridge.store->max_frame_bytes().count + 1;
  const auto parts = parts_of(opaque_frame(1, 1, std::string(bytes, 't')).frame(), 1, bytes / 2);
  for (const auto& part : parts) {
    CHECK(sensor.rejects().empty());
    sensor.send(part);
    CHECK(bridge.store->stats().ingest_held.count == 0);
  }
  const auto rejects = sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_TOO_LARGE);
  CHECK(rejects[0].sequence() == 1);
  bridge.check_books();
}

TEST_CASE("one transfer at a time goes out, also where many channels have large frames",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge, true, {}, 4096);
  consumer.subscribe(1, "*", [](auto& s) { s.set_queue_frames(100); });
  std::uint64_t transfer = 0;
  std::uint32_t next = 0;
  std::uint32_t count = 0;
  std::vector<std::string> complaints;
  consumer.observe = [&](const v1::ServerMessage& message) {
    if (!message.has_part()) return;
    const auto& part = message.part();
    if (next == count) {
      ++transfer;
      next = 0;
      count = part.count();
    }
    if (part.transfer() != transfer || part.index() != next++)
      complaints.push_back("transfer " + std::to_string(part.transfer()) + " index " +
                           std::to_string(part.index()));
  };
  consumer.reading = false;
  for (std::uint32_t c = 1; c <= 5; ++c) sensor.advertise(c, "c" + std::to_string(c));
  for (std::uint64_t i = 1; i <= 3; ++i) {
    for (std::uint32_t c = 1; c <= 5; ++c) sensor.send(cloud_frame(c, i, 1000));
  }
  consumer.reading = true;
  consumer.pump();
  for (const auto& one : complaints) UNSCOPED_INFO(one);
  CHECK(complaints.empty());
  CHECK(transfer == 15);
  CHECK(next == count);
  bridge.check_books();
}

// ---- §4

TEST_CASE("Unsubscribe in the middle of a transfer: the frame is finished, then the last word",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge, true, {}, 4096);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a");
  consumer.received.clear();
  consumer.reading = false;
  sensor.send(cloud_frame(1, 1, 1000));
  consumer.pump();
  REQUIRE(consumer.take_batch());
  SECTION("with a part on its way") {
    consumer.unsubscribe(1);
    consumer.finish_batch();
  }
  SECTION("between two parts") {
    consumer.finish_batch();
    consumer.unsubscribe(1);
  }
  consumer.reading = true;
  consumer.pump();
  std::string whole;
  std::uint64_t total = 0;
  for (const auto& message : consumer.received) {
    whole += message.part().data();
    total = std::max(total, message.part().total_bytes());
  }
  CHECK(whole.size() == total);
  CHECK(total > 16'000);
  REQUIRE(consumer.received.back().has_subscription_state());
  const auto& state = consumer.received.back().subscription_state();
  CHECK(state.ended());
  CHECK(state.counters().promised() == 1);
  CHECK(state.counters().delivered() == 1);
  bridge.check_books();
}

TEST_CASE("the same id sent again changes limits and age at the next frame", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 10; ++i) sensor.frame(1, i);
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(4); });
  consumer.reading = true;
  CHECK(consumer.frames().size() == 5);  // four behind the newest
  auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_QUEUE);
  CHECK(gaps[0].first() == 1);
  CHECK(gaps[0].last() == 5);
  consumer.reading = false;
  for (std::uint64_t i = 11; i <= 13; ++i) sensor.frame(1, i);
  consumer.tick(milliseconds(50));
  sensor.frame(1, 14);
  consumer.subscribe(1, "a", [](auto& s) {
    s.set_queue_frames(4);
    s.set_max_age_ms(49);
  });
  consumer.reading = true;
  CHECK(consumer.frames().size() == 1);
  gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_AGE);
  CHECK(gaps[0].first() == 11);
  CHECK(gaps[0].last() == 13);
  bridge.check_books();
}

TEST_CASE("by default 32 MiB may wait behind the newest frame", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
  consumer.reading = false;
  for (std::uint64_t i = 1; i <= 45; ++i) sensor.frame(1, i, 1'000'000);
  consumer.reading = true;
  CHECK(consumer.frames().size() == 34);  // 33 of 1 MB, and the newest
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_QUEUE);
  CHECK(gaps[0].frames() == 11);
  bridge.check_books();
}

TEST_CASE("a History that this version does not know is read as NONE", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  for (std::uint64_t i = 1; i <= 3; ++i) sensor.frame(1, i);
  consumer.subscribe(1, "a", [](auto& s) { s.set_history(static_cast<v1::History>(77)); });
  CHECK(consumer.rejects().empty());
  CHECK(consumer.frames().empty());
  sensor.frame(1, 4);
  CHECK(consumer.frames().size() == 1);
  CHECK(consumer.gaps().empty());
}

TEST_CASE("skipped is decided at a frame's turn: evicted before it is lost", "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) {
    s.set_queue_frames(100);
    s.mutable_quality()->set_max_hz(1);
  });
  sensor.frame(1, 1);
  CHECK(consumer.frames().size() == 1);
  consumer.reading = false;
  bridge.store->set_depth(3);
  for (std::uint64_t i = 2; i <= 11; ++i) sensor.frame(1, i);
  consumer.reading = true;
  CHECK(consumer.frames().empty());  // 9 to 11 are skipped
  const auto gaps = consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_EVICTED);
  CHECK(gaps[0].first() == 2);
  CHECK(gaps[0].last() == 8);
  const auto books = bridge.subscription(consumer.id(), 1, "a");
  REQUIRE(books);
  CHECK(books->promised == 11);
  CHECK(books->delivered == 1);
  CHECK(books->skipped == 3);
  CHECK(books->lost == 7);
  bridge.check_books();
}

TEST_CASE(
    "max_age runs on a monotonic clock: setting the wall clock makes no frame older or younger",
    "[session][rules]") {
  TestBridge bridge;
  SetClock clock(bridge.clock);
  bridge.hub = std::make_unique<session::Hub>(
      *bridge.store, *bridge.pipeline, clock, session::HubOptions{}, bridge.session_metrics);
  FakePeer sensor(bridge);
  FakePeer consumer(bridge);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) {
    s.set_queue_frames(100);
    s.set_max_age_ms(100);
  });
  constexpr std::int64_t kHour = 3'600'000'000'000;
  for (const std::int64_t set : {kHour, -kHour}) {
    INFO("set by " << set << " ns");
    const std::uint64_t first = sensor.frames_sent + 1;
    consumer.reading = false;
    sensor.frame(1, first);
    bridge.clock.advance(milliseconds(60));
    sensor.frame(1, first + 1);
    clock.set += set;
    bridge.clock.advance(milliseconds(41));
    consumer.reading = true;
    const auto frames = consumer.frames();
    REQUIRE(frames.size() == 1);
    CHECK(frames[0].sequence() == first + 1);
    const auto gaps = consumer.gaps();
    REQUIRE(gaps.size() == 1);
    CHECK(gaps[0].reason() == v1::GAP_AGE);
    CHECK(gaps[0].first() == first);
  }
  bridge.check_books();
}

TEST_CASE("a peer that moves no byte of a frame that a shrink took is closed after 2 s, not 10",
          "[session][rules]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer stalled(bridge);
  stalled.subscribe(1, "a");
  stalled.reading = false;
  sensor.frame(1, 1, 1'000'000);
  stalled.pump();
  REQUIRE(stalled.take_batch());
  stalled.tick(std::chrono::minutes(1));
  CHECK_FALSE(stalled.closed);  // nobody waits
  stalled.session().batch_progress(1);
  bridge.store->set_budget(Bytes{500'000});
  CHECK(bridge.channel("a").kept_frames == 0);
  SECTION("it does not move") {
    stalled.tick(milliseconds(1'999));
    CHECK_FALSE(stalled.closed);
    stalled.tick(milliseconds(1'001));
    REQUIRE(stalled.closed);
    CHECK(stalled.closed->kind == session::CloseKind::kPolicy);
  }
  SECTION("it moves slowly") {
    for (int i = 0; i < 20; ++i) {
      stalled.session().batch_progress(1);
      stalled.tick(milliseconds(1'900));
      CHECK_FALSE(stalled.closed);
    }
    stalled.finish_batch();
    stalled.tick(std::chrono::minutes(10));
    CHECK_FALSE(stalled.closed);
  }
  CHECK_FALSE(sensor.closed);  // who only produces is never closed for it
}
