#include "simbridge/client/pcd.h"

#include "client/lzf.h"
#include "client/pcd_roundtrip.h"
#include "support/seed.h"
#include "support/test_data.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

namespace simbridge::client {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// "x:4F", "_:1Ux12", as the manifest writes it.
std::string manifest_name(const CloudField& field) {
  const bool real = field.type == FieldType::kFloat32 || field.type == FieldType::kFloat64;
  const bool integer = field.type == FieldType::kInt8 || field.type == FieldType::kInt16 ||
                       field.type == FieldType::kInt32 || field.type == FieldType::kInt64;
  auto name =
      field.name + ":" + std::to_string(size_of(field.type)) + (real ? "F" : (integer ? "I" : "U"));
  if (field.count != 1) name += "x" + std::to_string(field.count);
  return name;
}

float number_at(const PointCloudData& cloud, std::uint64_t point, std::size_t offset) {
  float number = 0;
  std::memcpy(&number, cloud.data.data() + point * cloud.point_step + offset, sizeof(number));
  return number;
}

struct Figures {
  std::uint64_t finite = 0, nan = 0, zero = 0;
  std::array<double, 3> low{1e9, 1e9, 1e9}, high{-1e9, -1e9, -1e9};
};

Figures figures_of(const PointCloudData& cloud) {
  Figures figures;
  for (std::uint64_t i = 0; i < cloud.points(); ++i) {
    std::array<float, 3> at{};
    for (std::size_t axis = 0; axis < 3; ++axis)
      at[axis] = number_at(cloud, i, cloud.fields[axis].offset);
    if (!std::isfinite(at[0]) || !std::isfinite(at[1]) || !std::isfinite(at[2])) {
      ++figures.nan;
      continue;
    }
    ++figures.finite;
    if (at[0] == 0 && at[1] == 0 && at[2] == 0) ++figures.zero;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      figures.low[axis] = std::min(figures.low[axis], static_cast<double>(at[axis]));
      figures.high[axis] = std::max(figures.high[axis], static_cast<double>(at[axis]));
    }
  }
  return figures;
}

void check_recording(const nlohmann::json& row, const PointCloudData& cloud) {
  CHECK(cloud.width == row["width"]);
  CHECK(cloud.height == row["height"]);
  CHECK(cloud.points() == row["points"]);
  CHECK(cloud.point_step == row["stride"]);
  std::vector<std::string> names;
  names.reserve(cloud.fields.size());
  for (const auto& field : cloud.fields) names.push_back(manifest_name(field));
  CHECK(names == row["fields"].get<std::vector<std::string>>());
  const auto figures = figures_of(cloud);
  CHECK(figures.finite == row["finite"]);
  CHECK(figures.nan == row["nan"]);
  CHECK(figures.zero == row["zero"]);
  CHECK(cloud.is_dense == (row["nan"] == 0));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    CHECK(figures.low[axis] == Approx(row["bbox_min"][axis].get<double>()).margin(0.00051));
    CHECK(figures.high[axis] == Approx(row["bbox_max"][axis].get<double>()).margin(0.00051));
  }
}

const std::string kHeader =
    "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 2\nHEIGHT 1\n"
    "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\n";  // nine lines

