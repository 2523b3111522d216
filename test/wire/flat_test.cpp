// Flat messages (protocol.md §5): what is read, what is refused and with what, what goes out.
#include "simbridge/wire/flat.h"

#include "support/seed.h"
#include "wire/flat_judge.h"
#include "wire/quiet_protobuf.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace simbridge::wire {
namespace {

using test::as_bytes;
using test::entry_at;
using test::FlatMessage;
using test::packed;
using test::poke;

constexpr std::uint8_t kUint8 = 2, kUint16 = 4, kFloat32 = 7;
constexpr std::uint32_t kDepthKind = 1U << 24U, kOpaqueKind = 2U << 24U;
const std::string kNoFault;
const FrameLimits kLimits{.max_frame_bytes = 1 << 20U};

std::string six_points() {
  return packed({1.F,
                 2.F,
                 3.F,
                 -4.5F,
                 .25F,
                 1.F,
                 10.F,
                 -20.F,
                 .5F,
                 .125F,
                 0.F,
                 -1.F,
                 7.F,
                 8.F,
                 9.F,
                 -1.F,
                 -1.F,
                 -1.F});
}

FlatMessage cloud() {
  return {.sequence = 9,
          .stamp_ns = -5,
          .points = 6,
          .blocks = {{"xyz", kFloat32, 3, six_points()},
                     {"ring", kUint16, 1, packed<std::uint16_t>({1, 2, 3, 4, 5, 6})}}};
}

FlatMessage depth() {
  return {
      .sequence = 9,
      .points = 6,
      .flags = kDepthKind,
      .height = 2,
      .blocks = {{"depth", kUint16, 1, packed<std::uint16_t>({1, 2, 3, 4, 5, 6})},
                 {"#meta", kUint8, 1, R"({"depth": {"fx": 2, "fy": 3, "cx": -1, "cy": 0.5}})"}}};
}

FlatMessage opaque() {
  return {.sequence = 9, .flags = kOpaqueKind, .blocks = {{"payload", kUint8, 1, "hello"}}};
}

FlatMessage with_meta(FlatMessage message, std::string text) {
  std::erase_if(message.blocks, [](const auto& block) { return block.name == "#meta"; });
  message.blocks.push_back({"#meta", kUint8, 1, std::move(text)});
  return message;
}

/// The answer to one message, by the order of protocol.md §3.
Verdict answer(const std::string& message, FrameHead& head, const FrameLimits& limits = kLimits) {
  if (auto malformed = parse_flat(as_bytes(message), head))
    return {RejectCode::kMalformed, malformed->detail};
  if (Verdict verdict = check_head(head, limits); !verdict.ok()) return verdict;
  std::uint32_t warnings = 0;
  return check_payload(head, limits, warnings);
}

std::vector<std::byte> stored(const FrameHead& head) {
  std::vector<std::byte> out(stored_head_bytes(head));
  store_head(head, 77, out);
  return out;
}

}  // namespace

TEST_CASE("a flat cloud is a SOA cloud whose data is its blocks", "[wire][flat]") {
  FlatMessage message = cloud();
  message.channel = 4;
  message.sent_ns = 8;
  message.flags = 4 | 32 | 3U << 16U;
  message.height = 2;
  message.origin = {1, 2, 3};
  message.grown_bytes = 16;
  const std::string bytes = message.encode();
  FrameHead head;
  REQUIRE(answer(bytes, head).ok());
  CHECK(head.channel == 4);
  CHECK(head.sequence == 9);
  CHECK(head.epoch == 7);
  CHECK(head.stamp_ns == -5);
  CHECK(head.sent_ns == 8);
  CHECK(head.received_ns == 0);  // only the bridge sets it
  CHECK(head.hops == 0);
  CHECK(head.clock == 3);
  CHECK(head.origin == Vector3{1, 2, 3});
  CHECK_FALSE(head.has_pose);
  CHECK(head.kind == PayloadKind::kCloud);
  CHECK(is_soa(head.cloud));
  CHECK(head.cloud.height == 2);
  CHECK(head.cloud.width == 3);
  CHECK_FALSE(head.cloud.is_dense);
  CHECK(head.head_bytes == 288);
  CHECK(head.data_offset == 288);
  CHECK(head.data_bytes == 84);
  REQUIRE(head.cloud.fields.size() == 2);
  CHECK(head.cloud.fields[0].name == "xyz");
  CHECK(head.cloud.fields[0].offset == 0);
  CHECK(head.cloud.fields[0].count == 3);
  CHECK(head.cloud.fields[1].name == "ring");
  CHECK(head.cloud.fields[1].offset == 72);
  CHECK(head.cloud.fields[1].type == kUint16);
  CHECK(bytes.substr(head.data_offset, 72) == six_points());
}

