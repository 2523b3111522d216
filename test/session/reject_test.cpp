// Every Reject code but UNAUTHORIZED, and the order of the checks (protocol.md §3, Validation).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

/// A session with channel 1 advertised in epoch 7 after an epoch 6, and one frame on it.
struct Bench {
  Bench() {
    sensor.advertise(1, "a", 6);
    sensor.advertise(1, "a", 7);
    sensor.frame(1, 1);
    sensor.pump();
    sensor.received.clear();
  }
  /// The code of the Reject that the message is answered with; 0 = none. Whole and in pieces the
  /// same.
  int code(const v1::ClientMessage& message) {
    const std::string bytes = message.SerializeAsString();
    sensor.send_bytes(bytes);
    const auto whole = sensor.rejects();
    sensor.send_pieces(bytes, {bytes.size() / 3, bytes.size() * 2 / 3}, true);
    const auto pieces = sensor.rejects();
    CHECK(whole.size() <= 1);
    if (whole.empty()) return 0;  // the second time it is a duplicate
    last = whole[0];
    if (uses_number(last.code()) && last.code() != v1::REJECT_LIMIT) {
      CHECK(pieces.empty());  // a duplicate now; only LIMIT is judged before that
    } else {
      REQUIRE(pieces.size() == 1);
      CHECK(pieces[0].SerializeAsString() == last.SerializeAsString());
    }
    CHECK_FALSE(last.detail().empty());
    return last.code();
  }
  static bool uses_number(int code) {
    return code != v1::REJECT_MALFORMED && code != v1::REJECT_UNKNOWN_CHANNEL &&
           code != v1::REJECT_SEQUENCE && code != v1::REJECT_EPOCH;
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
  v1::Reject last;
};

v1::ClientMessage cloud(std::uint64_t sequence, const std::function<void(v1::Frame&)>& change) {
  auto message = cloud_frame(1, sequence, 10);
  change(*message.mutable_frame());
  return message;
}

void make_bad(v1::Frame& frame, const std::string& what) {
  auto& points = *frame.mutable_cloud();
  if (what == "hops") frame.set_hops(8);
  if (what == "frame_id") frame.set_frame_id(std::string(257, 'f'));
  if (what == "fields") {
    while (points.fields_size() <= 256) points.add_fields()->set_name("_");
  }
  if (what == "field_name") points.mutable_fields(3)->set_name(std::string(256, 'n'));
  if (what == "channel") frame.set_channel(9);
  if (what == "sequence") frame.set_sequence(0);
  if (what == "other_epoch") frame.set_epoch(5);
  if (what == "past_epoch") frame.set_epoch(6);
  if (what == "duplicate") frame.set_sequence(1);
  if (what == "payload") frame.clear_payload();
  if (what == "points") {
    points.set_width(1 << 23);
    points.set_row_step(0);
  }
  if (what == "raw_size") {
    points.set_codec(v1::CODEC_LZ4);
    points.set_raw_size(1ULL << 40);
  }
  if (what == "codec") points.set_codec(static_cast<v1::Codec>(77));
  if (what == "layout") points.set_row_step(3), points.set_height(2), points.set_width(5);
  if (what == "field") points.mutable_fields(2)->set_offset(14);
  if (what == "data") points.set_data("short");
  if (what == "checksum") frame.set_crc32c(12345);
}

}  // namespace

TEST_CASE("every fault of a frame has its code, and tells channel and sequence",
          "[session][reject]") {
  Bench bench;
  const std::vector<std::pair<std::string, int>> faults{
      {"hops", v1::REJECT_LIMIT},
      {"frame_id", v1::REJECT_LIMIT},
      {"fields", v1::REJECT_LIMIT},
      {"field_name", v1::REJECT_LIMIT},
      {"channel", v1::REJECT_UNKNOWN_CHANNEL},
      {"sequence", v1::REJECT_SEQUENCE},
      {"other_epoch", v1::REJECT_SEQUENCE},
      {"past_epoch", v1::REJECT_EPOCH},
      {"payload", v1::REJECT_UNSUPPORTED},
      {"points", v1::REJECT_TOO_LARGE},
      {"raw_size", v1::REJECT_TOO_LARGE},
      {"codec", v1::REJECT_CODEC},
      {"layout", v1::REJECT_LAYOUT},
      {"field", v1::REJECT_FIELD},
      {"data", v1::REJECT_DATA_TOO_SHORT},
      {"checksum", v1::REJECT_CHECKSUM},
  };
  std::uint64_t sequence = 1;
  for (const auto& row : faults) {
    const std::string& fault = row.first;
    INFO(fault);
    const auto message = cloud(++sequence, [&](v1::Frame& frame) { make_bad(frame, fault); });
    CHECK(bench.code(message) == row.second);
    CHECK(bench.last.channel() == message.frame().channel());
    CHECK(bench.last.sequence() == message.frame().sequence());
    CHECK(bench.last.subscription() == 0);
    CHECK_FALSE(bench.last.retry());
  }
  CHECK_FALSE(bench.sensor.closed);
  bench.bridge.check_books();
}

