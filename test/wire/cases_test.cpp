// The messages of test/protocol/cases, made by an independent program, and the verdict on each.
#include "simbridge/wire/flat.h"
#include "support/source_dir.h"
#include "wire/flat_judge.h"
#include "wire/judge.h"
#include "wire/quiet_protobuf.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace simbridge::wire {
namespace {

using test::as_bytes;

std::filesystem::path cases_folder() {
  return simbridge::test::source_dir() / "test/protocol/cases";
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The answer to one message on a fresh session with channel 1 advertised with epoch 7, by the
/// order of protocol.md §3. What only the session knows is in the middle.
std::string verdict(const ClientMessage& parsed,
                    const FrameHead& head,
                    std::span<const std::byte> message) {
  if (std::holds_alternative<Malformed>(parsed)) return "REJECT_MALFORMED";
  if (!std::holds_alternative<FrameBody>(parsed)) return "REJECT_UNSUPPORTED";
  const FrameLimits limits{.max_frame_bytes = 64 << 20};
  const auto code = [](const Verdict& refused) {
    CHECK_FALSE(refused.detail.empty());
    return "REJECT_" + std::string(name_of(refused.code));
  };
  if (const Verdict refused = check_head(head, limits); !refused.ok()) return code(refused);
  if (head.channel != 1) return "REJECT_UNKNOWN_CHANNEL";
  if (head.sequence == 0 || head.sequence > static_cast<std::uint64_t>(INT64_MAX))
    return "REJECT_SEQUENCE";
  if (head.epoch != 0 && head.epoch != 7) return "REJECT_SEQUENCE";
  std::uint32_t warnings = 0;
  if (const Verdict refused = check_payload(head, limits, warnings); !refused.ok())
    return code(refused);
  const auto data = message.subspan(head.data_offset, head.data_bytes);
  if (const Verdict refused = check_crc(head, data); !refused.ok()) return code(refused);
  return "accept";
}

std::string expected(const nlohmann::json& one) {
  return one.at("accept") ? std::string("accept") : one.at("reject").get<std::string>();
}

}  // namespace

TEST_CASE("every message of the protocol's cases gets its verdict", "[wire][cases]") {
  const test::QuietProtobuf quiet;
  const auto cases = nlohmann::json::parse(read(cases_folder() / "cases.json"));
  std::size_t judged = 0;
  for (const auto& one : cases) {
    const std::string file = one.at("file");
    if (file.ends_with(".flat.bin")) continue;  // below
    const std::string bytes = read(cases_folder() / file);
    INFO(file << ": " << one.at("why").get<std::string>());
    const bool accept = one.at("accept");
    FrameHead head;
    const ClientMessage parsed = parse(as_bytes(bytes), head);
    CHECK(verdict(parsed, head, as_bytes(bytes)) == expected(one));
    CHECK(test::judge_message(as_bytes(bytes), bytes.size()).empty());
    ++judged;
    if (!accept) continue;

    // Accepted ones go on as they were sent.
    REQUIRE(std::holds_alternative<FrameBody>(parsed));
    v1::ClientMessage sent;
    REQUIRE(sent.ParseFromString(bytes));
    sent.DiscardUnknownFields();
    const auto data = as_bytes(bytes).subspan(head.data_offset, head.data_bytes);
    std::vector<std::byte> stored(stored_head_bytes(head));
    store_head(head, 99, stored);
    const Outgoing outgoing{.channel = 5,
                            .subscription = 6,
                            .sequence = head.sequence,
                            .epoch = 7,
                            .forwarded_ns = 100,
                            .data_bytes = data.size()};
    std::string out(frame_prefix_max(stored), '\0');
    out.resize(frame_prefix(stored, outgoing, true, std::as_writable_bytes(std::span(out))));
    out.append(reinterpret_cast<const char*>(data.data()), data.size());
    v1::ServerMessage arrived;
    REQUIRE(arrived.ParseFromString(out));
    v1::Frame frame = arrived.frame();
    CHECK(frame.result().decimator() == "none");
    CHECK(frame.received_ns() == 99);
    frame.set_channel(sent.frame().channel());
    frame.clear_subscription();
    frame.set_epoch(sent.frame().epoch());
    frame.clear_result();
    frame.clear_received_ns();
    frame.clear_forwarded_ns();
    CHECK(frame.SerializeAsString() == sent.frame().SerializeAsString());
  }
  CHECK(judged >= 70);
}

TEST_CASE("every flat message of the protocol's cases gets its verdict, and has its points",
          "[wire][cases][flat]") {
  const test::QuietProtobuf quiet;
  const auto cases = nlohmann::json::parse(read(cases_folder() / "cases.json"));
  std::size_t judged = 0;
  for (const auto& one : cases) {
    const std::string file = one.at("file");
    if (!file.ends_with(".flat.bin")) continue;
    const std::string bytes = read(cases_folder() / file);
    INFO(file << ": " << one.at("why").get<std::string>());
    FrameHead head;
    ClientMessage parsed = FrameBody{};
    if (auto malformed = parse_flat(as_bytes(bytes), head)) parsed = std::move(*malformed);
    CHECK(verdict(parsed, head, as_bytes(bytes)) == expected(one));
    CHECK(test::judge_flat(as_bytes(bytes), bytes.size()).empty());
    ++judged;
    if (!one.at("accept").get<bool>()) continue;
    if (head.kind == PayloadKind::kOpaque) CHECK(head.data_bytes == 5);
    const auto& points = one.at("xyz");
    CHECK(head.points() == points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      REQUIRE(head.cloud.fields.at(0).name == "xyz");
      std::array<float, 3> point{};
      std::memcpy(point.data(),
                  bytes.data() + head.data_offset + head.cloud.fields[0].offset + i * sizeof point,
                  sizeof point);
      CHECK(points[i].get<std::array<float, 3>>() == point);
    }
  }
  CHECK(judged == 12);
}

}  // namespace simbridge::wire
