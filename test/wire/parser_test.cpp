#include "support/seed.h"
#include "wire/judge.h"
#include "wire/quiet_protobuf.h"
#include "wire/random_message.h"

#include <catch2/catch.hpp>

#include <algorithm>

namespace simbridge::wire {
namespace {

using test::as_bytes;
using test::Random;

std::string random_client_message(Random& random) {
  v1::ClientMessage message;
  test::fill_random(message, random);
  if (random() % 2 == 0) {
    message.clear_body();
    test::fill_random(*message.mutable_frame(), random);
  }
  return message.SerializeAsString();
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80U; value >>= 7U) out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
  return out;
}

std::string field(std::uint32_t number, const std::string& content) {
  return varint((number << 3U) | 2U) + varint(content.size()) + content;
}

std::string hex(const std::string& text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4U]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15U]);
  }
  return out;
}

v1::Frame small_cloud() {
  v1::Frame frame;
  frame.set_channel(1);
  frame.set_sequence(9);
  frame.set_epoch(7);
  frame.set_frame_id("lidar");
  v1::PointCloud& cloud = *frame.mutable_cloud();
  cloud.set_height(1);
  cloud.set_width(2);
  cloud.set_point_step(12);
  for (const char* name : {"x", "y", "z"}) {
    v1::Field& one = *cloud.add_fields();
    one.set_name(name);
    one.set_type(v1::TYPE_FLOAT32);
  }
  cloud.set_data(std::string(24, 'd'));
  return frame;
}

}  // namespace

TEST_CASE("a message is accepted, and read, exactly as protobuf reads it", "[wire][parser]") {
  const test::QuietProtobuf quiet;
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 6000; ++round) {
    const std::string canonical = random_client_message(random);
    const std::string scrambled =
        test::scramble(canonical, *v1::ClientMessage::descriptor(), random);
    const std::string damaged = test::damage(round % 2 == 0 ? canonical : scrambled, random);
    for (const std::string& bytes : {canonical, scrambled, damaged}) {
      const std::string fault = test::judge_message(as_bytes(bytes), 80);
      INFO("round " << round << ", bytes " << hex(bytes));
      REQUIRE(fault.empty());
    }
  }
}

TEST_CASE("a frame is accepted, read, stored and sent on exactly as it came", "[wire][parser]") {
  const test::QuietProtobuf quiet;
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  Random random(seed);
  for (int round = 0; round < 6000; ++round) {
    v1::Frame frame;
    test::fill_random(frame, random);
    const std::string canonical = frame.SerializeAsString();
    const std::string scrambled = test::scramble(canonical, *v1::Frame::descriptor(), random);
    const std::string damaged = test::damage(canonical, random);
    for (const std::string& bytes : {canonical, scrambled, damaged}) {
      INFO("round " << round << ", bytes " << hex(bytes));
      const std::string fault = test::judge_frame(as_bytes(bytes), 80);
      REQUIRE(fault.empty());
    }
  }
}

TEST_CASE("the canonical frame is known from its head, at every split", "[wire][parser][peek]") {
  v1::ClientMessage message;
  *message.mutable_frame() = small_cloud();
  const std::string bytes = message.SerializeAsString();
  const std::size_t data_at = bytes.size() - 24;
  FrameHead head;
  for (std::size_t prefix = 0; prefix <= bytes.size(); ++prefix) {
    INFO("prefix of " << prefix);
    const PeekResult with_size = peek(as_bytes(bytes).first(prefix), bytes.size(), head);
    CHECK(with_size.what == (prefix < data_at ? Peek::kNeedMore : Peek::kFrame));
    const PeekResult alone = peek(as_bytes(bytes).first(prefix), std::nullopt, head);
    CHECK(alone.what == (prefix < data_at ? Peek::kNeedMore : Peek::kFrame));
    if (alone.what != Peek::kFrame) continue;
    CHECK(alone.message_bytes == bytes.size());
    CHECK(head.data_offset == data_at);
    CHECK(head.data_bytes == 24);
    CHECK(head.sequence == 9);
    CHECK(head.frame_id == "lidar");
    CHECK(head.cloud.fields.size() == 3);
    CHECK(head.head_bytes == small_cloud().ByteSizeLong() - 24);
  }
}

