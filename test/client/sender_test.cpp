#include "client/sender.h"

#include "client/fake_bridge.h"
#include "client/messages.h"

#include <catch2/catch.hpp>

namespace simbridge::client {
namespace {

using namespace std::chrono_literals;
using test::FakeBridge;
using test::FakeSession;

constexpr std::uint64_t kWindow = 1000;

struct Driven {
  explicit Driven(const std::string& url, std::uint64_t acknowledged = 0)
      : sender({.peer = {.url = url, .name = "test", .peer_key = "0123456789abcdef"},
                .say = [this](std::string_view text) {
                  said += std::string(text) + "\n";
                }}) {
    channel = sender.add_channel({.name = "a", .epoch = 9}, acknowledged);
  }
  /// Hands in so many frames of such a size, as the window allows; false after ten seconds.
  bool send(int frames, std::size_t bytes) {
    for (int i = 0; i < frames; ++i) {
      if (!until([&] { return sender.ready(channel, bytes); })) return false;
      sender.send(encode_opaque({.channel = channel, .sequence = sender.next_sequence(channel)},
                                std::string(bytes, 'p')));
    }
    return true;
  }
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (auto stepped = sender.step(deadline); !stepped) {
        failed = true;
        error = stepped.error();
        return false;
      }
    }
    return true;
  }
  bool finish() {
    const bool all = until([&] { return sender.all_acknowledged(); });
    sender.goodbye("done", std::chrono::steady_clock::now() + 2s);
    return all;
  }

  Sender sender;
  std::uint32_t channel = 0;
  std::string said;
  bool failed = false;
  Error error;  // where it failed
};

std::vector<std::uint64_t> sequences(const std::vector<v1::Frame>& frames) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(frames.size());
  for (const auto& frame : frames) numbers.push_back(frame.sequence());
  return numbers;
}

}  // namespace

TEST_CASE("a sender says who it is and its frames arrive as encoded", "[client][sender]") {
  std::vector<v1::Frame> got;
  v1::Hello hello;
  v1::Advertise advertise;
  FakeBridge bridge({[&](FakeSession& session) {
    hello = session.hello();
    advertise = session.advertised(0, kWindow);
    got = session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(3, 100));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(hello.name() == "test");
  CHECK(hello.peer_key() == "0123456789abcdef");
  CHECK(advertise.name() == "a");
  CHECK(advertise.epoch() == 9);
  CHECK(sequences(got) == std::vector<std::uint64_t>{1, 2, 3});
  REQUIRE(got.size() == 3);
  CHECK(got[0].opaque().data() == std::string(100, 'p'));
  CHECK(driven.sender.counters().sent == 3);
  CHECK(driven.sender.counters().acknowledged == 3);
}

TEST_CASE("a sender keeps to the window, and sends one frame larger than it", "[client][sender]") {
  std::string fault;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.advertised(0, kWindow);
    session.frame();
    session.frame();  // 2 × 400 bytes are within the window, a third would not be
    if (session.receive_within(200ms)) fault = "sent beyond the window";
    session.ack(1, kWindow);
    session.frame();
    session.ack(3, kWindow);
    session.frame();  // 5000 bytes, with nothing else under way
    if (session.receive_within(200ms)) fault = "sent beside a frame above the window";
    session.ack(4, kWindow);
    session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(3, 400));
  REQUIRE(driven.send(1, 5000));
  REQUIRE(driven.send(1, 10));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK_THAT(fault, Catch::Matchers::Equals(""));
}

TEST_CASE("a window of 0 stops a sender until an Ack opens it", "[client][sender]") {
  std::string fault;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.advertised(0, 0);
    if (session.receive_within(300ms)) fault = "sent into a closed window";
    session.ack(0, kWindow);
    session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(2, 10));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK_THAT(fault, Catch::Matchers::Equals(""));
}

TEST_CASE("after a broken connection a sender sends what the bridge has not", "[client][sender]") {
  std::vector<std::uint64_t> first;
  std::vector<v1::Frame> second;
  v1::Advertise again;
  FakeBridge bridge({[&](FakeSession& session) {
                       session.hello();
                       session.advertised(0, kWindow);
                       for (int i = 0; i < 5; ++i) first.push_back(session.frame().sequence());
                       session.ack(2, kWindow);
                       // and it breaks: 3 came to the bridge, its Ack never left
                     },
                     [&](FakeSession& session) {
                       session.hello();
                       again = session.advertised(3, kWindow);
                       second = session.frames_until_goodbye(kWindow);
                     }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(8, 100));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(first == std::vector<std::uint64_t>{1, 2, 3, 4, 5});
  CHECK(again.epoch() == 9);
  CHECK(sequences(second) == std::vector<std::uint64_t>{4, 5, 6, 7, 8});
  CHECK(driven.sender.reconnects() == 1);
  CHECK(driven.sender.counters().acknowledged == 8);
}

TEST_CASE("a sender that starts again goes on after what the bridge has", "[client][sender]") {
  std::vector<v1::Frame> got;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.advertised(12, kWindow);  // its state file says 10
    got = session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url(), 10);
  REQUIRE(driven.send(2, 10));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(sequences(got) == std::vector<std::uint64_t>{13, 14});
}