std::string fault_of(const std::string& file) {
  const auto cloud = parse_pcd(file);
  return cloud ? "accepted" : cloud.error().detail;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

std::string u32(std::uint32_t number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

}  // namespace

TEST_CASE("every recording reads as the manifest says", "[client][pcd]") {
  const auto manifest_path = test::data("pointclouds/MANIFEST.json");
  if (!manifest_path) return;
  std::ifstream stream(*manifest_path);
  const auto manifest = nlohmann::json::parse(stream);
  int read = 0;
  for (const auto& row : manifest) {
    const auto file = row["file"].get<std::string>();
    if (!file.ends_with(".pcd")) continue;
    INFO(file);
    const auto cloud = read_pcd(manifest_path->parent_path() / file);
    if (row.contains("unreadable")) {
      REQUIRE_FALSE(cloud);
      CHECK_THAT(cloud.error().detail, Contains("line "));
      continue;
    }
    if (!cloud) FAIL(cloud.error().detail);
    check_recording(row, *cloud);
    ++read;
  }
  CHECK(read >= 16);
}

TEST_CASE("every recording survives being written and read again", "[client][pcd]") {
  const auto folder = test::data("pointclouds");
  if (!folder) return;
  for (const auto* file : {"velodyne/vlp16_scan0.pcd",
                           "ouster/os1_32_organized_stride48.pcd",
                           "rgbd/office1_640x480_rgbfloat_lzf.pcd",
                           "edge/pypcd4_ascii_with_underscore.pcd"}) {
    INFO(file);
    const auto cloud = read_pcd(*folder / file);
    REQUIRE(cloud);
    CHECK_THAT(test::roundtrip_fault(*cloud), Catch::Matchers::Equals(""));
  }
}

TEST_CASE("ascii values arrive in the type that the header gives them", "[client][pcd]") {
  const auto cloud = parse_pcd(
      "FIELDS a b c d e f _ g h\nSIZE 1 1 2 2 4 4 1 8 8\nTYPE I U I U I U U F I\n"
      "COUNT 1 1 1 1 1 1 3 1 1\nWIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA ascii\n"
      "-128 255 -32768 65535 -2147483648 4294967295 1 2 3 -nan -9223372036854775808\n");
  if (!cloud) FAIL(cloud.error().detail);
  CHECK(cloud->point_step == 33);
  CHECK(cloud->fields[6] ==
        CloudField{.name = "_", .offset = 14, .type = FieldType::kUint8, .count = 3});
  CHECK(cloud->fields[7].offset == 17);
  CHECK(cloud->data.substr(0, 17) ==
        std::string("\x80\xff\x00\x80\xff\xff\x00\x00\x00\x80\xff\xff\xff\xff\x01\x02\x03", 17));
  double nan = 0;
  std::memcpy(&nan, cloud->data.data() + 17, sizeof(nan));
  CHECK(std::isnan(nan));
  CHECK(cloud->data.substr(25) == std::string("\0\0\0\0\0\0\0\x80", 8));
}

TEST_CASE("numbers beyond the type's reach read as C reads them", "[client][pcd]") {
  const auto cloud = parse_pcd(kHeader + "DATA ascii\n1e99 -1e-99 +5\n+inf 1e-42 0x\n");
  CHECK_FALSE(cloud);
  const auto good = parse_pcd(kHeader + "DATA ascii\n1e99 1e-99 +5\ninf 1e-42 -0\n");
  REQUIRE(good);
  CHECK(std::isinf(number_at(*good, 0, 0)));
  CHECK(number_at(*good, 0, 4) == 0.0F);
  CHECK(number_at(*good, 0, 8) == 5.0F);
  CHECK(number_at(*good, 1, 4) == 1e-42F);
  CHECK(std::signbit(number_at(*good, 1, 8)));
  CHECK_FALSE(good->is_dense);
}

TEST_CASE("comments, blank lines, tabs and DOS line ends are read over", "[client][pcd]") {
  const auto cloud = parse_pcd(
      "# .PCD\r\n\r\nVERSION .7\r\nFIELDS\tx  y z\r\nSIZE 4 4 4\r\nTYPE F F F\r\nWIDTH 2\r\n# "
      "two\r\n"
      "HEIGHT 1\r\nPOINTS 2\r\nDATA ascii\r\n1 2 3\r\n\r\n 4\t5 6 \r\n");
  if (!cloud) FAIL(cloud.error().detail);
  CHECK(number_at(*cloud, 1, 8) == 6.0F);
  CHECK(cloud->is_dense);
}

TEST_CASE("a file of old versions has POINTS alone, and is one row", "[client][pcd]") {
  const auto cloud =
      parse_pcd("VERSION .5\nCOLUMNS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS 1\nDATA ascii\n1 2 3\n");
  REQUIRE(cloud);
  CHECK(cloud->width == 1);
  CHECK(cloud->height == 1);
}

TEST_CASE("a viewpoint stays with its cloud", "[client][pcd]") {
  const auto file = replaced(kHeader, "VIEWPOINT 0 0 0 1 0 0 0", "VIEWPOINT 1 2 3 0 1 0 0");
  const auto cloud = parse_pcd(file + "DATA ascii\n1 2 3\n4 5 6\n");
  REQUIRE(cloud);
  CHECK(cloud->viewpoint == Viewpoint{.x = 1, .y = 2, .z = 3, .qw = 0, .qx = 1, .qy = 0, .qz = 0});
}

TEST_CASE("a cloud of no points is legal in every form", "[client][pcd]") {
  const auto none = replaced(replaced(kHeader, "WIDTH 2", "WIDTH 0"), "POINTS 2", "POINTS 0");
  for (const auto* form : {"ascii", "binary", "binary_compressed"}) {
    const auto cloud = parse_pcd(none + "DATA " + form + "\n");
    INFO(form);
    REQUIRE(cloud);
    CHECK(cloud->points() == 0);
    CHECK(cloud->data.empty());
  }
}

TEST_CASE("binary data longer than the points is padding, as PCL writes it", "[client][pcd]") {
  const auto cloud = parse_pcd(kHeader + "DATA binary\n" + std::string(24 + 100, 'x'));
  REQUIRE(cloud);
  CHECK(cloud->data.size() == 24);
}

TEST_CASE("a broken header is refused with its line", "[client][pcd]") {
  struct Row {
    std::string what, with, fault;
  };
  const std::vector<Row> rows{
      {"FIELDS x y z", "FIELDZ x y z", "line 2: unknown keyword \"FIELDZ\""},
      {"FIELDS x y z", "FIELDS", "line 2: FIELDS says nothing"},
      {"SIZE 4 4 4", "SIZE 4 4", "line 3: SIZE has 2 values for 3 fields"},
      {"SIZE 4 4 4", "SIZE 4 3 4", "line 3: SIZE is 1, 2, 4 or 8, not \"3\""},
      {"SIZE 4 4 4", "SIZE 4 -4 4", "line 3: SIZE is 1, 2, 4 or 8, not \"-4\""},
      {"TYPE F F F", "TYPE F Q F", "line 4: there is no type \"Q\" of 4 bytes"},
      {"SIZE 4 4 4", "SIZE 4 4 2", "line 4: there is no type \"F\" of 2 bytes"},
      {"COUNT 1 1 1", "COUNT 1 1 0", "line 5: COUNT is from 1 to 1048576, not \"0\""},
      {"COUNT 1 1 1", "COUNT 1 1 9999999999", "line 5: COUNT is from 1"},
      {"WIDTH 2", "WIDTH two", "line 6: WIDTH is one number"},
      {"WIDTH 2", "WIDTH -2", "line 6: WIDTH is one number"},
      {"WIDTH 2", "WIDTH 2 2", "line 6: WIDTH is one number"},
      {"WIDTH 2", "WIDTH 3", "line 9: POINTS 2 is not WIDTH 3 x HEIGHT 1"},
      {"HEIGHT 1", "HEIGHT 4294967296", "line 7: HEIGHT is one number"},
      {"HEIGHT 1", "HEIGHT 1\nHEIGHT 1", "line 8: HEIGHT stands already in line 7"},
      {"VIEWPOINT 0 0 0 1 0 0 0", "VIEWPOINT 0 0 0", "line 8: VIEWPOINT has seven numbers, not 3"},
      {"VIEWPOINT 0 0 0", "VIEWPOINT nan 0 0", "line 8: VIEWPOINT has finite numbers"},
      {"DATA ascii",
       "DATA zip",
       "line 10: DATA is ascii, binary or binary_compressed, not \"zip\""},
      {"DATA ascii", "DATA", "line 10: DATA says nothing"},
      {"DATA ascii\n", "", "line 10: unknown keyword \"1\""},
      {"FIELDS x y z\n", "", "line 9: FIELDS is missing before DATA"},
      {"SIZE 4 4 4\n", "", "line 9: SIZE is missing before DATA"},
      {"TYPE F F F\n", "", "line 9: TYPE is missing before DATA"},
  };
  for (const auto& row : rows) {
    INFO(row.what << " -> " << row.with);
    CHECK_THAT(fault_of(replaced(kHeader + "DATA ascii\n1 2 3\n4 5 6\n", row.what, row.with)),
               StartsWith(row.fault));
  }
  CHECK(fault_of("") == "line 1: the file is empty");
  CHECK_THAT(fault_of(kHeader), StartsWith("line 10: the header ends without a DATA line"));
  CHECK_THAT(fault_of(std::string(100, '\0')), StartsWith("line 1: unknown keyword \"\\x00"));
}

TEST_CASE("a broken ascii body is refused with its line", "[client][pcd]") {
  CHECK_THAT(fault_of(kHeader + "DATA ascii\n1 2 3\n4 5\n"),
             StartsWith("line 12: ends before field \"z\""));
  CHECK_THAT(fault_of(kHeader + "DATA ascii\n1 2 3 4\n4 5 6\n"),
             StartsWith("line 11: \"4\" after the last field"));
  CHECK_THAT(fault_of(kHeader + "DATA ascii\n1 2 3\n4 five 6\n"),
             StartsWith("line 12: \"five\" is no value of field \"y\""));
  CHECK_THAT(fault_of(kHeader + "DATA ascii\n1 2 3\n"),
             StartsWith("line 12: the file ends after 1 of 2 points"));
  CHECK_THAT(fault_of(kHeader + "DATA ascii\n1 2 3\n1 2 3\n1 2 3\n"),
             StartsWith("line 13: a line more than the 2 points"));
  const auto bytes = replaced(replaced(kHeader, "TYPE F F F", "TYPE U F F"), "SIZE 4", "SIZE 1");
  CHECK_THAT(fault_of(bytes + "DATA ascii\n256 2 3\n1 2 3\n"),
             StartsWith("line 11: \"256\" is no value of field \"x\""));
}

TEST_CASE("a body shorter than it says is refused with its byte", "[client][pcd]") {
  const auto binary = kHeader + "DATA binary\n";
  CHECK(fault_of(binary + std::string(20, 'x')) ==
        "byte " + std::to_string(binary.size() + 20) +
            ": the file ends 4 bytes before its 2 points do");
  const auto packed = kHeader + "DATA binary_compressed\n";
  const auto start = packed.size();
  const auto byte = [](std::size_t at) {
    return "byte " + std::to_string(at) + ": ";
  };
  CHECK_THAT(fault_of(packed + "123"), StartsWith(byte(start + 3) + "the file ends"));
  CHECK_THAT(fault_of(packed + u32(50) + u32(24) + "x"),
             StartsWith(byte(start) + "compressed size 50, but 1 bytes follow"));
  CHECK_THAT(fault_of(packed + u32(1) + u32(25) + "x"),
             StartsWith(byte(start + 4) + "raw size 25, but 2 points of 12 bytes are 24"));
  CHECK_THAT(fault_of(packed + u32(2) + u32(24) + std::string("\x00\x41", 2)),
             StartsWith(byte(start + 10) + "LZF: ends before the raw size"));
  CHECK_THAT(fault_of(packed + u32(3) + u32(24) + std::string("\x20\x05\x00", 3)),
             StartsWith(byte(start + 8) + "LZF: a copy from before the beginning"));
}

TEST_CASE("peers 19: a lying LZF size is refused before its memory is reserved", "[client][pcd]") {
  // 8 bytes of data that claim 3.2 GB of points: the header's own limit first, then the expansion.
  auto huge =
      replaced(replaced(kHeader, "WIDTH 2", "WIDTH 268435456"), "POINTS 2", "POINTS 268435456");
  CHECK_THAT(fault_of(huge + "DATA binary_compressed\n" + u32(8) + u32(3221225472U) + "12345678"),
             StartsWith("line 9: 268435456 points of 12 bytes are above the limit"));
  auto large =
      replaced(replaced(kHeader, "WIDTH 2", "WIDTH 80000000"), "POINTS 2", "POINTS 80000000");
  const auto packed = large + "DATA binary_compressed\n";
  CHECK_THAT(fault_of(packed + u32(8) + u32(960000000) + "12345678"),
             StartsWith("byte " + std::to_string(packed.size() + 8) +
                        ": LZF: so few bytes cannot hold so many"));
  CHECK_THAT(fault_of(large + "DATA ascii\n1 2 3\n"),
             StartsWith("line 10: 80000000 points cannot stand in the 6 bytes after it"));
}

TEST_CASE("peers 20: WIDTH x HEIGHT that is not POINTS is refused with its line", "[client][pcd]") {
  CHECK_THAT(fault_of(replaced(kHeader, "HEIGHT 1", "HEIGHT 4294967295") + "DATA binary\n"),
             StartsWith("line 9: POINTS 2 is not WIDTH 2 x HEIGHT 4294967295"));
}

TEST_CASE("peers 21: COUNT above 1 and repeated padding keep every offset right", "[client][pcd]") {
  const auto cloud = parse_pcd(
      "FIELDS x _ y _ z normal x\nSIZE 4 1 4 2 4 4 4\nTYPE F U F U F F F\nCOUNT 1 4 1 2 1 3 1\n"
      "WIDTH 1\nHEIGHT 1\nPOINTS 1\nDATA binary\n" +
      std::string(40, 'p'));
  if (!cloud) FAIL(cloud.error().detail);
  std::vector<std::uint32_t> offsets;
  for (const auto& field : cloud->fields) offsets.push_back(field.offset);
  CHECK(offsets == std::vector<std::uint32_t>{0, 4, 8, 12, 16, 20, 32});
  CHECK(cloud->point_step == 36);
}

TEST_CASE("a compressed cloud is interleaved into records", "[client][pcd]") {
  const std::string blocks = "XXXXxxxxYYYYyyyyZZZZzzzz";  // SOA: two x, two y, two z
  const auto packed = lzf_compress(blocks);
  const auto cloud = parse_pcd(kHeader + "DATA binary_compressed\n" +
                               u32(static_cast<std::uint32_t>(packed.size())) + u32(24) + packed);
  if (!cloud) FAIL(cloud.error().detail);
  CHECK(cloud->data == "XXXXYYYYZZZZxxxxyyyyzzzz");
}

TEST_CASE("LZF gives back what it was given, whatever that is", "[client][pcd]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string raw;
    const auto size = random() % 20000;
    while (raw.size() < size) {
      if (raw.size() > 2 && random() % 2 == 0) {  // a copy of what went before, overlaps included
        const auto back = 1 + random() % std::min<std::size_t>(raw.size(), 9000);
        for (auto left = random() % 600; left > 0; --left) raw.push_back(raw[raw.size() - back]);
      } else {
        for (auto left = random() % 50; left > 0; --left)
          raw.push_back(static_cast<char>(random()));
      }
    }
    const auto packed = lzf_compress(raw);
    const auto back = lzf_decompress(packed, raw.size());
    REQUIRE(back);
    REQUIRE(*back == raw);
    if (!raw.empty()) REQUIRE_FALSE(lzf_decompress(packed, raw.size() - 1));
    REQUIRE_FALSE(lzf_decompress(packed, raw.size() + 1));
  }
}