TEST_CASE("a header that a later version has grown still stands before its data",
          "[wire][parser][peek]") {
  v1::Frame frame = small_cloud();
  v1::Frame head_only = frame;
  head_only.clear_payload();
  v1::PointCloud cloud_head = frame.cloud();
  cloud_head.clear_data();
  const std::string bytes = field(15,
                                  head_only.SerializeAsString() + field(50, "new") +
                                      field(100,
                                            cloud_head.SerializeAsString() + field(20, "new") +
                                                field(100, frame.cloud().data())));
  FrameHead head;
  CHECK(peek(as_bytes(bytes).first(bytes.size() - 24), bytes.size(), head).what == Peek::kFrame);
  CHECK(head.cloud.point_step == 12);
  CHECK(test::judge_message(as_bytes(bytes), bytes.size()).empty());
}

TEST_CASE("what is not the canonical encoding must be had whole", "[wire][parser][peek]") {
  const v1::Frame frame = small_cloud();
  v1::PointCloud cloud_head = frame.cloud();
  cloud_head.clear_data();
  v1::Frame head_only = frame;
  head_only.clear_payload();
  const std::string fields = head_only.SerializeAsString();
  const std::string cloud = cloud_head.SerializeAsString();
  const std::string data = field(100, frame.cloud().data());
  v1::ClientMessage ping;
  ping.mutable_ping()->set_cookie(1);
  v1::ClientMessage no_data;
  *no_data.mutable_frame() = head_only;
  no_data.mutable_frame()->mutable_opaque();
  const std::string whole = field(15, fields + field(100, cloud + data));

  struct Row {
    std::string_view what;
    std::string bytes;
    bool malformed = false;
  };
  const std::vector<Row> rows{
      {"data before the cloud's fields", field(15, fields + field(100, data + cloud))},
      {"payload before the frame's fields", field(15, field(100, cloud + data) + fields)},
      {"a field of the frame after the payload", whole.substr(0, 2) + "", true},
      {"the frame in two pieces", field(15, fields) + field(15, field(100, cloud + data))},
      {"a ping before the frame", ping.SerializeAsString() + whole},
      {"a ping after the frame", whole + ping.SerializeAsString()},
      {"an unknown field after the frame", whole + field(90, "new")},
      {"a control message", ping.SerializeAsString()},
      {"a frame without data", no_data.SerializeAsString()},
      {"a message that ends before its frame", whole.substr(0, whole.size() - 1), true},
      {"nothing", ""},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    FrameHead head;
    CHECK(peek(as_bytes(row.bytes), row.bytes.size(), head).what == Peek::kWhole);
    CHECK(std::holds_alternative<Malformed>(parse(as_bytes(row.bytes), head)) == row.malformed);
    CHECK(test::judge_message(as_bytes(row.bytes), row.bytes.size()).empty());
  }
}

TEST_CASE("all of a message must parse, though only its last body counts", "[wire][parser]") {
  const test::QuietProtobuf quiet;
  v1::ClientMessage ping;
  ping.mutable_ping()->set_cookie(3);
  v1::ClientMessage frame;
  *frame.mutable_frame() = small_cloud();
  const std::string bad_hello = field(1, field(1, "\xFF"));
  FrameHead head;

  const std::string ping_last = frame.SerializeAsString() + ping.SerializeAsString();
  CHECK(std::get<Ping>(parse(as_bytes(ping_last), head)).cookie == 3);
  const std::string frame_last = ping.SerializeAsString() + frame.SerializeAsString();
  CHECK(std::holds_alternative<FrameBody>(parse(as_bytes(frame_last), head)));
  CHECK(head.sequence == 9);
  const std::string broken = bad_hello + frame.SerializeAsString();
  CHECK(std::get<Malformed>(parse(as_bytes(broken), head)).detail.find("hello") !=
        std::string::npos);
  // Between two pieces of one body another body makes the second a fresh one.
  v1::ClientMessage epoch_only;
  epoch_only.mutable_frame()->set_epoch(5);
  const std::string interrupted =
      frame.SerializeAsString() + ping.SerializeAsString() + epoch_only.SerializeAsString();
  CHECK(std::holds_alternative<FrameBody>(parse(as_bytes(interrupted), head)));
  CHECK(head.sequence == 0);
  CHECK(head.epoch == 5);
  CHECK(head.kind == PayloadKind::kNone);
  for (const std::string& bytes : {ping_last, frame_last, broken, interrupted})
    CHECK(test::judge_message(as_bytes(bytes), bytes.size()).empty());
}

