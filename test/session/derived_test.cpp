// What a quality makes of a channel's frames: the right points, each made once for all, at the
// place where the reader stands; and what could not be made is told.
#include "session/fake_peer.h"
#include "simbridge/cloud/decimator.h"
#include "support/source_dir.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace simbridge;        // NOLINT(google-build-using-namespace): a test
using namespace simbridge::test;  // NOLINT(google-build-using-namespace): a test

namespace {

using Point = std::array<float, 3>;

/// points in a row along x, 1 cm apart, from the sequence's number on.
std::vector<Point> row_of(std::uint64_t sequence, std::size_t points) {
  std::vector<Point> row(points);
  for (std::size_t i = 0; i < points; ++i)
    row[i] = {static_cast<float>(sequence) + 0.01F * static_cast<float>(i), 1.0F, 2.0F};
  return row;
}

v1::ClientMessage cloud_of(std::uint32_t channel,
                           std::uint64_t sequence,
                           const std::vector<Point>& points) {
  v1::ClientMessage message;
  v1::Frame& frame = *message.mutable_frame();
  frame.set_channel(channel);
  frame.set_sequence(sequence);
  frame.set_frame_id("lidar");
  v1::PointCloud& cloud = *frame.mutable_cloud();
  cloud.set_height(1);
  cloud.set_width(static_cast<std::uint32_t>(points.size()));
  cloud.set_point_step(sizeof(Point));
  cloud.set_row_step(static_cast<std::uint32_t>(points.size() * sizeof(Point)));
  for (const auto& [name, offset] : {std::pair{"x", 0U}, {"y", 4U}, {"z", 8U}}) {
    v1::Field& field = *cloud.add_fields();
    field.set_name(name);
    field.set_offset(offset);
    field.set_type(v1::TYPE_FLOAT32);
    field.set_count(1);
  }
  cloud.mutable_data()->assign(
      std::as_const(points).empty() ? "" : reinterpret_cast<const char*>(points.data()),
      points.size() * sizeof(Point));
  return message;
}

std::vector<Point> points_of(const v1::Frame& frame) {
  const std::string& data = frame.cloud().data();
  std::vector<Point> points(data.size() / sizeof(Point));
  if (!points.empty()) std::memcpy(points.data(), data.data(), points.size() * sizeof(Point));
  return points;
}

auto leaf(double metres) {
  return [metres](v1::Subscribe& s) {
    s.mutable_quality()->set_leaf(metres);
    s.mutable_quality()->set_output(v1::OUTPUT_XYZ);
    s.set_queue_frames(1000);
  };
}

std::vector<std::uint64_t> sequences(const std::vector<v1::Frame>& frames) {
  std::vector<std::uint64_t> numbers;
  for (const auto& frame : frames) numbers.push_back(frame.sequence());
  return numbers;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the points of every accepted case arrive as a consumer of OUTPUT_XYZ is promised them",
          "[session][derived][cases]") {
  const auto folder = source_dir() / "test/protocol/cases";
  int judged = 0;
  for (const auto& one : nlohmann::json::parse(read(folder / "cases.json"))) {
    const std::string file = one.at("file");
    if (!one.at("accept") || file.ends_with(".flat.bin")) continue;
    if (file.starts_with("47-")) continue;  // depth images become clouds later
    INFO(file << ": " << one.at("why").get<std::string>());
    TestBridge bridge;
    FakePeer sensor(bridge);
    sensor.advertise(1, "case", 7);
    FakePeer consumer(bridge);
    consumer.subscribe(9, "case", [](auto& s) { s.mutable_quality()->set_output(v1::OUTPUT_XYZ); });
    sensor.send_bytes(read(folder / file));
    const auto got = consumer.next_frame();
    ++judged;
    const nlohmann::json& expected = one.at("xyz");
    if (expected.is_string()) {
      CHECK_FALSE(got);
      const auto gap = consumer.next_gap();
      REQUIRE(gap);
      CHECK(v1::GapReason_Name(gap->reason()) == expected.get<std::string>());
      CHECK(gap->frames() == 1);
      bridge.check_books();
      continue;
    }
    REQUIRE(got);
    if (got->has_cloud()) {
      CHECK(got->cloud().layout() == v1::LAYOUT_SOA);
      CHECK_FALSE(got->has_crc32c());
      const auto points = points_of(*got);
      REQUIRE(points.size() == expected.size());
      CHECK(got->result().points_out() == expected.size());
      for (std::size_t i = 0; i < points.size(); ++i) {
        for (std::size_t axis = 0; axis < 3; ++axis) {
          INFO("point " << i << " axis " << axis);
          const float want = expected[i][axis].is_null() ? std::numeric_limits<float>::quiet_NaN()
                                                         : expected[i][axis].get<float>();
          CHECK((points[i][axis] == want || (std::isnan(points[i][axis]) && std::isnan(want))));
        }
      }
    }
    bridge.check_books();
  }
  CHECK(judged > 30);
}

TEST_CASE("consumers with the same wish share one computation, and get the same bytes",
          "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer one(bridge);
  FakePeer two(bridge);
  FakePeer unchanged(bridge);
  one.subscribe(1, "a", leaf(0.2));
  two.subscribe(5, "a", [](auto& s) {
    leaf(0.2)(s);
    s.mutable_quality()->set_sampling(v1::SAMPLING_VOXEL_CENTROID);  // what leaf alone means too
    s.mutable_quality()->set_max_hz(1000);
  });
  unchanged.subscribe(1, "a");
  CHECK(bridge.pipeline->streams() == 1);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    sensor.send(cloud_of(1, i, row_of(i, 1000)));
    bridge.clock.advance(milliseconds(100));
    const auto first = one.next_frame();
    const auto second = two.next_frame();
    const auto raw = unchanged.next_frame();
    REQUIRE(first);
    REQUIRE(second);
    REQUIRE(raw);
    CHECK(first->cloud().data() == second->cloud().data());
    CHECK(first->sequence() == i);
    CHECK(first->frame_id() == "lidar");
    const v1::Result& result = first->result();
    CHECK(result.points_in() == 1000);
    CHECK(result.points_out() == points_of(*first).size());
    CHECK(result.points_out() >= 50);
    CHECK(result.points_out() <= 51);
    CHECK(result.decimator() == "cpu");
    CHECK(result.leaf() == 0.2);
    CHECK(result.min().y() == Approx(1));
    CHECK(result.max().x() > result.min().x());
    CHECK(raw->result().decimator() == "none");
    CHECK(points_of(*raw) == row_of(i, 1000));
  }
  CHECK(bridge.pipeline_metrics.frames.value() == 5);
  CHECK(bridge.pipeline_metrics.points_in.value() == 5000);
  bridge.check_books();
  one.unsubscribe(1);
  two.unsubscribe(5);
  one.pump();
  two.pump();
  CHECK(bridge.pipeline->streams() == 0);
}