TEST_CASE("each fault of a flat message has its answer, in a sentence", "[wire][flat]") {
  struct Row {
    const char* what;
    FlatMessage from;
    std::function<void(std::string&)> change;
    RejectCode code;
    std::string_view says;
  };
  using enum RejectCode;
  const auto as_it_is = [](std::string& /*message*/) {
  };
  const FlatMessage no_points{.sequence = 9, .blocks = {{"xyz", kFloat32, 3, ""}}};
  FlatMessage wide = depth();
  wide.blocks[0] = {"depth", kFloat32, 1, std::string(24, '\0')};
  FlatMessage odd_depth = depth();
  odd_depth.blocks[0] = {"depth", kUint8, 1, std::string(6, '\0')};
  FlatMessage no_depth = depth();
  no_depth.blocks[0].name = "depht";
  FlatMessage separate = cloud();
  separate.blocks = {{"y", kFloat32, 1, std::string(24, 'y')},
                     {"z", kFloat32, 1, std::string(24, 'z')},
                     {"x", kFloat32, 1, std::string(24, 'x')}};
  FlatMessage nameless = cloud();
  nameless.blocks[1].name = "";
  FlatMessage twice = cloud();
  twice.blocks.push_back(twice.blocks[1]);
  FlatMessage only_ring = cloud();
  only_ring.blocks.erase(only_ring.blocks.begin());
  const std::vector<Row> rows{
      {"as it should be", cloud(), as_it_is, kUnspecified, ""},
      {"coordinates apart and in any order", separate, as_it_is, kUnspecified, ""},
      {"a name that is padding", nameless, as_it_is, kUnspecified, ""},
      {"a name twice", twice, as_it_is, kUnspecified, ""},
      {"no points", no_points, as_it_is, kUnspecified, ""},
      {"components 0 reads as 1",
       cloud(),
       [](auto& m) { poke<std::uint8_t>(m, entry_at(1) + 17, 0); },
       kUnspecified,
       ""},
      {"reserved fields are ignored",
       cloud(),
       [](auto& m) {
         poke<std::uint32_t>(m, 92, 5);
         poke<std::uint16_t>(m, entry_at(0) + 18, 5);
       },
       kUnspecified,
       ""},
      {"unknown flags are ignored",
       cloud(),
       [](auto& m) { poke<std::uint32_t>(m, 84, 0xF0F0FFC0U & ~0xFF0000U); },
       kUnspecified,
       ""},
      {"a block of a type to come",
       cloud(),
       [](auto& m) { m[entry_at(1) + 16] = 99; },
       kUnspecified,
       ""},

      {"nothing", cloud(), [](auto& m) { m.clear(); }, kMalformed, "208"},
      {"another magic", cloud(), [](auto& m) { m[3] = '2'; }, kMalformed, "SBF1"},
      {"shorter than its fixed part", cloud(), [](auto& m) { m.resize(207); }, kMalformed, "207"},
      {"shorter than header_bytes", cloud(), [](auto& m) { m.resize(264); }, kMalformed, "272"},
      {"a kind to come", cloud(), [](auto& m) { m[87] = 3; }, kUnsupported, "payload"},

      {"header_bytes is odd",
       cloud(),
       [](auto& m) { poke<std::uint16_t>(m, 4, 276); },
       kLayout,
       "multiple of 8"},
      {"header_bytes ends in the table",
       cloud(),
       [](auto& m) { poke<std::uint16_t>(m, 4, 264); },
       kLayout,
       "264"},
      {"header_bytes 0", cloud(), [](auto& m) { poke<std::uint16_t>(m, 4, 0); }, kLayout, "0"},
      {"more blocks than the header holds",
       cloud(),
       [](auto& m) { poke<std::uint16_t>(m, 6, 0xFFFF); },
       kLayout,
       "65535"},
      {"points that are no rows", cloud(), [](auto& m) { m[88] = 4; }, kLayout, "height 4"},
      {"a block is not aligned",
       cloud(),
       [](auto& m) { m[entry_at(1) + 20] += 4; },
       kLayout,
       "ring"},
      {"a block begins in the header",
       cloud(),
       [](auto& m) { poke<std::uint32_t>(m, entry_at(1) + 20, 264); },
       kLayout,
       "inside the header of 272"},
      {"a block begins at 0",
       cloud(),
       [](auto& m) { poke<std::uint32_t>(m, entry_at(1) + 20, 0); },
       kLayout,
       "ring"},
      {"a block begins past the end",
       cloud(),
       [](auto& m) { poke<std::uint32_t>(m, entry_at(1) + 20, 0xFFFFFFF8); },
       kLayout,
       "4294967288"},
      {"a block ends past the end",
       cloud(),
       [](auto& m) { m.resize(m.size() - 1); },
       kLayout,
       "ring"},
      {"offset + bytes is above 2^64",
       cloud(),
       [](auto& m) { poke(m, entry_at(0) + 24, ~std::uint64_t{0}); },
       kLayout,
       "18446744073709551615"},
      {"a block is too short",
       cloud(),
       [](auto& m) { m[entry_at(1) + 24] = 10; },
       kLayout,
       "are 12"},
      {"a block is too long",
       cloud(),
       [](auto& m) { m[entry_at(0) + 24] = 80; },
       kLayout,
       "xyz: 80 bytes"},
      {"n is another", cloud(), [](auto& m) { m[80] = 7; }, kLayout, "7 points"},
      {"n is 0, but the blocks are not", cloud(), [](auto& m) { m[80] = 0; }, kLayout, "0 points"},
      {"blocks overlap",
       cloud(),
       [](auto& m) { poke<std::uint32_t>(m, entry_at(1) + 20, 336); },
       kLayout,
       "xyz ends at 344"},
      {"#meta overlaps",
       with_meta(cloud(), "{}"),
       [](auto& m) { poke<std::uint32_t>(m, entry_at(2) + 20, 304); },
       kLayout,
       "xyz"},
      {"#meta past the end",
       with_meta(cloud(), "{}"),
       [](auto& m) { poke<std::uint64_t>(m, entry_at(2) + 24, 3000); },
       kLayout,
       "#meta"},
      {"a name that is not UTF-8",
       cloud(),
       [](auto& m) { m[entry_at(1)] = static_cast<char>(0xC3); },
       kLayout,
       "UTF-8"},
      {"a fault without points",
       no_points,
       [](auto& m) { m[entry_at(0) + 20] += 4; },
       kLayout,
       "multiple of 8"},
      {"no coordinates", only_ring, as_it_is, kField, "xyz"},

      {"opaque, of any n", opaque(), [](auto& m) { m[80] = 3; }, kUnspecified, ""},
      {"opaque, empty",
       FlatMessage{.flags = kOpaqueKind, .blocks = {{"payload", kUint8, 1, ""}}},
       as_it_is,
       kUnspecified,
       ""},
      {"opaque without its block",
       opaque(),
       [](auto& m) { m[entry_at(0)] = 'P'; },
       kLayout,
       "Payload"},
      {"opaque without blocks", FlatMessage{.flags = kOpaqueKind}, as_it_is, kLayout, "payload"},
      {"opaque of another type",
       opaque(),
       [](auto& m) { m[entry_at(0) + 16] = 1; },
       kLayout,
       "uint8"},
      {"depth", depth(), as_it_is, kUnspecified, ""},
      {"depth without points",
       FlatMessage{.flags = kDepthKind, .blocks = {{"depth", kUint16, 1, ""}}},
       as_it_is,
       kUnspecified,
       ""},
      {"depth without its block", no_depth, as_it_is, kLayout, "depth"},
      {"depth of another type", odd_depth, as_it_is, kLayout, "uint16 or float32"},
      {"depth whose #meta says another encoding",
       with_meta(depth(), R"({"depth": {"fx": 1, "fy": 1, "encoding": "32FC1"}})"),
       as_it_is,
       kLayout,
       "32FC1"},
      {"depth whose #meta says no known encoding",
       with_meta(depth(), R"({"depth": {"fx": 1, "fy": 1, "encoding": "8UC1"}})"),
       as_it_is,
       kField,
       "8UC1"},
      {"depth without intrinsics", with_meta(depth(), "{}"), as_it_is, kField, "fx"},
      {"depth as floats", wide, as_it_is, kUnspecified, ""},
  };
  const test::QuietProtobuf quiet;
  for (const Row& row : rows) {
    INFO(row.what);
    std::string bytes = row.from.encode();
    row.change(bytes);
    FrameHead head;
    const Verdict verdict = answer(bytes, head);
    INFO(verdict.detail);
    CHECK(name_of(verdict.code) == name_of(row.code));
    CHECK(verdict.detail.find(row.says) != std::string::npos);
    CHECK(test::judge_flat(as_bytes(bytes), bytes.size()).empty());
    if (verdict.code == kMalformed) continue;
    CHECK(head.channel == row.from.channel);  // for Reject and the books
    CHECK(head.sequence == row.from.sequence);
    CHECK(head.epoch == 7);
  }
}