TEST_CASE("of two faults the earlier check gives the answer", "[session][reject]") {
  const std::vector<std::pair<std::string, int>> order{
      {"hops", v1::REJECT_LIMIT},
      {"channel", v1::REJECT_UNKNOWN_CHANNEL},
      {"other_epoch", v1::REJECT_SEQUENCE},
      {"duplicate", 0},
      {"payload", v1::REJECT_UNSUPPORTED},
      {"raw_size", v1::REJECT_TOO_LARGE},
      {"codec", v1::REJECT_CODEC},
      {"layout", v1::REJECT_LAYOUT},
      {"field", v1::REJECT_FIELD},
      {"data", v1::REJECT_DATA_TOO_SHORT},
      {"checksum", v1::REJECT_CHECKSUM},
  };
  for (std::size_t early = 0; early < order.size(); ++early) {
    for (std::size_t late = early + 1; late < order.size(); ++late) {
      if (order[early].first == "payload") continue;  // there is nothing behind it
      if (order[early].first == "raw_size" && order[late].first == "codec") continue;  // one field
      INFO(order[early].first << " before " << order[late].first);
      Bench bench;
      const auto message = cloud(2, [&](v1::Frame& frame) {
        make_bad(frame, order[late].first);
        make_bad(frame, order[early].first);
        if (order[late].first == "payload") frame.clear_payload();
      });
      CHECK(bench.code(message) == order[early].second);
    }
  }
}

TEST_CASE("a cloud without points is accepted whatever its fields, steps and layout",
          "[session][reject]") {
  Bench bench;
  CHECK(bench.code(cloud(2, [](v1::Frame& frame) {
    frame.mutable_cloud()->set_width(0);
    frame.mutable_cloud()->clear_data();
    make_bad(frame, "field");
  })) == 0);
  CHECK(bench.bridge.channel("a").published == 2);
  CHECK(bench.code(cloud(3, [](v1::Frame& frame) {
    frame.mutable_cloud()->set_width(0);
    make_bad(frame, "codec");
  })) == v1::REJECT_CODEC);
}

TEST_CASE("a depth image with the wrong encoding or lens is refused as FIELD",
          "[session][reject]") {
  Bench bench;
  v1::ClientMessage message;
  message.mutable_frame()->set_channel(1);
  message.mutable_frame()->set_sequence(2);
  auto* depth = message.mutable_frame()->mutable_depth();
  depth->set_width(2);
  depth->set_height(2);
  depth->set_encoding("8UC1");
  depth->set_fx(1);
  depth->set_fy(1);
  depth->set_data(std::string(8, 'd'));
  CHECK(bench.code(message) == v1::REJECT_FIELD);
  depth->set_encoding("16UC1");
  depth->set_fx(0);
  message.mutable_frame()->set_sequence(3);
  CHECK(bench.code(message) == v1::REJECT_FIELD);
  depth->set_fx(1);
  depth->set_data("1234567");
  message.mutable_frame()->set_sequence(4);
  CHECK(bench.code(message) == v1::REJECT_DATA_TOO_SHORT);
}

TEST_CASE("a frame above max_frame_bytes is refused as TOO_LARGE before any memory is taken",
          "[session][reject]") {
  Bench bench;
  const auto limit = bench.bridge.store->max_frame_bytes().count;
  CHECK(bench.code(opaque_frame(1, 2, std::string(limit + 1, 'x'))) == v1::REJECT_TOO_LARGE);
  CHECK(bench.bridge.store->stats().ingest_held.count == 0);
  CHECK(bench.code(opaque_frame(1, 3, std::string(limit, 'x'))) == 0);
  bench.bridge.store->set_budget(bench.bridge.store->budget() / 2);  // computed anew at a resize
  CHECK(bench.code(opaque_frame(1, 4, std::string(limit, 'x'))) == v1::REJECT_TOO_LARGE);
}