TEST_CASE("of two kinds of payload the last counts, and nothing of the first is left",
          "[wire][parser]") {
  const v1::Frame frame = small_cloud();
  const std::string cloud = frame.SerializeAsString();
  v1::Frame depth;
  depth.mutable_depth()->set_width(3);
  depth.mutable_depth()->set_fx(1);
  v1::Frame again;
  again.mutable_cloud()->set_height(5);
  v1::Frame opaque;
  opaque.mutable_opaque();
  const std::string to_opaque = cloud + opaque.SerializeAsString();
  const std::string there_and_back =
      cloud + depth.SerializeAsString() + again.SerializeAsString() + depth.SerializeAsString();
  FrameHead head;
  REQUIRE_FALSE(parse_frame(as_bytes(to_opaque), head));
  CHECK(head.kind == PayloadKind::kOpaque);
  CHECK(head.data_bytes == 0);
  for (const std::string& bytes :
       {to_opaque, there_and_back, there_and_back + again.SerializeAsString(), cloud + cloud}) {
    CHECK(test::judge_frame(as_bytes(bytes), bytes.size()).empty());
    CHECK(test::judge_message(as_bytes(field(15, bytes)), bytes.size()).empty());
  }
  REQUIRE_FALSE(parse_frame(as_bytes(there_and_back + again.SerializeAsString()), head));
  CHECK(head.cloud.height == 5);
  CHECK(head.cloud.fields.empty());
  CHECK(head.depth.width == 0);
}

TEST_CASE("the edges of the wire format are protobuf's", "[wire][parser]") {
  const test::QuietProtobuf quiet;
  const auto nested_groups = [](std::size_t depth) {
    std::string out;
    for (std::size_t i = 0; i < depth; ++i) out += varint((300U << 3U) | 3U);
    for (std::size_t i = 0; i < depth; ++i) out += varint((300U << 3U) | 4U);
    return out;
  };
  struct Row {
    std::string_view what;
    std::string bytes;
    bool malformed = true;
  };
  const std::string nine(9, '\xFF');
  const std::vector<Row> rows{
      {"tag 0", std::string(1, '\0')},
      {"field number 0 of any wire type", std::string("\x02\x00", 2)},
      {"the end of a group that was not begun", varint((300U << 3U) | 4U)},
      {"a group left open", varint((300U << 3U) | 3U)},
      {"a group that another ends", varint((300U << 3U) | 3U) + varint((301U << 3U) | 4U)},
      {"wire type 6", varint((300U << 3U) | 6U) + "x"},
      {"wire type 7", varint((300U << 3U) | 7U) + "x"},
      {"a known number of wire type 7", varint((15U << 3U) | 7U) + "x"},
      {"a varint of 10 bytes", varint(300U << 3U) + nine + "\x7F", false},
      {"a varint of 11 bytes", varint(300U << 3U) + nine + "\xFF\x01"},
      {"a tag of 5 bytes", std::string("\x8A\x80\x80\x80\x70\x00", 6), false},
      {"a tag of 6 bytes", std::string("\x8A\x80\x80\x80\x80\x00\x00", 7)},
      {"a length of 5 bytes", "\x0A" + std::string("\x80\x80\x80\x80\x00", 5), false},
      {"a length of 6 bytes", "\x0A" + std::string("\x80\x80\x80\x80\x80\x00", 6)},
      {"a length of 2 GiB", "\x0A" + std::string("\xFF\xFF\xFF\xFF\x07", 5)},
      {"a length past the end",
       field(15,
             std::string("\x52\x05"
                         "abcd",
                         6))},
      {"a message within another that ends past it",
       field(15, std::string("\xA2\x06\x10", 3)) + "0123456789abcdef"},
      {"100 groups within each other", nested_groups(100), false},
      {"101 groups within each other", nested_groups(101)},
      {"99 groups within a frame", field(15, nested_groups(99)), false},
      {"100 groups within a frame", field(15, nested_groups(100))},
      {"97 groups within a cloud's field",
       field(15, field(100, field(3, nested_groups(97)))),
       false},
      {"98 groups within a cloud's field", field(15, field(100, field(3, nested_groups(98))))},
      {"99 groups within a ping", field(7, nested_groups(99)), false},
      {"100 groups within a ping", field(7, nested_groups(100))},
      {"frame_id of an overlong character", field(15, field(10, "\xC0\x80"))},
      {"frame_id of a surrogate", field(15, field(10, "\xED\xA0\x80"))},
      {"frame_id above U+10FFFF", field(15, field(10, "\xF4\x90\x80\x80"))},
      {"frame_id of U+10FFFF", field(15, field(10, "\xF4\x8F\xBF\xBF")), false},
      {"frame_id cut within a character", field(15, field(10, "a\xC3"))},
      {"frame_id with a zero", field(15, field(10, std::string("a\0b", 3))), false},
      {"a decimator that is not UTF-8, though ignored", field(15, field(13, field(3, "\xFF")))},
      {"a field's name that is not UTF-8", field(15, field(100, field(3, field(1, "\xFF"))))},
      {"an encoding that is not UTF-8", field(15, field(101, field(3, "\xFF")))},
      {"an overwritten payload that does not parse",
       field(15, field(100, "\x08") + field(102, ""))},
      {"data that is anything", field(15, field(102, field(100, "\xFF\xFE"))), false},
      {"a frame as a varint", "\x78\x01", false},
      {"a frame as eight bytes", std::string("\x79") + "12345678", false},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    FrameHead head;
    CHECK(std::holds_alternative<Malformed>(parse(as_bytes(row.bytes), head)) == row.malformed);
    const std::string fault = test::judge_message(as_bytes(row.bytes), row.bytes.size());
    CHECK(fault.empty());
  }
}