TEST_CASE("an epoch that is over makes a sender begin a new one", "[client][sender]") {
  std::vector<v1::Frame> got;
  v1::Advertise second;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.receive();
    session.reject(0, v1::REJECT_EPOCH, false);
    second = session.advertised(0, kWindow);
    got = session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url(), 10);
  REQUIRE(driven.send(1, 10));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(second.epoch() > 9);
  CHECK(sequences(got) == std::vector<std::uint64_t>{1});
}

TEST_CASE("a Reject to be retried makes a sender go back to that number", "[client][sender]") {
  std::vector<std::uint64_t> got;
  std::vector<v1::Frame> rest;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.advertised(0, kWindow);
    for (int i = 0; i < 4; ++i) got.push_back(session.frame().sequence());
    session.ack(1, kWindow);
    for (const auto number : {2U, 3U, 4U}) session.reject(number, v1::REJECT_WINDOW, true);
    rest = session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(4, 100));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(got == std::vector<std::uint64_t>{1, 2, 3, 4});
  CHECK(sequences(rest) == std::vector<std::uint64_t>{2, 3, 4});
  CHECK(driven.sender.counters().rejected == 0);
  CHECK(driven.sender.counters().retransmitted == 3);
}

TEST_CASE("a final Reject uses the number up, and is counted once", "[client][sender]") {
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    session.advertised(0, kWindow);
    for (int i = 0; i < 3; ++i) session.frame();
    session.reject(2, v1::REJECT_CHECKSUM, false);
    session.ack(3, kWindow);
    session.frames_until_goodbye(kWindow);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(3, 100));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(driven.sender.counters().rejected == 1);
  CHECK(driven.sender.counters().acknowledged == 2);
  CHECK_THAT(driven.said, Catch::Matchers::Contains("frame 2 refused: CHECKSUM"));
}

TEST_CASE("a refusal that no retry heals ends a sender", "[client][sender]") {
  struct Row {
    std::uint64_t sequence;
    v1::RejectCode code;
  };
  for (const auto& row : {Row{0, v1::REJECT_NAME_TAKEN},
                          Row{0, v1::REJECT_LIMIT},
                          Row{0, v1::REJECT_UNAUTHORIZED},
                          Row{0, v1::REJECT_MALFORMED},
                          Row{1, v1::REJECT_UNKNOWN_CHANNEL},
                          Row{1, v1::REJECT_SEQUENCE},
                          Row{1, v1::REJECT_EPOCH}}) {
    INFO(v1::RejectCode_Name(row.code));
    FakeBridge bridge({[&](FakeSession& session) {
      session.hello();
      session.advertised(0, kWindow);
      session.frame();
      session.reject(row.sequence, row.code, false);
      session.receive_within(5s);
    }});
    Driven driven(bridge.url());
    REQUIRE(driven.send(1, 100));
    CHECK_FALSE(driven.until([&] { return driven.sender.all_acknowledged(); }));
    REQUIRE(driven.failed);
    CHECK(driven.error.code == ErrorCode::kRefused);
    driven.sender.goodbye("", std::chrono::steady_clock::now() + 1s);
    CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  }
}

TEST_CASE("after Drain a sender stays away as long as it was asked to", "[client][sender]") {
  std::chrono::steady_clock::time_point drained;
  std::chrono::steady_clock::time_point back;
  FakeBridge bridge({[&](FakeSession& session) {
                       session.hello();
                       session.advertised(0, kWindow);
                       session.frame();
                       session.ack(1, kWindow);
                       v1::ServerMessage message;
                       message.mutable_drain()->set_retry_after_ms(400);
                       session.send(message);
                       if (session.receive_within(100ms))
                         throw std::runtime_error("sent while draining");
                       drained = std::chrono::steady_clock::now();
                       session.close(1001);
                     },
                     [&](FakeSession& session) {
                       back = std::chrono::steady_clock::now();
                       session.hello();
                       session.advertised(0, kWindow);
                       session.frames_until_goodbye(kWindow);
                     }});
  Driven driven(bridge.url());
  REQUIRE(driven.send(1, 100));
  REQUIRE(driven.until([&] { return driven.sender.all_acknowledged(); }));
  REQUIRE(driven.until([&] { return !driven.sender.ready(driven.channel, 1); }));
  REQUIRE(driven.send(2, 100));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  CHECK(back - drained >= 390ms);
}