TEST_CASE("no room within 250 ms is NO_MEMORY, final where the oldest gives way",
          "[session][reject]") {
  TestBridge bridge;
  const auto largest = bridge.store->max_frame_bytes().count;
  std::vector<std::unique_ptr<FakePeer>> holders;  // two unfinished frames fill the ingest share
  const std::string whole = opaque_frame(1, 1, std::string(largest, 'h')).SerializeAsString();
  for (int i = 0; i < 2; ++i) {
    holders.push_back(std::make_unique<FakePeer>(bridge));
    holders.back()->advertise(1, "holder" + std::to_string(i));
    holders.back()->begin(whole.size());
    holders.back()->chunk(std::string_view(whole).substr(0, 1000));
  }
  FakePeer drop(bridge);
  drop.advertise(1, "drop");
  FakePeer wait(bridge);
  wait.advertise(1, "wait", 7, v1::POLICY_BACKPRESSURE);
  for (FakePeer* peer : {&drop, &wait}) {
    CHECK(peer->frame(1, 1) == session::Flow::kPause);
    peer->frame(1, 2);  // behind it: it waits too
  }
  for (FakePeer* peer : {&drop, &wait}) {
    peer->pump();
    CHECK(peer->rejects().empty());
  }
  drop.tick(milliseconds(249));
  wait.pump();
  CHECK(drop.rejects().empty());
  drop.tick(milliseconds(1));
  wait.pump();
  auto rejects = drop.rejects();
  REQUIRE(rejects.size() == 1);  // the next one waits in its turn
  CHECK(rejects[0].code() == v1::REJECT_NO_MEMORY);
  CHECK(rejects[0].sequence() == 1);
  CHECK_FALSE(rejects[0].retry());
  rejects = wait.rejects();
  REQUIRE(rejects.size() == 2);  // go back n: the next one has the same answer at once
  for (const auto& reject : rejects) {
    CHECK(reject.code() == v1::REJECT_NO_MEMORY);
    CHECK(reject.retry());
  }
  holders.clear();  // the second one of `drop` gets its room now
  drop.pump();
  CHECK(drop.rejects().empty());
  CHECK(bridge.channel("drop").published == 1);
  wait.frame(1, 2);
  rejects = wait.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].retry());
  wait.frame(1, 1);
  wait.frame(1, 2);
  CHECK(wait.rejects().empty());
  CHECK(bridge.channel("wait").published == 2);
  drop.tick(milliseconds(100));
  const auto ack = drop.next_ack();
  REQUIRE(ack);
  CHECK(ack->sequence() == 2);
  bridge.check_books();
}

TEST_CASE("room that comes while a frame waits is taken, and nothing is refused",
          "[session][reject]") {
  TestBridge bridge;
  const auto largest = bridge.store->max_frame_bytes().count;
  FakePeer holder(bridge);
  holder.advertise(1, "holder");
  FakePeer second(bridge);
  second.advertise(1, "second");
  const std::string whole = opaque_frame(1, 1, std::string(largest, 'h')).SerializeAsString();
  for (FakePeer* peer : {&holder, &second}) {
    peer->begin(whole.size());
    peer->chunk(std::string_view(whole).substr(0, 1000));
  }
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  const auto large = cloud_frame(1, 1, 20'000).SerializeAsString();
  sensor.begin(large.size());
  auto taken = sensor.chunk(large);
  CHECK(taken.flow == session::Flow::kPause);
  CHECK(taken.bytes < 300);  // the head, and none of the data
  sensor.tick(milliseconds(200));
  holder.disconnect();
  sensor.pump();
  std::string_view rest = std::string_view(large).substr(taken.bytes);
  taken = sensor.chunk(rest);
  CHECK(taken.flow == session::Flow::kContinue);
  CHECK(taken.bytes == rest.size());
  sensor.session().end_message();
  CHECK(bridge.channel("a").published == 1);
  CHECK(sensor.rejects().empty());
}

TEST_CASE("a drain refuses Advertise and Hello as DRAINING", "[session][reject]") {
  TestBridge bridge;
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a");
  FakePeer early(bridge, false);
  bridge.hub->drain(milliseconds(10'000), milliseconds(1000), "test");
  consumer.advertise(1, "b");
  auto reject = consumer.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_DRAINING);
  early.send(hello_message());
  reject = early.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_DRAINING);
  REQUIRE(early.closed);
  CHECK(early.closed->kind == session::CloseKind::kGoingAway);
  const auto refused = bridge.hub->admit();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().cause == session::Refusal::Cause::kDraining);
}