TEST_CASE("a flat message's faults have their place in the order of checks", "[wire][flat]") {
  FrameHead head;
  std::string faulty = cloud().encode();
  faulty[entry_at(1) + 20] += 4;
  REQUIRE(name_of(answer(faulty, head).code) == "LAYOUT");
  CHECK(name_of(answer(faulty, head, {.max_frame_bytes = 50}).code) == "TOO_LARGE");
  CHECK(name_of(answer(faulty, head, {.max_frame_bytes = 1 << 20U, .max_points = 5}).code) ==
        "TOO_LARGE");
  CHECK(name_of(answer(faulty, head, {.max_frame_bytes = 1 << 20U, .max_head_bytes = 200}).code) ==
        "LIMIT");
  std::string opaque_fault = opaque().encode();
  opaque_fault[entry_at(0) + 16] = 1;
  CHECK(name_of(answer(opaque_fault, head, {.max_frame_bytes = 4}).code) == "TOO_LARGE");
  std::string depth_fault = depth().encode();
  depth_fault[entry_at(0) + 20] += 4;
  CHECK(name_of(answer(depth_fault, head, {.max_frame_bytes = 1 << 20U, .max_points = 5}).code) ==
        "TOO_LARGE");

  // A field too many, and a #meta that makes the header too long: LIMIT, as on the other roads.
  FlatMessage many = cloud();
  for (int i = 0; i < 300; ++i) many.blocks.push_back({"f", kUint8, 1, std::string(6, 'f')});
  CHECK(name_of(answer(many.encode(), head).code) == "LIMIT");
  const std::string long_id(300, 'i');
  CHECK(name_of(answer(with_meta(cloud(), R"({"frameId": ")" + long_id + R"("})").encode(), head)
                    .code) == "LIMIT");
  const std::string spaces(66'000, ' ');
  CHECK(name_of(answer(with_meta(cloud(), "{" + spaces + "}").encode(), head).code) == "LIMIT");
}

TEST_CASE("a #meta says what the header has no place for, and any fault of it is MALFORMED",
          "[wire][flat]") {
  const test::QuietProtobuf quiet;
  FrameHead head;
  const std::string message =
      with_meta(cloud(),
                R"({"frameId": "lidar \u00e9", "hops": 3, "crc32c": 5, "sequence": "77",
        "origin": {"x": 9}, "result": {"degraded": true},
        "cloud": {"timeField": "t", "timeScaleNum": "1000", "timeScaleDen": -3,
        "timeAbsolute": true, "width": 99, "data": "AAAA"}})")
          .encode();
  REQUIRE(answer(message, head).ok());
  CHECK(head.frame_id == "lidar é");
  CHECK(head.cloud.time_field == "t");
  CHECK(head.cloud.time_scale_num == 1000);
  CHECK(head.cloud.time_scale_den == -3);
  CHECK(head.cloud.time_absolute);
  // The rest of it is not asked.
  CHECK(head.sequence == 9);
  CHECK(head.hops == 0);
  CHECK_FALSE(head.crc32c);
  CHECK_FALSE(head.origin);
  CHECK(head.cloud.width == 6);
  CHECK_FALSE(head.result);
  // Its memory is the head's own: the message may go.
  {
    std::string gone = message;
    REQUIRE_FALSE(parse_flat(as_bytes(gone), head));
    std::ranges::fill(gone, '?');
    CHECK(head.frame_id == "lidar é");
  }
  head.clear();
  CHECK(head.frame_id.empty());
  CHECK(head.flat_meta == nullptr);

  const std::string image =
      with_meta(depth(), R"({"depth": {"fx": 2, "fy": 3.5, "cx": -1, "cy": "1e3",
                              "encoding": "16UC1"}, "frame_id": "camera"})")
          .encode();
  REQUIRE(answer(image, head).ok());
  CHECK(head.depth.fx == 2);
  CHECK(head.depth.fy == 3.5);
  CHECK(head.depth.cx == -1);
  CHECK(head.depth.cy == 1000);
  CHECK(head.depth.encoding == "16UC1");
  CHECK(head.frame_id == "camera");

  for (const std::string_view text : {" ",
                                      "[]",
                                      "1",
                                      "null",
                                      "{",
                                      "{}{}",
                                      "{\"frameId\": \"\xFF\"}",
                                      R"({"frameId": "a", "frame_id": "a"})",
                                      R"({"frameIt": "a"})",
                                      R"({"cloud": {}, "frameIt": "a"})",
                                      R"({"cloud": {"colour": 1}})",
                                      R"({"cloud": {}, "depth": {}})",
                                      R"({"clock": "CLOCK_SUNDIAL"})",
                                      R"({"sequence": 9007199254740993})",
                                      R"({"frameId": 5.5})",
                                      R"({"crc32c": -1})"}) {
    INFO(text);
    const std::string bytes = with_meta(cloud(), std::string(text)).encode();
    const Verdict verdict = answer(bytes, head);
    CHECK(name_of(verdict.code) == "MALFORMED");
    CHECK(verdict.detail.starts_with("#meta: "));
    CHECK(test::judge_flat(as_bytes(bytes), bytes.size()).empty());
  }
  const std::string bomb = std::string(20'000, '[') + std::string(20'000, ']');
  CHECK(name_of(answer(with_meta(cloud(), R"({"cloud": )" + bomb + "}").encode(), head).code) ==
        "MALFORMED");

  // Other names that begin with # are a later version's, and skipped.
  FlatMessage later = cloud();
  later.blocks.insert(later.blocks.begin() + 1, {"#later", kUint8, 1, "not JSON"});
  REQUIRE(answer(later.encode(), head).ok());
  CHECK(head.cloud.fields.size() == 2);
}