TEST_CASE("a PCD file cut anywhere or with any byte changed never breaks the reader",
          "[client][pcd]") {
  const auto seed = test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto cloud = parse_pcd(kHeader + "DATA ascii\n1 2 3\n4 5 6\n");
  REQUIRE(cloud);
  for (const auto form : {PcdForm::kAscii, PcdForm::kBinary, PcdForm::kCompressed}) {
    const auto file = format_pcd(*cloud, form);
    REQUIRE(file);
    for (std::size_t cut = 0; cut < file->size(); ++cut) {
      const auto part = parse_pcd(std::string_view(*file).substr(0, cut));
      // The last line may lose its end and nothing else.
      if (form != PcdForm::kAscii || cut + 2 < file->size()) REQUIRE_FALSE(part);
      if (!part) REQUIRE_THAT(part.error().detail, StartsWith("line ") || StartsWith("byte "));
    }
    for (int round = 0; round < 3000; ++round) {
      auto broken = *file;
      for (auto left = 1 + random() % 3; left > 0; --left)
        broken[random() % broken.size()] = static_cast<char>(random());
      const auto read = parse_pcd(broken, {.data = Bytes{1 << 20}});
      if (read) REQUIRE_THAT(test::roundtrip_fault(*read), Catch::Matchers::Equals(""));
    }
  }
}

