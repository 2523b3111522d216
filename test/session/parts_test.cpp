// Frames in parts, both ways, and reservations that do not fill (protocol.md §3, FramePart and
// Memory at the door).
#include "session/fake_peer.h"

#include <catch2/catch.hpp>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

struct Bench {
  Bench() {
    sensor.advertise(1, "a");
    consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
    sensor.pump();
    sensor.received.clear();
  }
  std::vector<v1::ClientMessage> next(std::size_t points = 1000, std::size_t piece = 5000) {
    return parts_of(
        cloud_frame(1, ++sequence, static_cast<std::uint32_t>(points)).frame(), ++transfer, piece);
  }
  void must_refuse(std::uint64_t number) {
    const auto rejects = sensor.rejects();
    REQUIRE(rejects.size() == 1);
    CHECK(rejects[0].code() == v1::REJECT_PART);
    CHECK(rejects[0].channel() == 1);
    CHECK(rejects[0].sequence() == number);
    CHECK_FALSE(rejects[0].retry());
    CHECK(bridge.store->stats().ingest_held.count == 0);
  }
  /// A whole transfer passes, and arrives as sent.
  void must_pass() {
    const auto parts = next();
    for (const auto& part : parts) sensor.send(part);
    CHECK(sensor.rejects().empty());
    const auto got = consumer.next_frame();
    REQUIRE(got);
    CHECK(got->sequence() == sequence);
    CHECK(got->cloud().data() == pattern_bytes(sequence, 16'000));
    bridge.check_books();
  }
  TestBridge bridge;
  FakePeer sensor{bridge};
  FakePeer consumer{bridge};
  std::uint64_t sequence = 0, transfer = 0;
};

}  // namespace

TEST_CASE("a frame in parts is the same frame, whole messages may come between",
          "[session][parts]") {
  Bench bench;
  bench.must_pass();
  for (const bool in_pieces : {false, true}) {
    for (const std::size_t piece : {1'000U, 15'999U, 16'000U, 16'001U}) {
      const auto parts = bench.next(1000, piece);
      bench.sensor.advertise(2, "between");
      for (const auto& part : parts) {
        const std::string bytes = part.SerializeAsString();
        if (in_pieces) {
          bench.sensor.send_pieces(bytes, {1, bytes.size() / 2}, true);
        } else {
          bench.sensor.send_bytes(bytes);
        }
        bench.sensor.ping(1);
      }
      CHECK(bench.sensor.rejects().empty());
      const auto got = bench.consumer.next_frame();
      REQUIRE(got);
      CHECK(got->cloud().data() == pattern_bytes(bench.sequence, 16'000));
    }
  }
  CHECK(bench.sensor.direct_bytes > 0);  // large parts go straight into the arena
  const auto books = bench.bridge.channel("a");
  CHECK(books.received == bench.sequence);
  bench.bridge.check_books();
}

TEST_CASE("a frame in parts counts as one message, at its last part", "[session][parts]") {
  Bench bench;
  const auto parts = bench.next();
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) bench.sensor.send(parts[i]);
  CHECK(bench.bridge.channel("a").received == 0);
  bench.sensor.send(parts.back());
  CHECK(bench.bridge.channel("a").received == 1);
  // Parts do not break a row of messages that do not parse.
  const auto more = bench.next();
  for (int i = 0; i < 15; ++i) bench.sensor.send_bytes("\x0a\x7f");
  bench.sensor.send(more[0]);
  CHECK_FALSE(bench.sensor.closed);
  bench.sensor.send_bytes("\x0a\x7f");
  CHECK(bench.sensor.closed);
}

TEST_CASE("holes, repeats and wrong sums are refused as PART, once a transfer",
          "[session][parts]") {
  Bench bench;
  SECTION("a hole") {
    const auto parts = bench.next();
    bench.sensor.send(parts[0]);
    bench.sensor.send(parts[2]);
    bench.sensor.send(parts[3]);
    bench.must_refuse(bench.sequence);
  }
  SECTION("a repeat") {
    const auto parts = bench.next();
    bench.sensor.send(parts[0]);
    bench.sensor.send(parts[1]);
    bench.sensor.send(parts[1]);
    bench.sensor.send(parts[2]);
    bench.must_refuse(bench.sequence);
  }
  SECTION("a repeated beginning") {
    const auto parts = bench.next();
    bench.sensor.send(parts[0]);
    bench.sensor.send(parts[0]);
    bench.sensor.send(parts[1]);
    bench.must_refuse(bench.sequence);
  }
  SECTION("a beginning that is missing") {
    const auto parts = bench.next();
    bench.sensor.send(parts[1]);
    bench.sensor.send(parts[2]);
    bench.must_refuse(bench.sequence);
  }
  SECTION("fewer bytes than total_bytes") {
    auto parts = bench.next();
    parts.back().mutable_part()->mutable_data()->pop_back();
    for (const auto& part : parts) bench.sensor.send(part);
    bench.must_refuse(bench.sequence);
  }
  SECTION("more bytes than total_bytes") {
    auto parts = bench.next();
    parts.back().mutable_part()->mutable_data()->push_back('x');
    for (const auto& part : parts) bench.sensor.send(part);
    bench.must_refuse(bench.sequence);
  }
  SECTION("a count that changes") {
    auto parts = bench.next();
    parts[1].mutable_part()->set_count(77);
    for (const auto& part : parts) bench.sensor.send(part);
    bench.must_refuse(bench.sequence);
  }
  SECTION("an index at or above the count") {
    auto parts = bench.next();
    parts[0].mutable_part()->set_count(0);
    bench.sensor.send(parts[0]);
    bench.must_refuse(bench.sequence);
  }
  SECTION("a transfer number that does not rise by one") {
    bench.transfer += 1;
    const auto parts = bench.next();
    for (const auto& part : parts) bench.sensor.send(part);
    bench.must_refuse(bench.sequence);
  }
  bench.must_pass();  // the next transfer is a new one
  const auto gaps = bench.consumer.gaps();
  CHECK(gaps.empty());  // nothing had been promised before the first frame
  bench.bridge.check_books();
}

TEST_CASE("a refused transfer uses its number up and becomes a Gap REJECTED", "[session][parts]") {
  Bench bench;
  bench.must_pass();
  const auto parts = bench.next();
  bench.sensor.send(parts[0]);
  bench.sensor.send(parts[2]);
  bench.must_refuse(bench.sequence);
  bench.sensor.tick(milliseconds(100));
  const auto acks = bench.sensor.acks();
  REQUIRE_FALSE(acks.empty());
  CHECK(acks.back().sequence() == bench.sequence);
  bench.must_pass();
  const auto gaps = bench.consumer.gaps();
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].reason() == v1::GAP_REJECTED);
  CHECK(gaps[0].first() == bench.sequence - 1);
}