TEST_CASE("a flat message is the same however much of it is looked at first", "[wire][flat]") {
  for (const FlatMessage& message : {cloud(),
                                     depth(),
                                     opaque(),
                                     with_meta(cloud(), R"({"frameId": "lidar"})"),
                                     with_meta(cloud(), "{"),
                                     with_meta(opaque(), R"({"frameId": "imu"})")}) {
    const std::string bytes = message.encode();
    CHECK(test::judge_flat(as_bytes(bytes), bytes.size()) == kNoFault);
    CHECK(test::judge_flat(as_bytes(bytes + "tail"), bytes.size()) == kNoFault);
  }
  // Complete header and table, and the length is known: it is read as it comes.
  FrameHead head;
  const std::string streamed = with_meta(cloud(), R"({"frameId": "lidar"})").encode();
  const PeekResult seen = peek_flat(as_bytes(streamed).first(304), streamed.size(), head);
  CHECK(seen.what == Peek::kFrame);
  CHECK(head.data_offset == 304);
  CHECK(head.data_bytes == 84);
  CHECK(head.tail_bytes == 4 + 20);
  CHECK(head.frame_id.empty());
  CHECK(peek_flat(as_bytes(streamed).first(303), streamed.size(), head).what == Peek::kNeedMore);
  CHECK(peek_flat(as_bytes(streamed).first(304), std::nullopt, head).what == Peek::kWhole);

  // A #meta before the blocks' end, and one that is too long to wait for: had whole.
  FlatMessage before = cloud();
  before.blocks.insert(before.blocks.begin(), {"#meta", kUint8, 1, "{}"});
  const std::string scattered = before.encode();
  CHECK(peek_flat(as_bytes(scattered), scattered.size(), head).what == Peek::kWhole);
  const std::string large = with_meta(cloud(), "{" + std::string(70'000, ' ') + "}").encode();
  CHECK(peek_flat(as_bytes(large), large.size(), head).what == Peek::kWhole);

  // In what is faulty nothing is to be waited for.
  std::string faulty = cloud().encode();
  faulty[entry_at(0) + 20] += 4;
  CHECK(peek_flat(as_bytes(faulty).first(272), faulty.size(), head).what == Peek::kFrame);
  CHECK_FALSE(head.flat_fault.empty());
}

TEST_CASE("flat messages of all kinds, whole and damaged, are read as the page says",
          "[wire][flat]") {
  const test::QuietProtobuf quiet;
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  test::Random random(seed);
  int fine = 0;
  for (int round = 0; round < 1500; ++round) {
    INFO("round " << round);
    std::string bytes = test::random_flat(random).encode();
    REQUIRE(test::judge_flat(as_bytes(bytes), 800) == kNoFault);
    FrameHead head;
    if (answer(bytes, head).ok()) ++fine;
    // A bit of header or table, more often than of the data.
    for (int flips = 0; flips < 3; ++flips) {
      std::string damaged = bytes;
      const std::size_t near = std::min<std::size_t>(damaged.size(), 400);
      char& byte = damaged[random() % near];
      byte = static_cast<char>(byte ^ static_cast<char>(1U << random() % 8));
      if (random() % 4 == 0) damaged.resize(random() % (damaged.size() + 1));
      REQUIRE(test::judge_flat(as_bytes(damaged), 500) == kNoFault);
    }
  }
  CHECK(fine > 300);
}

TEST_CASE("a head may be stored again in its place when its #meta came", "[wire][flat][stored]") {
  const std::string frame_id = "é" + std::string(200, 'f');
  const std::string time_field(250, 't');
  const std::string bytes =
      with_meta(cloud(),
                R"({"frameId":")" + frame_id + R"(","cloud":{"timeField":")" + time_field +
                    R"(","timeScaleNum":"-9223372036854775808",)"
                    R"("timeScaleDen":"-9223372036854775808","timeAbsolute":true}})")
          .encode();
  FrameHead head;
  REQUIRE(peek_flat(as_bytes(bytes).first(304), bytes.size(), head).what == Peek::kFrame);
  std::vector<std::byte> place(stored_head_bytes(head));
  store_head(head, 77, place);
  FrameHead loaded;
  load_head(place, loaded);
  CHECK(loaded.frame_id.empty());
  CHECK(loaded.cloud.fields.size() == 2);

  REQUIRE_FALSE(read_flat_tail(as_bytes(bytes).last(head.tail_bytes), head));
  store_head(head, 77, place);
  load_head(place, loaded);
  CHECK(loaded.frame_id == frame_id);
  CHECK(loaded.cloud.time_field == time_field);
  CHECK(loaded.cloud.time_scale_den == std::numeric_limits<std::int64_t>::min());
  CHECK(loaded.received_ns == 77);
  // What is written from it does not know that there was more room.
  std::string out(frame_prefix_max(place), '\0');
  out.resize(frame_prefix(place, {.channel = 3}, true, std::as_writable_bytes(std::span(out))));
  v1::ServerMessage message;
  REQUIRE(message.ParseFromString(out));
  CHECK(message.frame().frame_id() == frame_id);
  CHECK(message.SerializeAsString() == out);

  // Of an image the intrinsics are numbers that the first time were none.
  const std::string image =
      with_meta(depth(), R"({"depth":{"fx":1,"fy":2,"cx":3,"cy":4,"encoding":"16UC1"}})").encode();
  REQUIRE(peek_flat(as_bytes(image).first(272), image.size(), head).what == Peek::kFrame);
  place.assign(stored_head_bytes(head), std::byte{0xEE});
  store_head(head, 1, place);
  REQUIRE_FALSE(read_flat_tail(as_bytes(image).last(head.tail_bytes), head));
  store_head(head, 1, place);
  load_head(place, loaded);
  CHECK(loaded.depth.cy == 4);
  CHECK(loaded.depth.encoding == "16UC1");
}