TEST_CASE("a cloud that a PCD file cannot say is not written", "[client][pcd]") {
  PointCloudData cloud{.width = 1, .height = 1, .point_step = 8};
  cloud.data.assign(8, '\0');
  cloud.fields = {{.name = "x", .offset = 0, .type = FieldType::kFloat32},
                  {.name = "y", .offset = 2, .type = FieldType::kFloat32}};
  CHECK_FALSE(format_pcd(cloud, PcdForm::kBinary));
  cloud.fields[1].offset = 6;
  CHECK_FALSE(format_pcd(cloud, PcdForm::kBinary));
  cloud.fields[1] = {.name = "a b", .offset = 4, .type = FieldType::kFloat32};
  CHECK_FALSE(format_pcd(cloud, PcdForm::kBinary));
  cloud.fields[1].name = "y";
  CHECK(format_pcd(cloud, PcdForm::kBinary));
}

TEST_CASE("a file that is not there says so", "[client][pcd]") {
  const auto cloud = read_pcd("/nonexistent/cloud.pcd");
  REQUIRE_FALSE(cloud);
  CHECK(cloud.error().code == ErrorCode::kUnavailable);
  CHECK_THAT(cloud.error().detail, StartsWith("/nonexistent/cloud.pcd: "));
  CHECK_FALSE(read_pcd("/tmp"));
}

}  // namespace simbridge::client
