#include "client/frame_files.h"

#include "client/crc32c.h"
#include "client/fake_bridge.h"
#include "simbridge/client/commands.h"
#include "simbridge/client/pcd.h"
#include "simbridge/client/raw_cloud.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp() is POSIX

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace simbridge::client {
namespace {

using namespace std::chrono_literals;
using test::FakeBridge;
using test::FakeSession;

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "frames-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path))
      all.push_back(entry.path().filename().string());
    std::ranges::sort(all);
    return all;
  }
};

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), 0);
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> values_of(const PointCloudData& cloud, const std::string& name) {
  std::vector<T> values;
  for (const auto& field : cloud.fields)
    for (std::uint64_t i = 0; field.name == name && i < cloud.points(); ++i) {
      T value{};
      std::memcpy(&value, cloud.data.data() + i * cloud.point_step + field.offset, sizeof value);
      values.push_back(value);
    }
  return values;
}

v1::Frame flat_frame() {
  v1::Frame frame;
  frame.set_epoch(9);
  frame.set_sequence(3);
  frame.mutable_pose()->mutable_position()->set_x(4);
  frame.mutable_pose()->mutable_orientation()->set_w(1);
  auto& cloud = *frame.mutable_cloud();
  cloud.set_width(2);
  cloud.set_height(1);
  cloud.set_layout(v1::LAYOUT_SOA);
  const auto add = [&](const char* name, std::uint32_t offset, v1::Type type, std::uint32_t count) {
    auto& field = *cloud.add_fields();
    field.set_name(name);
    field.set_offset(offset);
    field.set_type(type);
    field.set_count(count);
  };
  add("xyz", 0, v1::TYPE_FLOAT32, 3);
  add("rgba", 24, v1::TYPE_UINT8, 4);
  add("ring", 32, v1::TYPE_UINT16, 0);
  cloud.set_data(bytes_of<float>({1, 2, 3, 4, 5, 6}) +
                 bytes_of<std::uint8_t>({0x10, 0x20, 0x30, 0xFF, 1, 2, 3, 4}) +
                 bytes_of<std::uint16_t>({7, 8}));
  return frame;
}

}  // namespace

TEST_CASE("a channel's name becomes a file's that is safe", "[client][files]") {
  CHECK(file_name_of("lidar/front", 7, 42) == "lidar_front-7-000042.pcd");
  CHECK(file_name_of("../../etc/passwd", 1, 1) == "_.._.._etc_passwd-1-000001.pcd");
  CHECK(file_name_of(".", 1, 1) == "_.-1-000001.pcd");
  CHECK(file_name_of("a\n\x7f", 1, 1) == "a__-1-000001.pcd");
  CHECK(file_name_of("a", ~std::uint64_t{0}, 1'000'000'000) ==
        "a-18446744073709551615-1000000000.pcd");
  std::string wide;
  for (int i = 0; i < 128; ++i) wide += "\xC3\xA4";
  const auto name = file_name_of(wide, ~std::uint64_t{0}, ~std::uint64_t{0} >> 1U);
  CHECK(name.size() < 255);
  CHECK(name.starts_with(wide.substr(0, 160) + "~"));
}

TEST_CASE("blocks become records that other programs read: x, y, z, and colour as a number",
          "[client][files]") {
  const Folder folder;
  const auto files = FrameFiles::open(folder.path / "made" / "anew");
  REQUIRE(files.has_value());
  const auto path = files->write("lidar/front", flat_frame());
  REQUIRE(path.has_value());
  CHECK(path->filename() == "lidar_front-9-000003.pcd");
  const auto read = read_pcd(*path);
  REQUIRE(read.has_value());
  CHECK(read->viewpoint.x == 4);
  CHECK(values_of<float>(*read, "x") == std::vector<float>{1, 4});
  CHECK(values_of<float>(*read, "z") == std::vector<float>{3, 6});
  CHECK(values_of<std::uint32_t>(*read, "rgba") ==
        std::vector<std::uint32_t>{0xFF102030, 0x04010203});
  CHECK(values_of<std::uint16_t>(*read, "ring") == std::vector<std::uint16_t>{7, 8});
}

TEST_CASE("a file that is there is never written over", "[client][files]") {
  const Folder folder;
  const auto files = FrameFiles::open(folder.path);
  REQUIRE(files.has_value());
  auto frame = flat_frame();
  REQUIRE(files->write("a/b", frame).has_value());
  CHECK(files->write("a/b", frame).has_value());  // the same again is no loss
  frame.mutable_cloud()->mutable_data()->at(0) = 9;
  const auto refused = files->write("a/b", frame);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail.find("is there already") != std::string::npos);
  const auto read = read_pcd(folder.path / "a_b-9-000003.pcd");
  REQUIRE(read.has_value());
  CHECK(values_of<float>(*read, "x")[0] == 1);
  CHECK(folder.names() == std::vector<std::string>{"a_b-9-000003.pcd"});
}