TEST_CASE("every short string is UTF-8 or not as protobuf says", "[wire][parser]") {
  const test::QuietProtobuf quiet;
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  Random random(seed);
  constexpr std::string_view kEdges =
      "\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"
      "a";
  for (int round = 0; round < 60000; ++round) {
    std::string text(random() % 12, 'a');
    for (char& c : text)
      if (random() % 2 == 0) c = kEdges[random() % kEdges.size()];
    v1::Goodbye typed;
    const std::string bytes = field(1, text);
    FrameHead head;
    INFO(hex(text));
    const std::string frame = field(15, field(10, text));
    REQUIRE(std::holds_alternative<FrameBody>(parse(as_bytes(frame), head)) ==
            typed.ParseFromString(bytes));
  }
}

TEST_CASE("a malformed message is refused with the byte at fault", "[wire][parser]") {
  FrameHead head;
  const std::string bytes = field(15, field(10, "lidar")).substr(0, 6);
  const ClientMessage parsed = parse(as_bytes(bytes), head);
  REQUIRE(std::holds_alternative<Malformed>(parsed));
  CHECK(std::get<Malformed>(parsed).detail.starts_with("byte "));
}

TEST_CASE("a part is known from its head, and its data is the rest", "[wire][parser][peek]") {
  v1::ClientMessage message;
  v1::FramePart& part = *message.mutable_part();
  part.set_transfer(4);
  part.set_index(1);
  part.set_count(3);
  part.set_total_bytes(1000);
  part.set_channel(2);
  part.set_sequence(11);
  part.set_data("0123456789");
  const std::string bytes = message.SerializeAsString();
  FrameHead head;
  const PeekResult peeked = peek(as_bytes(bytes).first(bytes.size() - 10), bytes.size(), head);
  REQUIRE(peeked.what == Peek::kPart);
  CHECK(peeked.part.transfer == 4);
  CHECK(peeked.part.sequence == 11);
  CHECK(peeked.part.data.empty());
  CHECK(peeked.part_data_offset == bytes.size() - 10);
  CHECK(peeked.part_data_bytes == 10);
  const Part whole = std::get<Part>(parse(as_bytes(bytes), head));
  CHECK(whole.total_bytes == 1000);
  CHECK(std::ranges::equal(whole.data, as_bytes("0123456789")));
}

}  // namespace simbridge::wire
