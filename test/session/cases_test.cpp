// Every message of test/protocol/cases through a real session: its verdict, and what was accepted
// arrives as sent.
#include "session/fake_peer.h"
#include "support/source_dir.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Whole where there are no cuts.
void judge(const std::string& bytes,
           const nlohmann::json& expected,
           const std::vector<std::size_t>& cuts,
           bool total_known,
           bool direct) {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "case", 7);
  sensor.pump();
  sensor.received.clear();
  FakePeer consumer(bridge);
  consumer.subscribe(9, "case");
  if (cuts.empty()) {
    sensor.send_bytes(bytes);
  } else {
    sensor.send_pieces(bytes, cuts, total_known, direct);
  }
  const auto rejects = sensor.rejects();
  auto got = consumer.next_frame();
  CHECK_FALSE(sensor.closed);
  CHECK(bridge.store->stats().ingest_held.count == 0);
  if (!expected.at("accept")) {
    REQUIRE(rejects.size() == 1);
    CHECK(v1::RejectCode_Name(rejects[0].code()) == expected.at("reject").get<std::string>());
    CHECK_FALSE(got);
    bridge.check_books();
    return;
  }
  CHECK(rejects.empty());
  REQUIRE(got);
  v1::ClientMessage sent;
  REQUIRE(sent.ParseFromString(bytes));
  sent.DiscardUnknownFields();
  CHECK(got->epoch() == 7);
  CHECK(got->subscription() == 9);
  got->set_channel(sent.frame().channel());
  got->set_epoch(sent.frame().epoch());
  got->clear_subscription();
  got->clear_result();
  got->set_received_ns(sent.frame().received_ns());
  got->set_forwarded_ns(sent.frame().forwarded_ns());
  CHECK(got->SerializeAsString() == sent.frame().SerializeAsString());
  bridge.check_books();
}

}  // namespace

TEST_CASE(
    "every message of the protocol's cases gets its verdict from a session, whole and in "
    "pieces",
    "[session][cases]") {
  const auto folder = source_dir() / "test/protocol/cases";
  std::size_t judged = 0;
  for (const auto& one : nlohmann::json::parse(read(folder / "cases.json"))) {
    const std::string file = one.at("file");
    if (file.ends_with(".flat.bin")) continue;  // the flat form belongs to another road
    const std::string bytes = read(folder / file);
    INFO(file << ": " << one.at("why").get<std::string>());
    judge(bytes, one, {}, true, true);
    ++judged;
    if (bytes.empty()) {
      judge(bytes, one, {0}, true, true);
      continue;
    }
    std::vector<std::vector<std::size_t>> cuts{{bytes.size()}, {1, 2, 3}};
    for (const std::size_t parts : {2U, 3U, 7U}) {
      std::vector<std::size_t> even;
      for (std::size_t i = 1; i < parts; ++i) even.push_back(bytes.size() * i / parts);
      cuts.push_back(even);
    }
    std::vector<std::size_t> each;
    for (std::size_t i = 1; i < bytes.size(); ++i) each.push_back(i);
    cuts.push_back(each);
    for (auto& cut : cuts) {
      std::erase_if(cut, [&](std::size_t at) { return at > bytes.size(); });
      for (const bool known : {true, false}) {
        for (const bool direct : {true, false}) {
          INFO(cut.size() << " cuts, length known " << known << ", direct " << direct);
          judge(bytes, one, cut, known, direct);
        }
      }
    }
  }
  CHECK(judged >= 70);
}