// ---- out

TEST_CASE("a derived cloud goes out with all that was done to it", "[wire][flat]") {
  FrameHead head;
  head.kind = PayloadKind::kCloud;
  head.stamp_ns = -3;
  head.sent_ns = 4;
  head.clock = 2;
  head.frame_id = "lidar";
  head.has_pose = true;
  head.pose_position = Vector3{1, 2, 3};  // and no orientation: identity
  head.origin = Vector3{1e6, 2e6, 3e6};
  head.cloud.width = 3;
  head.cloud.height = 2;
  head.cloud.fields = {
      {"xyz", 0, kFloat32, 3}, {"rgba", 72, kUint8, 4}, {"sixteen_bytes_16", 96, 8, 0}};
  set_soa(head.cloud, true);
  head.result = Result{.points_in = 100,
                       .points_out = 6,
                       .by = DecimatedBy::kCpu,
                       .leaf = 0.2,
                       .box = std::array{Vector3{-1, -2, -3.3}, Vector3{1, 2, 3}},
                       .degraded = true};
  const auto kept = stored(head);
  const std::string data(144, 'D');
  const Outgoing outgoing{.channel = 5,
                          .subscription = 6,
                          .sequence = 7,
                          .epoch = 8,
                          .forwarded_ns = 9,
                          .data_bytes = data.size(),
                          .points_in = 11111,
                          .points_out = 11111,
                          .skipped_frames = 10,
                          .queue_us = 12};
  REQUIRE(has_flat_form(kept, data.size()));
  const std::string meta = flat_meta(kept, outgoing);
  std::string out(flat_prefix_max(kept), '\xEE');
  out.resize(flat_prefix(kept, outgoing, meta.size(), std::as_writable_bytes(std::span(out))));

  CHECK(out.size() == 208 + 4 * 32);
  CHECK(out.substr(0, 4) == "SBF1");
  CHECK(out.substr(4, 4) == packed<std::uint16_t>({208 + 4 * 32, 4}));
  CHECK(out.substr(8, 8) == packed<std::uint32_t>({6, 5}));
  CHECK(out.substr(16, 16) == packed<std::uint64_t>({7, 8}));
  CHECK(out.substr(32, 32) == packed<std::int64_t>({-3, 4, 77, 9}));
  CHECK(out.substr(64, 16) == packed<std::uint64_t>({100, 10}));
  // degraded, keeps rows, not dense, box, pose, origin; clock 2; kind 0
  CHECK(out.substr(80, 16) == packed<std::uint32_t>({6, 63 | 2U << 16U, 2, 0}));
  CHECK(out.substr(96, 88) == packed({0.2, 1e6, 2e6, 3e6, 1., 2., 3., 0., 0., 0., 1.}));
  CHECK(out.substr(184, 24) == packed({-1.F, -2.F, -3.3F, 1.F, 2.F, 3.F}));
  const auto entry = [](std::string name,
                        std::uint8_t type,
                        std::uint8_t components,
                        std::uint32_t offset,
                        std::uint64_t bytes) {
    name.resize(16);
    return name + packed<std::uint8_t>({type, components, 0, 0}) + packed({offset}) +
           packed({bytes});
  };
  CHECK(out.substr(entry_at(0), 32) == entry("xyz", 7, 3, 336, 72));
  CHECK(out.substr(entry_at(1), 32) == entry("rgba", 2, 4, 336 + 72, 24));
  CHECK(out.substr(entry_at(2), 32) == entry("sixteen_bytes_16", 8, 1, 336 + 96, 48));
  CHECK(out.substr(entry_at(3), 32) == entry("#meta", 2, 1, 336 + 144, meta.size()));

  const auto said = nlohmann::json::parse(meta);
  CHECK(said.at("frameId") == "lidar");
  CHECK(said.at("sequence") == "7");
  CHECK(said.at("result").at("decimator") == "cpu");
  CHECK(said.at("result").at("pointsOut") == "6");
  CHECK(said.at("result").at("queueUs") == 12);
  CHECK(said.at("cloud").at("timeField").get<std::string>().empty());
  CHECK(said.at("cloud").at("data").get<std::string>().empty());

  // Without a #meta there is one entry less, and without a result nothing that it says.
  head.result.reset();
  head.has_pose = false;
  head.origin.reset();
  head.cloud.is_dense = true;
  head.cloud.height = 1;
  head.cloud.width = 6;
  const auto plain = stored(head);
  std::string second(flat_prefix_max(plain), '\xEE');
  second.resize(flat_prefix(plain, outgoing, 0, std::as_writable_bytes(std::span(second))));
  CHECK(second.size() == 208 + 3 * 32);
  CHECK(second.substr(64, 16) == packed<std::uint64_t>({11111, 10}));
  CHECK(second.substr(80, 16) == packed<std::uint32_t>({6, 2U << 16U, 1, 0}));
  CHECK(second.substr(96, 112) == std::string(112, '\0'));
}