TEST_CASE("a bridge that is full is tried again after its Retry-After", "[client][sender]") {
  FakeBridge bridge({[](FakeSession& session) {
                       session.hello();
                       session.advertised(0, kWindow);
                     },
                     [](FakeSession& session) { session.refuse(503, "0"); },
                     [](FakeSession& session) {
                       session.hello();
                       session.advertised(0, kWindow);
                       session.frames_until_goodbye(kWindow);
                     }});
  Driven driven(bridge.url());
  REQUIRE(driven.until([&] { return driven.sender.reconnects() == 1; }));
  REQUIRE(driven.send(1, 10));
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
}

TEST_CASE("a first connection that is refused or not there is an error at once",
          "[client][sender]") {
  FakeBridge bridge({[](FakeSession& session) {
    session.refuse(404, "");
  }});
  Driven refused(bridge.url());
  CHECK_FALSE(refused.until([] { return false; }));
  REQUIRE(refused.failed);
  CHECK(refused.error.code == ErrorCode::kRefused);
  CHECK_THAT(refused.error.detail, Catch::Matchers::Contains("404"));
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));

  Driven nobody("ws://127.0.0.1:1");
  CHECK_FALSE(nobody.until([] { return false; }));
  REQUIRE(nobody.failed);
  CHECK(nobody.error.code == ErrorCode::kUnavailable);
}

TEST_CASE("a frame above the bridge's message size travels in parts that add up",
          "[client][sender]") {
  constexpr std::uint64_t kMessage = 1000;
  const PointCloudData cloud{.width = 500,
                             .height = 1,
                             .point_step = 12,
                             .is_dense = true,
                             .fields = {{.name = "x", .offset = 0, .type = FieldType::kFloat32}},
                             .data = std::string(6000, 'c')};
  const auto encoded = encode_cloud({.channel = 1, .sequence = 1}, cloud);
  std::vector<v1::FramePart> parts;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello(kMessage);
    session.advertised(0, 100000);
    do {
      auto message = session.receive();
      if (message.ByteSizeLong() > kMessage) throw std::runtime_error("a part above the limit");
      if (!message.has_part()) throw std::runtime_error("a part was due");
      parts.push_back(message.part());
    } while (parts.back().index() + 1 < parts.back().count());
    session.ack(1, 100000);
    session.frames_until_goodbye(100000);
  }});
  Driven driven(bridge.url());
  REQUIRE(driven.until([&] { return driven.sender.ready(1, 6000); }));
  driven.sender.send(encoded);
  CHECK(driven.finish());
  CHECK_THAT(bridge.finish(), Catch::Matchers::Equals(""));
  std::string whole;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i].transfer() == 1);
    CHECK(parts[i].index() == i);
    CHECK(parts[i].count() == parts.size());
    CHECK(parts[i].total_bytes() == encoded.bytes->size());
    CHECK(parts[i].sequence() == 1);
    whole += parts[i].data();
  }
  CHECK(parts.size() >= 7);
  CHECK(parts[0].data().size() == encoded.data_at);
  CHECK(whole == *encoded.bytes);
}

TEST_CASE("an encoded frame is what protobuf itself would write", "[client][sender]") {
  const PointCloudData cloud{
      .width = 3,
      .height = 2,
      .point_step = 20,
      .is_dense = true,
      .fields = {{.name = "x", .offset = 0, .type = FieldType::kFloat32},
                 {.name = "_", .offset = 4, .type = FieldType::kUint8, .count = 4},
                 {.name = "t", .offset = 8, .type = FieldType::kUint32}},
      .viewpoint = {.x = 1},
      .data = std::string(120, 'c')};
  for (const bool checksum : {false, true}) {
    for (const auto& encoded :
         {encode_cloud({.channel = 300, .sequence = 1U << 20, .checksum = checksum}, cloud),
          encode_opaque({.channel = 1, .sequence = 1, .frame_id = "f", .checksum = checksum},
                        "data"),
          encode_opaque({.channel = 1, .sequence = 1, .checksum = checksum}, "")}) {
      v1::Frame frame;
      REQUIRE(frame.ParseFromString(*encoded.bytes));
      CHECK(frame.SerializeAsString() == *encoded.bytes);
      CHECK(payload_data(frame) == encoded.bytes->substr(encoded.data_at));
      if (checksum) CHECK(frame.has_crc32c());
    }
  }
  v1::Frame frame;
  REQUIRE(frame.ParseFromString(*encode_cloud({.channel = 1, .sequence = 1}, cloud).bytes));
  CHECK(frame.cloud().fields_size() == 2);  // padding is a gap
  CHECK(frame.cloud().row_step() == 60);
  CHECK(frame.cloud().time_field() == "t");
  CHECK(frame.pose().position().x() == 1);
}

}  // namespace simbridge::client