TEST_CASE("records of either byte order, with padding or overlap, are read", "[client][files]") {
  RawCloud cloud{.width = 1,
                 .height = 2,
                 .point_step = 16,
                 .row_step = 18,
                 .fields = {{.name = "x", .offset = 0, .type = FieldType::kFloat32},
                            {.name = "_", .offset = 4, .type = FieldType::kUint8, .count = 4},
                            {.name = "y", .offset = 8, .type = FieldType::kFloat32},
                            {.name = "z", .offset = 12, .type = FieldType::kFloat32}}};
  std::string data = bytes_of<float>({1, 0, 2, 3}) + "--" + bytes_of<float>({4, 0, 5, 6});
  cloud.data = data;
  auto records = to_records(cloud);
  REQUIRE(records.has_value());
  CHECK(records->point_step == 16);
  CHECK(records->data == bytes_of<float>({1, 0, 2, 3, 4, 0, 5, 6}));

  cloud.fields.push_back({.name = "raw", .offset = 0, .type = FieldType::kUint32});
  records = to_records(cloud);
  REQUIRE(records.has_value());
  CHECK(records->point_step == 16);
  CHECK(values_of<std::uint32_t>(*records, "raw")[0] == 0x3F800000);
  CHECK(values_of<float>(*records, "z") == std::vector<float>{3, 6});

  for (std::size_t at : {0, 4, 8, 12, 18, 22, 26, 30})
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(at),
                 data.begin() + static_cast<std::ptrdiff_t>(at) + 4);
  cloud.big_endian = true;
  cloud.data = data;
  records = to_records(cloud);
  REQUIRE(records.has_value());
  CHECK(values_of<float>(*records, "y") == std::vector<float>{2, 5});
}

TEST_CASE("clouds whose fields and data contradict each other are refused", "[client][files]") {
  const std::string data(64, 'x');
  RawCloud good{.width = 4,
                .height = 1,
                .point_step = 16,
                .fields = {{.name = "x", .offset = 12, .type = FieldType::kFloat32}},
                .data = data};
  REQUIRE(to_records(good).has_value());
  const auto refused = [&](auto change) {
    auto cloud = good;
    change(cloud);
    return !to_records(cloud).has_value();
  };
  CHECK(refused([](RawCloud& c) { c.width = 5; }));
  CHECK(refused([](RawCloud& c) { c.height = 0xFFFFFFFF; }));
  CHECK(refused([](RawCloud& c) {
    c.point_step = 0;
    c.fields.clear();
  }));
  CHECK(refused([](RawCloud& c) { c.fields[0].offset = 0xFFFFFFFF; }));
  CHECK(refused([](RawCloud& c) { c.fields[0].count = 0xFFFFFFFF; }));
  CHECK(refused([](RawCloud& c) {
    c.height = 2;
    c.width = 2;
    c.row_step = 8;
  }));
  CHECK(refused([](RawCloud& c) {
    c.soa = true;
    c.fields[0].count = 5;
  }));
  CHECK(refused([](RawCloud& c) {
    c.soa = true;
    c.fields[0].offset = 0;
    c.fields[0].count = 3;
    c.fields.push_back(c.fields[0]);
    c.fields.back().name = "again";
  }));
}

TEST_CASE("a cloud of no points is a file, whatever its fields", "[client][files]") {
  for (const bool soa : {false, true}) {
    RawCloud cloud{.height = 1, .soa = soa};
    for (int i = 0; i < 2; ++i) {
      const auto records = to_records(cloud);
      REQUIRE(records.has_value());
      const auto file = format_pcd(*records, PcdForm::kBinary);
      REQUIRE(file.has_value());
      CHECK(parse_pcd(*file).has_value());
      cloud.fields = {
          {.name = "x", .offset = 77, .type = FieldType::kFloat32, .count = 0xFFFFFFFF}};
    }
  }
}

TEST_CASE("watch asks for the quality and writes each cloud that comes", "[client][files]") {
  const Folder folder;
  v1::Quality asked;
  FakeBridge bridge({[&](FakeSession& session) {
    session.hello();
    const auto subscribe = session.receive();
    asked = subscribe.subscribe().quality();
    v1::ServerMessage channels;
    auto& info = *channels.mutable_channels()->add_channel();
    info.set_id(4);
    info.set_name("lidar/front");
    session.send(channels);
    for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {
      v1::ServerMessage message;
      *message.mutable_frame() = flat_frame();
      message.mutable_frame()->set_subscription(1);
      message.mutable_frame()->set_channel(4);
      message.mutable_frame()->set_sequence(sequence);
      session.send(message);
    }
    v1::ServerMessage opaque;
    opaque.mutable_frame()->set_subscription(1);
    opaque.mutable_frame()->set_channel(4);
    opaque.mutable_frame()->set_sequence(3);
    opaque.mutable_frame()->mutable_opaque()->set_data("x");
    session.send(opaque);
    session.receive();  // Unsubscribe
    v1::ServerMessage last;
    last.mutable_subscription_state()->set_id(1);
    last.mutable_subscription_state()->set_ended(true);
    session.send(last);
    session.receive_within(5s);
    session.receive_within(5s);
  }});
  const auto out = folder.path / "log";
  std::FILE* lines = std::fopen(out.c_str(), "w+");
  REQUIRE(lines != nullptr);
  Console console;
  console.out = lines;
  console.err = lines;
  CHECK(run_watch({.from = bridge.url(),
                   .json = true,
                   .quality = {.leaf = 0.2, .output = "flat"},
                   .out = (folder.path / "out").string(),
                   .count = 3},
                  console) == 0);
  CHECK(bridge.finish().empty());
  CHECK(std::fclose(lines) == 0);
  CHECK(asked.leaf() == 0.2);
  CHECK(asked.output() == v1::OUTPUT_FLAT);
  CHECK(std::filesystem::exists(folder.path / "out" / "lidar_front-9-000001.pcd"));
  CHECK(std::filesystem::exists(folder.path / "out" / "lidar_front-9-000002.pcd"));
  std::ifstream in(out);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(text.find("lidar_front-9-000002.pcd") != std::string::npos);
  CHECK(text.find("not_written") != std::string::npos);
  CHECK(text.find("2 files in") != std::string::npos);
}

}  // namespace simbridge::client
