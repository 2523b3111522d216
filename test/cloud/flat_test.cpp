#include "cloud/cpu_decimator.h"
#include "cloud/flat_values.h"
#include "cloud/made.h"
#include "cloud/naive.h"

#include <catch2/catch.hpp>

#include <limits>

namespace simbridge::cloud {
namespace {

using test::Made;
using Names = std::vector<std::string>;

Field field(std::string_view name, Type type, std::uint32_t count = 1) {
  return {.name = name, .type = type, .count = count};
}

std::vector<Field> with(std::vector<Field> others) {
  auto fields = test::xyz_fields();
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

DecimatedCloud flat_of(const CloudView& view, Request request = {}) {
  request.output = Output::kFlat;
  DecimatedCloud out;
  REQUIRE(make_cpu_decimator()->decimate(view, request, out).has_value());
  const std::string difference = test::difference(out, test::decimate_naively(view, request));
  INFO(difference);
  REQUIRE(difference.empty());
  return out;
}

/// The blocks of one point with these fields beside its coordinates.
Names blocks_of(std::vector<Field> others,
                std::string_view time_field = {},
                std::uint32_t warnings = 0,
                std::vector<std::string> wanted = {}) {
  Made made(with(std::move(others)), {{1, 2, 3}});
  made.view.time_field = time_field;
  const auto out = flat_of(made.view, {.fields = std::move(wanted)});
  CHECK(out.warnings == warnings);
  return test::names_of(out);
}

}  // namespace

TEST_CASE("blocks stand in the protocol's order under the protocol's names", "[cloud][flat]") {
  constexpr auto kLeftOut = std::uint32_t{DecimatedCloud::kFieldLeftOut};
  constexpr auto kNoTime = std::uint32_t{DecimatedCloud::kTimeFieldUnusable};
  const auto f32 = Type::kFloat32;
  CHECK(blocks_of({}) == Names{"xyz"});
  CHECK(blocks_of({field("t", Type::kUint32),
                   field("ring", Type::kUint8),
                   field("label", Type::kUint16),
                   field("rgb", f32),
                   field("intensity", Type::kUint16)},
                  "t") == Names{"xyz", "intensity", "rgba", "ring", "time", "label"});
  // False friends.
  CHECK(blocks_of({field("intensity", Type::kBool), field("rgba", Type::kUint8, 3)}) ==
        Names{"xyz", "_intensity", "_rgba"});
  CHECK(blocks_of({field("intensity", f32, 2), field("ring", f32)}) ==
        Names{"xyz", "_intensity", "_ring"});
  CHECK(blocks_of({field("time", f32)}) == Names{"xyz", "_time"});
  CHECK(blocks_of({field("time", f32), field("t", f32)}, "t") == Names{"xyz", "time", "_time"});
  CHECK(blocks_of({field("payload", f32), field("depth", f32), field("#meta", f32)}) ==
        Names{"xyz", "_payload", "_depth", "_#meta"});
  CHECK(blocks_of({field("xyz", f32)}) == Names{"xyz", "_xyz"});
  CHECK(blocks_of({field("_ring", Type::kUint8), field("ring", f32)}, {}, kLeftOut) ==
        Names{"xyz", "_ring"});
  // Colours: rgba before rgb, bytes as they are.
  CHECK(blocks_of({field("rgb", Type::kUint32), field("rgba", Type::kUint32)}) ==
        Names{"xyz", "rgba", "rgb"});
  CHECK(blocks_of({field("rgb", Type::kUint8, 3)}) == Names{"xyz", "rgb"});
  CHECK(blocks_of({field("rgb", Type::kInt32), field("rgba", Type::kFloat64)}) ==
        Names{"xyz", "rgba", "_rgba"});
  // Padding, duplicates, unknown types, too many components.
  CHECK(blocks_of({field("_", f32), field("", f32), field("a", f32), field("a", Type::kUint8)}) ==
        Names{"xyz", "a"});
  CHECK(blocks_of({field("a", Type::kUnknown), field("b", static_cast<Type>(12))}, {}, kLeftOut) ==
        Names{"xyz"});
  CHECK(blocks_of({field("a", Type::kUint8, 255), field("b", Type::kUint8, 256)}, {}, kLeftOut) ==
        Names{"xyz", "a"});
  // A time_field that is none.
  CHECK(blocks_of({field("t", f32, 2)}, "t", kNoTime) == Names{"xyz", "t"});
  CHECK(blocks_of({field("t", Type::kBool)}, "t", kNoTime) == Names{"xyz", "t"});
  CHECK(blocks_of({field("t", f32)}, "missing", kNoTime) == Names{"xyz", "t"});
  // A choice of fields, by the block's name or the sensor's.
  CHECK(blocks_of({field("t", f32), field("rgb", f32), field("a", f32)}, "t", 0, {"t", "rgba"}) ==
        Names{"xyz", "rgba", "time"});
  CHECK(blocks_of({field("a_very_long_field_name", f32), field("a", f32)},
                  {},
                  0,
                  {"a_very_long_field_name"}) == Names{"xyz", "a_very_long_~177"});
  CHECK(blocks_of({field("a", f32)}, {}, 0, {"nothing like it"}) == Names{"xyz"});
}

TEST_CASE("long names are cut to 16 bytes at a whole character, with their checksum's last digits",
          "[cloud][flat]") {
  CHECK(short_name("a_name_of_exactl") == "a_name_of_exactl");
  CHECK(short_name("a_name_of_17_byte") == "a_name_of_17~b6e");
  CHECK(short_name("laenge_mit_\xC3\xA4_umlaut") == "laenge_mit_~06b");
  CHECK(short_name("\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC") ==
        "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC~dde");
}

TEST_CASE("colours are read as numbers, split, and averaged per byte", "[cloud][flat]") {
  // 0x7FC00000 and its like are not numbers as floats; as colours they are.
  Made made(with({field("rgb", Type::kUint32)}),
            {{1, 1, 1, 0x7FC01020}, {1.01, 1, 1, 0xFF800001}, {5, 5, 5, 0x000000FF}});
  for (const Type type : {Type::kUint32, Type::kInt32, Type::kFloat32}) {
    made.fields[3].type = type;
    made.view.fields = made.fields;
    auto out = flat_of(made.view);
    CHECK(test::values_of<std::uint8_t>(out, "rgba") ==
          std::vector<std::uint8_t>{
              0xC0, 0x10, 0x20, 255, 0x80, 0x00, 0x01, 255, 0x00, 0x00, 0xFF, 255});
    out = flat_of(made.view, {.sampling = Sampling::kVoxelCentroid, .leaf = 1});
    CHECK(test::values_of<std::uint8_t>(out, "rgba") ==
          std::vector<std::uint8_t>{0xA0, 0x08, 0x11, 255, 0x00, 0x00, 0xFF, 255});
    made.fields[3].name = "rgba";
    CHECK(test::values_of<std::uint8_t>(flat_of(made.view), "rgba")[3] == 0x7F);
    made.fields[3].name = "rgb";
  }
}

TEST_CASE("ring, time and labels are those of the cell's first point, intensity is a mean",
          "[cloud][flat]") {
  Made made(with({field("intensity", Type::kFloat32),
                  field("ring", Type::kUint8),
                  field("t", Type::kUint32),
                  field("label", Type::kInt32)}),
            {{1, 1, 1, 10, 7, 100, -5},
             {3, 3, 3, 1e30, 9, 200, 6},
             {1, 1, 1.2, 21, 8, 300, 7},
             {3, 3, 3, std::numeric_limits<double>::quiet_NaN(), 1, 400, 8}});
  made.view.time_field = "t";
  const auto out = flat_of(made.view, {.sampling = Sampling::kVoxelCentroid, .leaf = 1});
  CHECK(test::values_of<float>(out, "intensity") == std::vector<float>{15.5F, 33554432.0F});
  CHECK(test::values_of<std::uint16_t>(out, "ring") == std::vector<std::uint16_t>{7, 9});
  CHECK(test::values_of<std::int32_t>(out, "time") == std::vector<std::int32_t>{100, 200});
  CHECK(test::values_of<std::int32_t>(out, "label") == std::vector<std::int32_t>{-5, 6});
  // 8-byte alignment and zeros between: xyz 24, intensity 8, ring 4 (+4), time 8, label 8.
  REQUIRE(out.data.size() == 56);
  for (std::size_t i = 36; i < 40; ++i) CHECK(out.data[i] == std::byte{0});
}

TEST_CASE("time is value x num / den, half to even, after stamp, saturated", "[cloud][flat]") {
  constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  constexpr auto kMax64 = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin64 = std::numeric_limits<std::int64_t>::min();
  const auto of = [](auto value, std::int64_t num, std::int64_t den) {
    return time_of(value, TimeRule{.num = num, .den = den});
  };
  CHECK(of(std::int64_t{5}, 1, 2) == 2);
  CHECK(of(std::int64_t{7}, 1, 2) == 4);
  CHECK(of(std::int64_t{-5}, 1, 2) == -2);
  CHECK(of(std::int64_t{-7}, 1, 2) == -4);
  CHECK(of(std::int64_t{5}, 1, -2) == -2);
  CHECK(of(std::int64_t{5}, 2, 3) == 3);
  CHECK(of(std::int64_t{3'000'000}, 1000, 1) == kMax);
  CHECK(of(std::int64_t{-3'000'000}, 1000, 1) == kMin);
  CHECK(of(kMin64, kMin64, kMin64) == kMin);
  CHECK(of(kMin64, kMin64, 1) == kMax);
  CHECK(of(~std::uint64_t{0}, kMax64, 1) == kMax);
  CHECK(of(~std::uint64_t{0}, kMin64, 1) == kMin);
  CHECK(of(~std::uint64_t{0}, 7, kMax64) == 14);
  CHECK(of(0.0000025, 1'000'000, 1) == 2);
  CHECK(of(0.0000035, 1'000'000, 1) == 4);
  CHECK(of(-0.05, 1'000'000'000, 1) == -50'000'000);
  CHECK(of(1e300, kMax64, 1) == kMax);
  CHECK(of(-std::numeric_limits<double>::infinity(), 1, 1) == kMin);
  CHECK(of(std::numeric_limits<double>::quiet_NaN(), 1, 1) == 0);
  // Absolute: a double of nanoseconds since 1970 keeps what it has.
  const TimeRule absolute{.absolute = true, .stamp_ns = 1'700'000'000'000'000'000};
  CHECK(time_of(1'700'000'000'000'000'256.0, absolute) == 256);
  CHECK(time_of(std::int64_t{1'700'000'000'000'000'001}, absolute) == 1);
  CHECK(time_of(std::uint64_t{0}, absolute) == kMin);
  CHECK(time_of(std::numeric_limits<double>::quiet_NaN(), absolute) == 0);
}

TEST_CASE("rings beyond 65535 and below 0 are held at the ends", "[cloud][flat]") {
  Made made(with({field("ring", Type::kInt32)}), {{1, 1, 1, -1}, {2, 2, 2, 70000}, {3, 3, 3, 31}});
  CHECK(test::values_of<std::uint16_t>(flat_of(made.view), "ring") ==
        std::vector<std::uint16_t>{0, 65535, 31});
}

}  // namespace simbridge::cloud