TEST_CASE("opaque and depth frames go out as one block", "[wire][flat]") {
  FrameHead head;
  head.kind = PayloadKind::kOpaque;
  auto kept = stored(head);
  REQUIRE(has_flat_form(kept, 5));
  std::string out(flat_prefix_max(kept), '\xEE');
  out.resize(flat_prefix(kept, {.data_bytes = 5}, 0, std::as_writable_bytes(std::span(out))));
  CHECK(out.size() == 240);
  CHECK(out.substr(80, 12) == packed<std::uint32_t>({0, kOpaqueKind, 0}));
  CHECK(out.substr(208) == std::string("payload\0\0\0\0\0\0\0\0\0", 16) +
                               packed<std::uint8_t>({kUint8, 1, 0, 0}) +
                               packed<std::uint32_t>({240}) + packed<std::uint64_t>({5}));

  head.kind = PayloadKind::kDepth;
  head.depth = {.height = 2, .width = 3, .encoding = "32FC1", .row_step = 12, .fx = 1, .fy = 1};
  kept = stored(head);
  REQUIRE(has_flat_form(kept, 24));
  CHECK_FALSE(has_flat_form(kept, 28));  // rows are padded
  out.assign(flat_prefix_max(kept), '\xEE');
  out.resize(flat_prefix(kept, {.data_bytes = 24}, 0, std::as_writable_bytes(std::span(out))));
  CHECK(out.substr(80, 12) == packed<std::uint32_t>({6, kDepthKind | 2, 2}));
  CHECK(out.substr(208) == std::string("depth\0\0\0\0\0\0\0\0\0\0\0", 16) +
                               packed<std::uint8_t>({kFloat32, 1, 0, 0}) +
                               packed<std::uint32_t>({240}) + packed<std::uint64_t>({24}));
  head.depth.codec = 2;
  CHECK_FALSE(has_flat_form(stored(head), 24));
}