TEST_CASE(
    "a quality changes live: every frame comes once, in order, in the form asked for at its turn",
    "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a");
  std::uint64_t next = 1;
  const auto send = [&](int frames) {
    for (int i = 0; i < frames; ++i, ++next) sensor.send(cloud_of(1, next, row_of(next, 100)));
  };
  std::vector<v1::Frame> all;
  const auto collect = [&] {
    for (auto& frame : consumer.frames()) all.push_back(std::move(frame));
  };
  consumer.reading = false;
  send(2);
  consumer.subscribe(1, "a", leaf(0.5));
  consumer.reading = true;
  consumer.pump();
  collect();
  bridge.decimates = false;
  send(2);
  consumer.pump();  // asked for, not made
  bridge.clock.advance(milliseconds(1100));
  consumer.subscribe(1, "a", leaf(5));
  consumer.pump();
  bridge.decimates = true;
  consumer.pump();
  collect();
  consumer.subscribe(1, "a", [](auto& s) { s.set_queue_frames(1000); });
  send(2);
  collect();
  CHECK(sequences(all) == std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6});
  CHECK(all[2].result().leaf() == 5);
  CHECK(all[3].result().leaf() == 5);
  CHECK(all[4].result().decimator() == "none");
  CHECK(bridge.pipeline_metrics.withdrawn.value() >= 1);
  CHECK(consumer.gaps().empty());
  bridge.check_books();
}