TEST_CASE("ten seconds of silence drop a transfer, a part that comes later is refused",
          "[session][parts]") {
  Bench bench;
  const auto parts = bench.next(50'000, 100'000);
  bench.sensor.send(parts[0]);
  CHECK(bench.bridge.store->stats().ingest_held.count >= 800'000);
  for (std::size_t i = 1; i <= 3; ++i) {  // no silence: a part every two seconds, fast enough
    bench.sensor.tick(milliseconds(1'400));
    bench.sensor.send(parts[i]);
  }
  CHECK(bench.bridge.store->stats().ingest_held.count >= 800'000);
  bench.sensor.tick(milliseconds(10'000));
  CHECK(bench.bridge.store->stats().ingest_held.count == 0);
  CHECK(bench.sensor.rejects().empty());
  CHECK(bench.bridge.channel("a").received == 0);
  bench.sensor.send(parts[4]);
  bench.must_refuse(bench.sequence);
  bench.sensor.send(parts[5]);
  CHECK(bench.sensor.rejects().empty());
  bench.must_pass();
}

TEST_CASE("a part that takes longer than ten seconds to come is no silence", "[session][parts]") {
  Bench bench;
  const auto parts = bench.next(400'000, 6'400'000);
  bench.sensor.send(parts[0]);
  const std::string bytes = parts[1].SerializeAsString();
  bench.sensor.begin(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 200'000) {
    bench.sensor.chunk(std::string_view(bytes).substr(at, 200'000));
    bench.sensor.tick(milliseconds(500));
  }
  bench.sensor.session().end_message();
  CHECK(bench.sensor.rejects().empty());
  CHECK(bench.bridge.channel("a").published == 1);
}

TEST_CASE("a new transfer drops the one before it, without using its number up",
          "[session][parts]") {
  Bench bench;
  auto parts = bench.next();
  bench.sensor.send(parts[0]);
  bench.sensor.send(parts[1]);
  --bench.sequence;  // the same frame again, in a new transfer
  bench.must_pass();
  CHECK(bench.bridge.channel("a").received == 1);
  bench.sensor.send(parts[2]);  // a straggler of the first
  const auto rejects = bench.sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_PART);
  bench.must_pass();
  CHECK(bench.consumer.gaps().empty());
}

TEST_CASE("a message that ends inside a part's data does not parse, and ends the transfer",
          "[session][parts]") {
  Bench bench;
  const auto parts = bench.next();
  bench.sensor.send(parts[0]);
  const std::string bytes = parts[1].SerializeAsString();
  bench.sensor.send_pieces(bytes.substr(0, bytes.size() - 10), {50, 500}, false);
  auto rejects = bench.sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_MALFORMED);
  bench.sensor.send(parts[2]);
  bench.must_refuse(bench.sequence);
  bench.must_pass();
}

TEST_CASE("what a transfer holds is judged like a frame that comes whole", "[session][parts]") {
  Bench bench;
  auto message = cloud_frame(1, 1, 1000);
  message.mutable_frame()->mutable_cloud()->set_row_step(3);
  message.mutable_frame()->mutable_cloud()->set_height(2);
  message.mutable_frame()->mutable_cloud()->set_width(500);
  for (const auto& part : parts_of(message.frame(), 1, 5000)) bench.sensor.send(part);
  auto rejects = bench.sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_LAYOUT);
  message = cloud_frame(1, 2, 1000);
  message.mutable_frame()->set_crc32c(1);
  for (const auto& part : parts_of(message.frame(), 2, 5000)) bench.sensor.send(part);
  rejects = bench.sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_CHECKSUM);
  // Bytes that are no frame.
  v1::ClientMessage part;
  part.mutable_part()->set_transfer(3);
  part.mutable_part()->set_count(1);
  part.mutable_part()->set_total_bytes(5);
  part.mutable_part()->set_data("\x0a\x7fxxx");
  bench.sensor.send(part);
  rejects = bench.sensor.rejects();
  REQUIRE(rejects.size() == 1);
  CHECK(rejects[0].code() == v1::REJECT_MALFORMED);
  bench.sequence = 3 - 1;
  bench.transfer = 3;
  bench.must_pass();
}

TEST_CASE(
    "a takeover during a transfer refuses the old session's frame, and publishes nothing of it",
    "[session][parts]") {
  TestBridge bridge;
  const std::string key(16, 'k');
  FakePeer old_one(bridge, true, key);
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a");
  old_one.advertise(1, "a", 7);
  const auto parts = parts_of(cloud_frame(1, 1, 1000).frame(), 1, 5000);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) old_one.send(parts[i]);
  FakePeer new_one(bridge, true, key);
  new_one.advertise(1, "a", 7);
  old_one.send(parts.back());
  const auto reject = old_one.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_UNKNOWN_CHANNEL);
  CHECK(bridge.channel("a").received == 0);
  new_one.frame(1, 1);
  CHECK(consumer.frames().size() == 1);
  bridge.check_books();
}

TEST_CASE("a new epoch during a transfer refuses the old epoch's frame", "[session][parts]") {
  Bench bench;
  auto message = cloud_frame(1, 1, 1000);
  const auto parts = parts_of(message.frame(), 1, 5000);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) bench.sensor.send(parts[i]);
  bench.sensor.advertise(1, "a", 8);
  bench.sensor.pump();
  bench.sensor.received.clear();
  bench.sensor.send(parts.back());
  const auto reject = bench.sensor.next_reject();
  REQUIRE(reject);
  CHECK(reject->code() == v1::REJECT_EPOCH);
  CHECK(bench.bridge.channel("a").published == 0);
  bench.transfer = 1;
  bench.must_pass();  // sequence 1 of the new epoch
}

TEST_CASE("a reservation that fills slower than 64 KiB/s over 5 s is taken back",
          "[session][parts]") {
  Bench bench;
  const auto bytes = cloud_frame(1, 1, 100'000).SerializeAsString();
  SECTION("too slow") {
    bench.sensor.begin(bytes.size());
    std::size_t at = 0;
    for (int i = 0; i < 5; ++i) {
      bench.sensor.chunk(std::string_view(bytes).substr(at, 65'500));
      at += 65'500;
      CHECK(bench.bridge.store->stats().ingest_held.count > 0);
      bench.sensor.tick(milliseconds(1000));
    }
    CHECK(bench.bridge.store->stats().ingest_held.count == 0);
    CHECK(bench.sensor.rejects().empty());  // it is answered at its end
    bench.sensor.chunk(std::string_view(bytes).substr(at));
    bench.sensor.session().end_message();
    const auto reject = bench.sensor.next_reject();
    REQUIRE(reject);
    CHECK(reject->code() == v1::REJECT_NO_MEMORY);
    CHECK_FALSE(reject->retry());
  }
  SECTION("just fast enough") {
    bench.sensor.begin(bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += 65'700) {
      if (at > 0) bench.sensor.tick(milliseconds(1000));
      bench.sensor.chunk(std::string_view(bytes).substr(at, 65'700));
    }
    bench.sensor.session().end_message();
    CHECK(bench.sensor.rejects().empty());
    CHECK(bench.bridge.channel("a").published == 1);
  }
  SECTION("full, but its message never ends") {
    bench.sensor.begin(std::nullopt);
    bench.sensor.chunk(bytes);
    CHECK(bench.bridge.store->stats().ingest_held.count > 0);
    bench.sensor.tick(milliseconds(5'000));
    bench.sensor.tick(milliseconds(5'000));
    CHECK(bench.bridge.store->stats().ingest_held.count == 0);
  }
  SECTION("parts that trickle") {
    const auto parts = bench.next(100'000, 1'000);
    for (std::size_t i = 0; i < 6; ++i) {
      bench.sensor.send(parts[i]);
      bench.sensor.tick(milliseconds(1'000));
    }
    CHECK(bench.bridge.store->stats().ingest_held.count == 0);
  }
}

TEST_CASE("a frame above the peer's limit goes out in parts that make it whole again",
          "[session][parts]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge, true, {}, 4096);
  sensor.advertise(1, "a");
  sensor.advertise(2, "small");
  consumer.subscribe(1, "**", [](auto& s) { s.set_queue_frames(100); });
  for (std::uint64_t transfer = 1; transfer <= 3; ++transfer) {
    const auto sent = cloud_frame(1, transfer, 1000);
    sensor.send(sent);
    sensor.frame(2, transfer, 50);
    consumer.pump();
    std::string whole;
    std::uint32_t index = 0;
    std::size_t small = 0;
    for (const auto& message : consumer.received) {
      CHECK(message.ByteSizeLong() <= 4096);
      if (message.has_frame()) ++small;
      if (!message.has_part()) continue;
      const auto& part = message.part();
      CHECK(part.transfer() == transfer);
      CHECK(part.index() == index++);
      CHECK(part.sequence() == transfer);
      if (part.index() == 0) CHECK(part.data().size() < 500);
      whole += part.data();
      CHECK(part.total_bytes() ==
            sent.frame().cloud().data().size() +
                (part.index() == 0 ? whole.size()
                                   : part.total_bytes() - sent.frame().cloud().data().size()));
      if (part.index() + 1 == part.count()) CHECK(whole.size() == part.total_bytes());
    }
    CHECK(small == 1);
    v1::Frame got;
    REQUIRE(got.ParseFromString(whole));
    CHECK(got.cloud().SerializeAsString() == sent.frame().cloud().SerializeAsString());
    CHECK(got.subscription() == 1);
    consumer.received.clear();
  }
  bridge.check_books();
}

TEST_CASE("control messages go between the parts of a frame", "[session][parts]") {
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
  consumer.ping(5);
  consumer.finish_batch();
  REQUIRE(consumer.take_batch());
  CHECK(consumer.received.back().has_pong());
  consumer.finish_batch();
  consumer.reading = true;
  consumer.pump();
  CHECK(consumer.received.back().has_part());
  bridge.check_books();
}

TEST_CASE("a frame whose head alone is above the peer's limit becomes a Gap TOO_LARGE",
          "[session][parts]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  FakePeer consumer(bridge, true, {}, 2000);
  sensor.advertise(1, "a");
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(100); });
  sensor.frame(1, 1);
  CHECK(consumer.next_frame());
  for (std::uint64_t i = 2; i <= 4; ++i) {
    auto message = cloud_frame(1, i, 10);
    while (message.frame().cloud().fields_size() < 200) {
      auto* field = message.mutable_frame()->mutable_cloud()->add_fields();
      field->set_name("padding");
      field->set_type(v1::TYPE_UINT8);
    }
    sensor.send(message);
  }
  CHECK(sensor.rejects().empty());
  sensor.frame(1, 5);
  const auto gaps = consumer.gaps();
  std::uint64_t frames = 0;
  for (const auto& gap : gaps) {
    CHECK(gap.reason() == v1::GAP_TOO_LARGE);
    frames += gap.frames();
  }
  CHECK(frames == 3);
  CHECK(consumer.next_frame());
  bridge.check_books();
}