TEST_CASE("only a cloud whose blocks are as the page wants them has a flat form", "[wire][flat]") {
  struct Row {
    const char* what;
    std::function<void(CloudHead&)> change;
    bool has;
  };
  const std::vector<Row> rows{
      {"as it should be", [](auto& /*c*/) {}, true},
      {"longer than a message can say", [](auto& c) { c.width = 0x40000000; }, false},
      {"records", [](auto& c) { set_soa(c, false); }, false},
      {"compressed", [](auto& c) { c.codec = 1; }, false},
      {"big-endian", [](auto& c) { c.is_bigendian = true; }, false},
      {"no xyz", [](auto& c) { c.fields[0].name = "x"; }, false},
      {"xyz of another type", [](auto& c) { c.fields[0].type = 6; }, false},
      {"xyz of two", [](auto& c) { c.fields[0].count = 2; }, false},
      {"xyz not first", [](auto& c) { std::swap(c.fields[0].name, c.fields[1].name); }, false},
      {"no blocks", [](auto& c) { c.fields.clear(); }, false},
      {"not aligned", [](auto& c) { c.fields[1].offset += 4; }, false},
      {"overlapping", [](auto& c) { c.fields[1].offset = 64; }, false},
      {"past the end", [](auto& c) { c.fields[1].offset = 80; }, false},
      {"of unknown type", [](auto& c) { c.fields[1].type = 12; }, false},
      {"a name too long", [](auto& c) { c.fields[1].name = "seventeen_bytes_1"; }, false},
      {"a count too large", [](auto& c) { c.fields[1].count = 256; }, false},
  };
  for (const Row& row : rows) {
    INFO(row.what);
    FrameHead head;
    head.kind = PayloadKind::kCloud;
    head.cloud.width = 6;
    head.cloud.height = 1;
    set_soa(head.cloud, true);
    head.cloud.fields = {{"xyz", 0, kFloat32, 3}, {"ring", 72, kUint16, 1}};
    row.change(head.cloud);
    CHECK(has_flat_form(stored(head), 84) == row.has);
  }
  FrameHead nothing;
  CHECK_FALSE(has_flat_form(stored(nothing), 0));
}

}  // namespace simbridge::wire