TEST_CASE("decimation that falls behind goes on with the newest frame, and delays nobody else",
          "[session][derived]") {
  TestBridge bridge;
  bridge.decimates = false;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer thinned(bridge);
  FakePeer unchanged(bridge);
  thinned.subscribe(1, "a", [](auto& s) {
    leaf(0.2)(s);
    s.set_queue_frames(2);
  });
  unchanged.subscribe(1, "a");
  for (std::uint64_t i = 1; i <= 10; ++i) {
    sensor.send(cloud_of(1, i, row_of(i, 100)));
    thinned.pump();
    const auto raw = unchanged.next_frame();
    REQUIRE(raw);
    CHECK(raw->sequence() == i);
  }
  CHECK(thinned.frames().empty());
  CHECK(bridge.pipeline->waiting() <= 10);
  bridge.decimates = true;
  thinned.pump();
  const auto frames = thinned.frames();
  const auto gaps = thinned.gaps();
  REQUIRE_FALSE(frames.empty());
  CHECK(frames.back().sequence() == 10);
  std::uint64_t lost = 0;
  for (const auto& gap : gaps) {
    CHECK(gap.reason() == v1::GAP_DECIMATION);
    lost += gap.frames();
  }
  CHECK(lost + frames.size() == 10);
  CHECK(bridge.pipeline_metrics.frames.value() == frames.size());  // what was given up was not made
  bridge.check_books();
}

TEST_CASE("a frame that a thread is at is let finish, or a slow quality would never give anything",
          "[session][derived]") {
  TestBridge bridge;
  bridge.decimates = false;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) {
    leaf(0.2)(s);
    s.set_queue_frames(1);
  });
  std::uint64_t next = 1;
  std::vector<std::uint64_t> got;
  for (int round = 0; round < 5; ++round) {
    // The thread takes up the frame that stands first, and is through with it five frames later.
    sensor.send(cloud_of(1, next, row_of(next, 100)));
    ++next;
    consumer.pump();
    REQUIRE(bridge.pipeline->run_one());
    for (int i = 0; i < 5; ++i, ++next) sensor.send(cloud_of(1, next, row_of(next, 100)));
    for (const auto& frame : consumer.frames()) got.push_back(frame.sequence());
  }
  bridge.decimates = true;
  for (const auto& frame : consumer.frames()) got.push_back(frame.sequence());
  CHECK(got.size() >= 6);
  CHECK(got.back() == next - 1);
  CHECK(std::ranges::is_sorted(got));
  bridge.check_books();
}

TEST_CASE("a consumer of one frame a second costs one decimation a second", "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) {
    leaf(0.2)(s);
    s.mutable_quality()->set_max_hz(1);
  });
  std::size_t got = 0;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    sensor.send(cloud_of(1, i, row_of(i, 50)));
    got += consumer.frames().size();
    bridge.clock.advance(milliseconds(100));
  }
  CHECK(got <= 11);  // in ten seconds, the first one at once
  CHECK(got >= 10);
  CHECK(bridge.pipeline_metrics.frames.value() == got);
  bridge.check_books();
}

TEST_CASE("frames that are no clouds pass unchanged whatever quality is asked for",
          "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", leaf(0.2));
  sensor.send(cloud_of(1, 1, row_of(1, 50)));
  sensor.send(opaque_frame(1, 2, "hello"));
  sensor.send(cloud_of(1, 3, row_of(3, 50)));
  const auto frames = consumer.frames();
  REQUIRE(sequences(frames) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(frames[1].opaque().data() == "hello");
  CHECK(frames[1].result().decimator() == "none");
  bridge.check_books();
}

TEST_CASE("all kept frames come in the quality asked for, however few derived ones are kept",
          "[session][derived]") {
  TestBridge bridge;
  bridge.pipeline->set_depth(1);
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  for (std::uint64_t i = 1; i <= 50; ++i) sensor.send(cloud_of(1, i, row_of(i, 50)));
  std::vector<std::unique_ptr<FakePeer>> consumers;
  for (int i = 0; i < 3; ++i) {
    auto& consumer = *consumers.emplace_back(std::make_unique<FakePeer>(bridge));
    consumer.subscribe(1, "a", [](auto& s) {
      leaf(0.2)(s);
      s.set_history(v1::HISTORY_ALL_KEPT);
      s.set_queue_frames(1);
    });
  }
  std::vector<std::vector<std::uint64_t>> got(consumers.size());
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < consumers.size(); ++i) {
      consumers[i]->pump();
      for (const auto& frame : consumers[i]->frames()) got[i].push_back(frame.sequence());
    }
  }
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    INFO("consumer " << i);
    CHECK(got[i].size() == 50);
    CHECK(std::ranges::is_sorted(got[i]));
    CHECK(consumers[i]->gaps().empty());
  }
  bridge.check_books();
}

