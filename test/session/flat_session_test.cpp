// The flat road through a session: the same answers and the same stored frame however a message is
// cut, whether its length is known, and whether its data is read straight into its place.
#include "session/flat_peer.h"
#include "wire/flat_judge.h"
#include "wire/quiet_protobuf.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

namespace simbridge::session {
namespace {

using Outcome = test::FlatRoad::Outcome;
using test::FlatPeer;
using test::FlatRoad;
using test::TestBridge;
using wire::test::entry_at;
using wire::test::FlatMessage;
using wire::test::packed;
using wire::test::poke;

constexpr std::uint8_t kUint8 = 2, kUint16 = 4, kFloat32 = 7;

FlatMessage cloud() {
  return {.stamp_ns = -5,
          .points = 2,
          .flags = 32,
          .origin = {1, 2, 3},
          .blocks = {{"xyz", kFloat32, 3, packed({1.F, 2.F, 3.F, 4.F, 5.F, 6.F})},
                     {"ring", kUint16, 1, packed<std::uint16_t>({7, 8})}}};
}

FlatMessage with_meta(FlatMessage message, const std::string& text) {
  message.blocks.push_back({"#meta", kUint8, 1, text});
  return message;
}

std::map<std::string, std::string> messages() {
  const std::string image = R"({"depth": {"fx": 1, "fy": 2, "cx": 3, "cy": 4}, "frameId": "cam"})";
  const FlatMessage depth{.points = 4,
                          .flags = 1U << 24U,
                          .height = 2,
                          .blocks = {{"depth", kUint16, 1, packed<std::uint16_t>({1, 2, 3, 4})}}};
  const FlatMessage opaque{.flags = 2U << 24U, .blocks = {{"payload", kUint8, 1, "some bytes"}}};
  FlatMessage meta_first = cloud();
  meta_first.blocks.insert(meta_first.blocks.begin(),
                           {"#meta", kUint8, 1, R"({"frameId": "first"})"});
  FlatMessage grown = with_meta(cloud(), R"({"frameId": "grown"})");
  grown.grown_bytes = 24;
  FlatMessage unusable = with_meta(cloud(), "{}");
  unusable.blocks.erase(unusable.blocks.begin());
  FlatMessage unusable_too = unusable;
  unusable_too.blocks.back().bytes = "{";
  FlatMessage long_id = unusable;
  long_id.blocks.back().bytes = R"({"frameId": ")" + std::string(300, 'f') + R"("})";
  std::string unaligned = cloud().encode();
  unaligned[entry_at(1) + 20] = static_cast<char>(unaligned[entry_at(1) + 20] | 4);
  std::string small_header = cloud().encode();
  poke<std::uint16_t>(small_header, 4, 96);
  std::string no_such_kind = with_meta(cloud(), "{}").encode();
  no_such_kind[87] = 9;
  std::string no_such_channel = with_meta(cloud(), "{}").encode();
  no_such_channel[12] = 9;
  std::string no_sequence = with_meta(cloud(), "{}").encode();
  no_sequence[16] = 0;
  std::string no_sequence_too = with_meta(cloud(), "[]").encode();
  no_sequence_too[16] = 0;
  return {
      {"cloud", cloud().encode()},
      {"cloud with zeros behind", cloud().encode() + std::string(16, '\0')},
      {"cloud with #meta",
       with_meta(cloud(),
                 R"({"frameId": "lidar", "cloud": {"timeField": "t", "timeScaleNum": "-3"}})")
           .encode()},
      {"cloud with an empty #meta", with_meta(cloud(), "{}").encode()},
      {"#meta first", meta_first.encode()},
      {"a grown header", grown.encode()},
      {"#meta is broken", with_meta(cloud(), "{").encode()},
      {"#meta has a long frame_id",
       with_meta(cloud(), R"({"frameId": ")" + std::string(300, 'f') + R"("})").encode()},
      {"no points", FlatMessage{.blocks = {{"xyz", kFloat32, 3, ""}}}.encode()},
      {"no points, #meta",
       with_meta({.blocks = {{"xyz", kFloat32, 3, ""}}}, R"({"frameId": "none"})").encode()},
      {"depth with #meta", with_meta(depth, image).encode()},
      {"depth without", depth.encode()},
      {"opaque", opaque.encode()},
      {"opaque with #meta", with_meta(opaque, R"({"frameId": "imu"})").encode()},
      {"opaque, empty",
       FlatMessage{.flags = 2U << 24U, .blocks = {{"payload", kUint8, 1, ""}}}.encode()},
      {"no coordinates", unusable.encode()},
      {"no coordinates, and a broken #meta", unusable_too.encode()},
      {"no coordinates, and a long frame_id", long_id.encode()},
      {"unaligned", unaligned},
      {"header_bytes too small", small_header},
      {"a kind to come", no_such_kind},
      {"another channel", no_such_channel},
      {"cut off", cloud().encode().substr(0, 300)},
      {"header only", cloud().encode().substr(0, 250)},
      {"sequence 0", no_sequence},
      {"sequence 0, and a broken #meta", no_sequence_too},
      {"another magic", "SBF2" + cloud().encode().substr(4)},
      {"nothing", ""},
  };
}

}  // namespace

TEST_CASE("a flat message has the same end however it is cut", "[session][flat]") {
  const wire::test::QuietProtobuf quiet;
  for (const auto& [what, bytes] : messages()) {
    INFO(what);
    FlatRoad road;
    const Outcome whole = road.play([&](FlatPeer& sensor) { sensor.frame(bytes); });
    INFO(whole.answers << whole.frame);
    CHECK(whole.answers.find(whole.frame.empty() ? "reject" : "ack { channel: 1 sequence: 1") !=
          std::string::npos);
    // Every place where something begins or ends, and one bytewise.
    std::vector<std::vector<std::size_t>> cuts{{}};
    for (const std::size_t cut : {1U,   4U,   100U, 207U, 208U, 240U, 271U, 272U, 273U, 295U,
                                  296U, 303U, 304U, 305U, 327U, 328U, 330U, 335U, 336U, 340U})
      if (cut < bytes.size()) cuts.push_back({cut});
    if (bytes.size() > 350) cuts.push_back({208, 280, 310, 340, bytes.size() - 1});
    std::vector<std::size_t> bytewise(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) bytewise[i] = i;
    cuts.push_back(bytewise);
    for (const auto& cut : cuts) {
      for (const bool total_known : {true, false}) {
        for (const bool direct : {true, false}) {
          const Outcome cut_up = road.play([&](FlatPeer& sensor) {
            sensor.pieces(bytes, cut, MessageType::kBinary, total_known, direct);
          });
          INFO("cut at " << (cut.empty() ? 0 : cut.front()) << " and " << cut.size()
                         << " more, total_known " << total_known << ", direct " << direct);
          CHECK(cut_up.frame == whole.frame);
          CHECK(cut_up.answers == whole.answers);
        }
      }
    }
  }
}

TEST_CASE("a duplicate is one however it is cut, but not with a #meta that is broken",
          "[session][flat]") {
  const wire::test::QuietProtobuf quiet;
  FlatRoad road;
  const std::string first = cloud().encode();
  for (const std::string meta : {"{}", "{"}) {
    const std::string again = with_meta(cloud(), meta).encode();
    const Outcome whole = road.play([&](FlatPeer& sensor) {
      sensor.frame(first);
      sensor.frame(again);
    });
    CHECK((whole.answers.find("reject") == std::string::npos) == (meta == "{}"));
    for (const std::size_t cut : {100U, 304U, 350U}) {
      const Outcome cut_up = road.play([&](FlatPeer& sensor) {
        sensor.frame(first);
        sensor.pieces(again, {cut}, MessageType::kBinary, true, true);
      });
      CHECK(cut_up == whole);
    }
  }
}

TEST_CASE("control as text has the same end however it is cut", "[session][flat]") {
  const wire::test::QuietProtobuf quiet;
  FlatRoad road;
  for (const std::string text : {R"({"subscribe": {"id": 1, "channel": "x"}})",
                                 R"({"subscribe": {"id": 0, "channel": "x"}})",
                                 R"({"advertise": {"channel": 0, "name": "x"}})",
                                 R"({"ping": {"kookie": 1}})",
                                 R"({"teleport": {}})",
                                 "",
                                 "{"}) {
    INFO(text);
    const Outcome whole = road.play([&](FlatPeer& peer) { peer.text(text); });
    std::vector<std::size_t> bytewise(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) bytewise[i] = i;
    for (const bool total_known : {true, false}) {
      const Outcome cut_up = road.play([&](FlatPeer& peer) {
        peer.pieces(text, bytewise, MessageType::kText, total_known, false);
      });
      CHECK(cut_up == whole);
    }
  }
}

TEST_CASE("a frame as text ends the session with 1003, whole or in pieces", "[session][flat]") {
  TestBridge bridge;
  const std::string text = R"({"frame": {"channel": 1}})";
  for (const bool whole : {true, false}) {
    FlatPeer peer(bridge);
    const Flow flow =
        whole ? peer.text(text) : peer.pieces(text, {1, 9, 15}, MessageType::kText, true, false);
    CHECK(flow == Flow::kStop);
    REQUIRE(peer.closed);
    CHECK(peer.closed->kind == CloseKind::kUnsupportedData);
  }
}

}  // namespace simbridge::session