TEST_CASE("a reliable consumer of a quality gets every frame", "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a", 7, v1::POLICY_BACKPRESSURE);
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) {
    leaf(0.2)(s);
    s.set_queue_frames(1);
    s.set_reliable(true);
  });
  bridge.decimates = false;
  for (std::uint64_t i = 1; i <= 30; ++i) {
    sensor.send(cloud_of(1, i, row_of(i, 50)));
    consumer.pump();
  }
  bridge.decimates = true;
  CHECK(consumer.frames().size() == 30);
  CHECK(consumer.gaps().empty());
  bridge.check_books();
}

TEST_CASE("derived frames that a shrink took are made again while the raw ones are there",
          "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.reading = false;
  consumer.subscribe(1, "a", leaf(0.001));
  sensor.send(cloud_of(1, 1, row_of(1, 20'000)));
  consumer.pump();
  const auto report = bridge.store->set_budget(Bytes{8ULL << 20});
  CHECK(report.frames == 0);  // derived frames are no loss
  consumer.reading = true;
  const auto frames = consumer.frames();
  REQUIRE(frames.size() == 1);
  CHECK(points_of(frames[0]).size() > 19'000);
  CHECK(consumer.gaps().empty());
  bridge.check_books();
}

TEST_CASE("a consumer that leaves while its frame waits leaves no work and no stream",
          "[session][derived]") {
  TestBridge bridge;
  bridge.decimates = false;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  {
    FakePeer consumer(bridge);
    consumer.subscribe(1, "a", leaf(0.2));
    sensor.send(cloud_of(1, 1, row_of(1, 50)));
    consumer.pump();
    CHECK(bridge.pipeline->waiting() == 1);
    consumer.disconnect();
  }
  CHECK(bridge.pipeline->run_one());
  CHECK(bridge.pipeline_metrics.withdrawn.value() == 1);
  CHECK(bridge.pipeline_metrics.frames.value() == 0);
  CHECK(bridge.pipeline->streams() == 0);
  bridge.check_books();
}

TEST_CASE("what is dropped is counted by its reason, and what remains is told with it",
          "[session][derived]") {
  TestBridge bridge;
  FakePeer sensor(bridge);
  sensor.advertise(1, "a");
  FakePeer consumer(bridge);
  consumer.subscribe(1, "a", [](auto& s) {
    v1::Quality& quality = *s.mutable_quality();
    quality.set_output(v1::OUTPUT_XYZ);
    quality.mutable_region()->mutable_min()->set_x(-10);
    quality.mutable_region()->mutable_min()->set_y(-10);
    quality.mutable_region()->mutable_min()->set_z(-10);
    quality.mutable_region()->mutable_max()->set_x(10);
    quality.mutable_region()->mutable_max()->set_y(10);
    quality.mutable_region()->mutable_max()->set_z(10);
  });
  const float nan = std::numeric_limits<float>::quiet_NaN();
  sensor.send(
      cloud_of(1, 1, {{1, 2, 3}, {nan, 0, 0}, {0, 0, 0}, {0, -0.0F, 0}, {11, 0, 0}, {10, 10, 10}}));
  const auto got = consumer.next_frame();
  REQUIRE(got);
  CHECK(points_of(*got) == std::vector<Point>{{1, 2, 3}, {10, 10, 10}});
  const v1::Result& result = got->result();
  CHECK(result.points_in() == 6);
  CHECK(result.points_out() == 2);
  CHECK(result.dropped_nonfinite() == 1);
  CHECK(result.dropped_zero() == 2);
  CHECK(result.dropped_region() == 1);
  CHECK(result.dropped_extent() == 0);
  bridge.check_books();
}
