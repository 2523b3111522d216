// The rows of protocol.md §3, "Validation of a point cloud", and the order of the checks.
#include "support/seed.h"
#include "wire/judge.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace simbridge::wire {
namespace {

constexpr std::uint32_t kInt16 = 3, kUint32 = 6, kFloat32 = 7, kFloat64 = 8, kInt64 = 9, kBool = 11;
constexpr std::uint32_t kLz4 = 1, kZstd = 2, kLzf = 3, kDraco = 4;
const FrameLimits kLimits{.max_frame_bytes = 1 << 20};

/// Six points of x, y, z in one row.
FrameHead plain_cloud() {
  FrameHead head;
  head.kind = PayloadKind::kCloud;
  head.cloud.height = 1;
  head.cloud.width = 6;
  head.cloud.fields = {{"x", 0, kFloat32, 1}, {"y", 4, kFloat32, 1}, {"z", 8, kFloat32, 1}};
  head.cloud.point_step = 12;
  head.cloud.row_step = 72;
  head.data_bytes = 72;
  return head;
}

/// The same in two rows of three.
FrameHead two_rows() {
  FrameHead head = plain_cloud();
  head.cloud.height = 2;
  head.cloud.width = 3;
  head.cloud.row_step = 36;
  return head;
}

/// The same in blocks.
FrameHead blocks() {
  FrameHead head = plain_cloud();
  head.cloud.layout = 1;
  head.cloud.point_step = head.cloud.row_step = 0;
  head.cloud.fields = {{"x", 0, kFloat32, 1}, {"y", 24, kFloat32, 1}, {"z", 48, kFloat32, 1}};
  return head;
}

FrameHead depth_image() {
  FrameHead head;
  head.kind = PayloadKind::kDepth;
  head.depth = {.height = 2, .width = 3, .encoding = "16UC1", .row_step = 6, .fx = 1, .fy = 1};
  head.data_bytes = 12;
  return head;
}

struct Row {
  std::string_view what;
  std::function<void(FrameHead&)> change;
  RejectCode code = RejectCode::kUnspecified;  // accepted
  std::uint32_t warnings = 0;
  std::string_view says;  // a piece of the detail
};

void judge_rows(const FrameHead& from, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.what);
    FrameHead head = from;
    row.change(head);
    std::uint32_t warnings = 99;
    const Verdict verdict = check_payload(head, kLimits, warnings);
    INFO(verdict.detail);
    CHECK(name_of(verdict.code) == name_of(row.code));
    CHECK(verdict.detail.empty() == verdict.ok());
    if (verdict.ok()) CHECK(warnings == row.warnings);
    CHECK(verdict.detail.find(row.says) != std::string::npos);
    CHECK(test::judge_accepted_payload(head, kLimits).empty());
  }
}

}  // namespace

TEST_CASE("a cloud's size and steps are judged", "[wire][check]") {
  judge_rows(plain_cloud(),
             {
                 {"plain",
                  [](FrameHead&) {
                  }},
                 {"no points",
                  [](FrameHead& h) {
                    h.cloud.width = 0;
                  }},
                 {"no points, nothing else right",
                  [](FrameHead& h) {
                    h.cloud.height = 0;
                    h.cloud.layout = 9;
                    h.cloud.point_step = 1;
                    h.cloud.fields = {{"q", 99, 99, 1}};
                    h.data_bytes = 0;
                  }},
                 {"no points, but a size above 2^63",
                  [](FrameHead& h) {
                    h.cloud.width = 0;
                    h.cloud.height = h.cloud.row_step = ~0U;
                  },
                  RejectCode::kTooLarge},
                 {"no points, but an unknown codec",
                  [](FrameHead& h) {
                    h.cloud.width = 0;
                    h.cloud.codec = 99;
                  },
                  RejectCode::kCodec},
                 {"data a byte short",
                  [](FrameHead& h) { h.data_bytes = 71; },
                  RejectCode::kDataTooShort,
                  0,
                  "need 72 bytes, data has 71"},
                 {"data longer", [](FrameHead& h) { h.data_bytes = 73; }, {}, kWarnDataLonger},
                 {"row_step 0", [](FrameHead& h) { h.cloud.row_step = 0; }, {}, kWarnRowStep},
                 {"one row, row_step below it",
                  [](FrameHead& h) { h.cloud.row_step = 1; },
                  {},
                  kWarnRowStep},
                 {"one row, row_step far above it",
                  [](FrameHead& h) { h.cloud.row_step = ~0U; },
                  {},
                  kWarnRowStep},
                 {"point_step 0 with points",
                  [](FrameHead& h) { h.cloud.point_step = 0; },
                  RejectCode::kLayout},
                 {"a layout that is not known",
                  [](FrameHead& h) { h.cloud.layout = 2; },
                  RejectCode::kLayout,
                  0,
                  "2"},
                 {"padding behind the last field",
                  [](FrameHead& h) {
                    h.cloud.point_step = 32;
                    h.data_bytes = 192;
                    h.cloud.row_step = 192;
                  }},
                 {"more points than allowed",
                  [](FrameHead& h) {
                    h.cloud.width = (1U << 22U) + 1;
                    h.cloud.point_step = 0;
                  },
                  RejectCode::kTooLarge},
                 {"all of 32 bits",
                  [](FrameHead& h) { h.cloud.width = h.cloud.height = h.cloud.point_step = ~0U; },
                  RejectCode::kTooLarge},
                 {"points that need more than a frame may have",
                  [](FrameHead& h) { h.cloud.point_step = 1 << 20U; },
                  RejectCode::kTooLarge,
                  0,
                  "need 6291456 bytes"},
                 {"data above what a frame may have",
                  [](FrameHead& h) { h.data_bytes = (1 << 20U) + 1; },
                  RejectCode::kTooLarge},
             });
}

TEST_CASE("rows may be padded, the last one's padding may be absent", "[wire][check]") {
  judge_rows(two_rows(),
             {
                 {"tight",
                  [](FrameHead&) {
                  }},
                 {"row_step 0", [](FrameHead& h) { h.cloud.row_step = 0; }, {}, kWarnRowStep},
                 {"padded",
                  [](FrameHead& h) {
                    h.cloud.row_step = 44;
                    h.data_bytes = 88;
                  }},
                 {"padded, but not the last row",
                  [](FrameHead& h) {
                    h.cloud.row_step = 44;
                    h.data_bytes = 80;
                  }},
                 {"padded, and a byte short",
                  [](FrameHead& h) {
                    h.cloud.row_step = 44;
                    h.data_bytes = 79;
                  },
                  RejectCode::kDataTooShort},
                 {"row_step is the whole size",
                  [](FrameHead& h) { h.cloud.row_step = 72; },
                  {},
                  kWarnRowStep},
                 {"row_step too large, and data that is not exactly tight",
                  [](FrameHead& h) {
                    h.cloud.row_step = 72;
                    h.data_bytes = 73;
                  },
                  RejectCode::kDataTooShort},
                 {"row_step below a row",
                  [](FrameHead& h) { h.cloud.row_step = 35; },
                  RejectCode::kLayout,
                  0,
                  "row_step 35"},
             });
}

TEST_CASE("fields are judged", "[wire][check]") {
  const auto field = [](std::size_t at, std::uint32_t FieldHead::* member, std::uint32_t value) {
    return [=](FrameHead& h) {
      h.cloud.fields.at(at).*member = value;
    };
  };
  const auto extra = [](FieldHead added) {
    return [=](FrameHead& h) {
      h.cloud.fields.push_back(added);
    };
  };
  const auto all_types = [](std::uint32_t type) {
    return [=](FrameHead& h) {
      for (FieldHead& one : h.cloud.fields) one.type = type;
      h.cloud.fields[1].offset = 8;
      h.cloud.fields[2].offset = 16;
      h.cloud.point_step = 24;
      h.cloud.row_step = 144;
      h.data_bytes = 144;
    };
  };
  judge_rows(
      plain_cloud(),
      {
          {"z past the step",
           field(2, &FieldHead::offset, 9),
           RejectCode::kField,
           0,
           "z: it ends at byte 13, point_step is 12"},
          {"size x count wraps in 32 bits",
           extra({"big", 0, kFloat64, 0x20000001U}),
           RejectCode::kField,
           0,
           "big: it ends at byte 4294967304"},
          {"offset + size wraps in 32 bits", extra({"far", ~0U, kFloat32, 1}), RejectCode::kField},
          {"padding past the step", extra({"_", 12, 2, 1}), RejectCode::kField},
          {"a field without a name past the step", extra({"", 12, 2, 1}), RejectCode::kField},
          {"fields on top of each other", extra({"rgb", 8, kFloat32, 1})},
          {"count 0 is 1", field(0, &FieldHead::count, 0)},
          {"an unknown type has size 0", extra({"new", 12, 99, 7}), {}, kWarnUnknownFieldType},
          {"an unknown type past the step", extra({"new", 13, 99, 7}), RejectCode::kField},
          {"an unspecified type is unknown", extra({"new", 0, 0, 1}), {}, kWarnUnknownFieldType},
          {"padding of unknown type", extra({"_", 0, 0, 1})},
          {"a second x", extra({"x", 8, kInt64, 0}), RejectCode::kField},
          {"a second x that fits", extra({"x", 4, kFloat64, 1}), {}, kWarnDuplicateField},
          {"padding twice",
           [](FrameHead& h) {
             h.cloud.fields.push_back({"_", 0, 2, 1});
             h.cloud.fields.push_back({"_", 1, 2, 1});
           }},
          {"no z", [](FrameHead& h) { h.cloud.fields.pop_back(); }, RejectCode::kField},
          {"no fields", [](FrameHead& h) { h.cloud.fields.clear(); }, RejectCode::kField},
          {"x of two", field(0, &FieldHead::count, 2), RejectCode::kField, 0, "x: count 2"},
          {"x and y of two types",
           field(1, &FieldHead::type, kUint32),
           RejectCode::kField,
           0,
           "y: type 6"},
          {"x of unknown type", field(0, &FieldHead::type, 99), RejectCode::kField},
          {"float64", all_types(kFloat64)},
          {"int16", all_types(kInt16)},
          {"uint32", all_types(kUint32)},
          {"int64", all_types(kInt64), RejectCode::kField},
          {"uint64", all_types(10), RejectCode::kField},
          {"bool", all_types(kBool), RejectCode::kField},
          {"unspecified", all_types(0), RejectCode::kField},
          {"xyz",
           [](FrameHead& h) {
             h.cloud.fields = {{"xyz", 0, kFloat32, 3}};
           }},
          {"xyz of two",
           [](FrameHead& h) { h.cloud.fields = {{"xyz", 0, kFloat32, 2}}; },
           RejectCode::kField},
          {"xyz of one, as count 0",
           [](FrameHead& h) { h.cloud.fields = {{"xyz", 0, kFloat32, 0}}; },
           RejectCode::kField},
          {"xyz of bool",
           [](FrameHead& h) { h.cloud.fields = {{"xyz", 0, kBool, 3}}; },
           RejectCode::kField},
          {"x, y, z that are wrong, though xyz is right",
           [](FrameHead& h) {
             h.cloud.fields[0].count = 2;
             h.cloud.fields.push_back({"xyz", 0, kFloat32, 3});
           },
           RejectCode::kField},
          {"x and y without z, but xyz",
           [](FrameHead& h) {
             h.cloud.fields[2] = {"xyz", 0, kFloat32, 3};
           }},
      });
}

TEST_CASE("coordinates are float32, float64 or integers up to 32 bits, as x, y, z and as xyz",
          "[wire][check]") {
  for (std::uint32_t type = 0; type <= 12; ++type) {
    const bool may_be = type >= 1 && type <= kFloat64;
    for (const bool as_one : {false, true}) {
      INFO("type " << type << ", xyz " << as_one);
      FrameHead head = plain_cloud();
      head.cloud.point_step = 24;
      head.cloud.row_step = 0;
      head.data_bytes = 144;
      head.cloud.fields = {{"x", 0, type, 1}, {"y", 8, type, 1}, {"z", 16, type, 1}};
      if (as_one) head.cloud.fields = {{"xyz", 0, type, 3}};
      std::uint32_t warnings = 0;
      const Verdict verdict = check_payload(head, kLimits, warnings);
      CHECK(name_of(verdict.code) ==
            name_of(may_be ? RejectCode::kUnspecified : RejectCode::kField));
    }
  }
}

TEST_CASE("the blocks of a SOA cloud are judged", "[wire][check]") {
  const auto at = [](std::size_t index, std::uint32_t offset) {
    return [=](FrameHead& h) {
      h.cloud.fields.at(index).offset = offset;
    };
  };
  judge_rows(blocks(),
             {
                 {"three blocks",
                  [](FrameHead&) {
                  }},
                 {"one block",
                  [](FrameHead& h) {
                    h.cloud.fields = {{"xyz", 0, kFloat32, 3}};
                  }},
                 {"blocks in any order",
                  [](FrameHead& h) {
                    std::swap(h.cloud.fields[0].offset, h.cloud.fields[2].offset);
                  }},
                 {"point_step", [](FrameHead& h) { h.cloud.point_step = 4; }, RejectCode::kLayout},
                 {"row_step", [](FrameHead& h) { h.cloud.row_step = 24; }, RejectCode::kLayout},
                 {"an offset that is no multiple of 8", at(1, 28), RejectCode::kLayout, 0, "28"},
                 {"overlapping blocks",
                  at(1, 16),
                  RejectCode::kLayout,
                  0,
                  "y: its block begins at byte 16, that of x ends at 24"},
                 {"a block that reaches one byte into the next",
                  [](FrameHead& h) {
                    h.cloud.width = 9;
                    h.cloud.fields = {
                        {"xyz", 0, kFloat32, 3}, {"tag", 112, 2, 1}, {"ring", 120, 2, 1}};
                    h.data_bytes = 200;
                  },
                  RejectCode::kLayout},
                 {"padding that overlaps",
                  [](FrameHead& h) { h.cloud.fields.push_back({"_", 0, 2, 1}); },
                  RejectCode::kLayout},
                 {"a field without a name that overlaps",
                  [](FrameHead& h) { h.cloud.fields.push_back({"", 0, 2, 1}); },
                  RejectCode::kLayout},
                 {"a second x that overlaps",
                  [](FrameHead& h) { h.cloud.fields.push_back({"x", 8, 2, 1}); },
                  RejectCode::kLayout},
                 {"a second x at an offset that is no multiple of 8",
                  [](FrameHead& h) {
                    h.cloud.fields.push_back({"x", 76, 2, 1});
                    h.data_bytes = 100;
                  },
                  RejectCode::kLayout},
                 {"a second x past the end",
                  [](FrameHead& h) { h.cloud.fields.push_back({"x", 72, 2, 1}); },
                  RejectCode::kDataTooShort},
                 {"padding of unknown type that is not aligned",
                  [](FrameHead& h) { h.cloud.fields.push_back({"_", 4, 99, 1}); },
                  RejectCode::kLayout},
                 {"a block holds width x height x count values",
                  [](FrameHead& h) {
                    h.cloud.height = 2;
                    h.cloud.width = 3;
                    h.cloud.fields = {{"xyz", 0, kFloat32, 3}, {"normal", 72, kFloat32, 2}};
                    h.data_bytes = 120;
                  }},
                 {"a block of width x height x count values, a byte short",
                  [](FrameHead& h) {
                    h.cloud.height = 2;
                    h.cloud.width = 3;
                    h.cloud.fields = {{"xyz", 0, kFloat32, 3}, {"normal", 72, kFloat32, 2}};
                    h.data_bytes = 119;
                  },
                  RejectCode::kDataTooShort,
                  0,
                  "normal: its block ends at byte 120"},
                 {"a second row of points reaches into the next block",
                  [](FrameHead& h) { h.cloud.height = 2; },
                  RejectCode::kLayout},
                 {"data longer than the blocks",
                  [](FrameHead& h) {
                    h.data_bytes = 1000;
                  }},
                 {"a block past the end",
                  at(2, 56),
                  RejectCode::kDataTooShort,
                  0,
                  "z: its block ends at byte 80, data has 72"},
                 {"a block past the end, and no coordinates",
                  [](FrameHead& h) {
                    h.cloud.fields[2].offset = 56;
                    h.cloud.fields[2].name = "w";
                  },
                  RejectCode::kField},
                 {"a block of unknown type is empty",
                  [](FrameHead& h) { h.cloud.fields.push_back({"new", 8, 99, 1}); },
                  {},
                  kWarnUnknownFieldType},
                 {"a block of 2^56 bytes",
                  [](FrameHead& h) { h.cloud.fields.push_back({"big", 72, kFloat64, ~0U}); },
                  RejectCode::kDataTooShort},
                 {"compressed: blocks are not judged",
                  [](FrameHead& h) {
                    h.cloud.codec = kZstd;
                    h.cloud.raw_size = 1;
                    h.cloud.fields[1].offset = 3;
                  }},
                 {"compressed: coordinates are",
                  [](FrameHead& h) {
                    h.cloud.codec = kZstd;
                    h.cloud.fields.clear();
                  },
                  RejectCode::kField},
             });
}

TEST_CASE("codecs are judged by raw_size", "[wire][check]") {
  const auto codec = [](std::uint32_t number, std::uint64_t raw_size) {
    return [=](FrameHead& h) {
      h.cloud.codec = number;
      h.cloud.raw_size = raw_size;
      h.data_bytes = 5;
    };
  };
  judge_rows(
      plain_cloud(),
      {
          {"LZ4", codec(kLz4, 72)},
          {"ZSTD", codec(kZstd, 72)},
          {"LZF", codec(kLzf, 72)},
          {"DRACO", codec(kDraco, 72)},
          {"raw_size short", codec(kLz4, 71), RejectCode::kDataTooShort, 0, "raw_size has 71"},
          {"raw_size absent", codec(kLz4, 0), RejectCode::kDataTooShort},
          {"raw_size huge", codec(kLz4, 1ULL << 60U), RejectCode::kTooLarge},
          {"raw_size above the limit of a codec not known",
           codec(99, 1ULL << 60U),
           RejectCode::kTooLarge},
          {"a codec that is not known", codec(5, 72), RejectCode::kCodec, 0, "5"},
          {"a negative codec", codec(~0U, 72), RejectCode::kCodec},
          {"raw_size means nothing for raw data",
           [](FrameHead& h) {
             h.cloud.raw_size = 1ULL << 60U;
           }},
          {"the attributes of DRACO stand in for the fields",
           [](FrameHead& h) {
             h.cloud.codec = kDraco;
             h.cloud.fields.clear();
             h.cloud.point_step = h.cloud.row_step = 0;
           }},
      });
}

TEST_CASE("a depth image is judged", "[wire][check]") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto number = [](double DepthHead::* member, double value) {
    return [=](FrameHead& h) {
      h.depth.*member = value;
    };
  };
  judge_rows(
      depth_image(),
      {
          {"16UC1",
           [](FrameHead&) {
           }},
          {"32FC1",
           [](FrameHead& h) {
             h.depth.encoding = "32FC1";
             h.depth.row_step = 12;
             h.data_bytes = 24;
           }},
          {"row_step 0 is tight",
           [](FrameHead& h) {
             h.depth.row_step = 0;
           }},
          {"row_step below a row", [](FrameHead& h) { h.depth.row_step = 5; }, RejectCode::kField},
          {"row_step below a row of 32FC1",
           [](FrameHead& h) { h.depth.encoding = "32FC1"; },
           RejectCode::kField},
          {"another encoding",
           [](FrameHead& h) { h.depth.encoding = "rgb8"; },
           RejectCode::kField,
           0,
           "rgb8"},
          {"fx 0", number(&DepthHead::fx, 0), RejectCode::kField, 0, "fx"},
          {"fy negative", number(&DepthHead::fy, -1), RejectCode::kField, 0, "fy"},
          {"fx NaN", number(&DepthHead::fx, kNan), RejectCode::kField},
          {"fy infinite", number(&DepthHead::fy, kInf), RejectCode::kField},
          {"cx NaN", number(&DepthHead::cx, kNan), RejectCode::kField, 0, "cx"},
          {"cy infinite", number(&DepthHead::cy, -kInf), RejectCode::kField, 0, "cy"},
          {"cx negative", number(&DepthHead::cx, -100)},
          {"data short", [](FrameHead& h) { h.data_bytes = 11; }, RejectCode::kDataTooShort},
          {"data longer", [](FrameHead& h) { h.data_bytes = 13; }, {}, kWarnDataLonger},
          {"no points, nothing else right",
           [](FrameHead& h) {
             h.depth.width = 0;
             h.depth.encoding = "?";
             h.depth.fx = kNan;
           }},
          {"too many points",
           [](FrameHead& h) { h.depth.width = h.depth.height = 1 << 12U; },
           RejectCode::kTooLarge},
          {"a codec that is not known",
           [](FrameHead& h) { h.depth.codec = 9; },
           RejectCode::kCodec},
          {"compressed",
           [](FrameHead& h) {
             h.depth.codec = kLz4;
             h.depth.raw_size = 12;
             h.data_bytes = 1;
           }},
      });
}

TEST_CASE("the largest cloud is taken, and no product is trusted to fit", "[wire][check]") {
  FrameHead head = plain_cloud();
  head.cloud.width = 1U << 22U;
  head.cloud.row_step = 0;
  head.data_bytes = 12ULL << 22U;
  FrameLimits limits{.max_frame_bytes = 12ULL << 22U};
  std::uint32_t warnings = 0;
  CHECK(check_payload(head, limits, warnings).ok());
  limits.max_frame_bytes -= 1;
  CHECK(check_payload(head, limits, warnings).code == RejectCode::kTooLarge);

  // Where the limits are lifted, the products still end at 2^63.
  limits = {.max_frame_bytes = ~0ULL, .max_points = ~0ULL};
  FrameHead wide = blocks();
  wide.cloud.width = wide.cloud.height = ~0U;
  wide.cloud.fields = {{"xyz", 0, kFloat32, 3}};
  CHECK(check_payload(wide, limits, warnings).code == RejectCode::kTooLarge);
  wide = plain_cloud();
  wide.cloud.width = wide.cloud.height = wide.cloud.point_step = ~0U;
  CHECK(check_payload(wide, limits, warnings).code == RejectCode::kTooLarge);
}

TEST_CASE("an opaque frame passes unless it is too large", "[wire][check]") {
  FrameHead head;
  head.kind = PayloadKind::kOpaque;
  judge_rows(
      head,
      {
          {"empty",
           [](FrameHead&) {
           }},
          {"the largest",
           [](FrameHead& h) {
             h.data_bytes = 1 << 20U;
           }},
          {"above it", [](FrameHead& h) { h.data_bytes = (1 << 20U) + 1; }, RejectCode::kTooLarge},
      });
}

TEST_CASE("the first check that fails is the answer", "[wire][check]") {
  const auto make_short = [](FrameHead& h) {
    h.data_bytes = 1;
  };
  judge_rows(plain_cloud(),
             {
                 {"no payload before all",
                  [](FrameHead& h) { h.kind = PayloadKind::kNone; },
                  RejectCode::kUnsupported},
                 {"size before codec",
                  [](FrameHead& h) {
                    h.data_bytes = 2 << 20U;
                    h.cloud.codec = 99;
                  },
                  RejectCode::kTooLarge},
                 {"codec before layout",
                  [](FrameHead& h) {
                    h.cloud.codec = 99;
                    h.cloud.layout = 99;
                  },
                  RejectCode::kCodec},
                 {"layout before field",
                  [](FrameHead& h) {
                    h.cloud.layout = 99;
                    h.cloud.fields.clear();
                  },
                  RejectCode::kLayout},
                 {"steps before field",
                  [&](FrameHead& h) {
                    h.cloud.point_step = 0;
                    h.cloud.fields.clear();
                    make_short(h);
                  },
                  RejectCode::kLayout},
                 {"field before length",
                  [&](FrameHead& h) {
                    h.cloud.fields.clear();
                    make_short(h);
                  },
                  RejectCode::kField},
             });
}

TEST_CASE("names, header, fields and hops have limits", "[wire][check]") {
  struct Limit {
    std::string_view what;
    std::function<void(FrameHead&)> change;
    bool ok = false;
  };
  const std::string longest(255, 'n');
  const std::string too_long(257, 'n');
  const std::vector<Limit> rows{
      {"plain", [](FrameHead&) {}, true},
      {"frame_id of 256",
       [&](FrameHead& h) { h.frame_id = std::string_view(too_long).substr(1); },
       true},
      {"frame_id of 257",
       [&](FrameHead& h) {
         h.frame_id = too_long;
       }},
      {"256 fields", [](FrameHead& h) { h.cloud.fields.resize(256); }, true},
      {"257 fields",
       [](FrameHead& h) {
         h.cloud.fields.resize(257);
       }},
      {"a field name of 255", [&](FrameHead& h) { h.cloud.fields[0].name = longest; }, true},
      {"a field name of 256",
       [&](FrameHead& h) {
         h.cloud.fields[0].name = std::string_view(too_long).substr(1);
       }},
      {"a header of 64 KiB", [](FrameHead& h) { h.head_bytes = 64 << 10U; }, true},
      {"a header above 64 KiB",
       [](FrameHead& h) {
         h.head_bytes = (64 << 10U) + 1;
       }},
      {"7 bridges passed", [](FrameHead& h) { h.hops = 7; }, true},
      {"8 bridges passed",
       [](FrameHead& h) {
         h.hops = 8;
       }},
  };
  for (const Limit& row : rows) {
    INFO(row.what);
    FrameHead head = plain_cloud();
    row.change(head);
    const Verdict verdict = check_head(head, kLimits);
    CHECK(verdict.code == (row.ok ? RejectCode::kUnspecified : RejectCode::kLimit));
    CHECK(verdict.detail.empty() == row.ok);
  }
}

TEST_CASE("what is accepted can be read without leaving the data", "[wire][check]") {
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  constexpr std::array<std::string_view, 7> kNames{"x", "y", "z", "xyz", "_", "", "ring"};
  // Small numbers meet, so that clouds on either side of every border occur; some are extreme.
  const auto number = [&random](std::uint32_t below) {
    return random() % 40 == 0 ? static_cast<std::uint32_t>(random() | 0x80000000U)
                              : static_cast<std::uint32_t>(random() % below);
  };
  std::size_t accepted = 0;
  for (int round = 0; round < 300000; ++round) {
    FrameHead head = random() % 2 == 0 ? plain_cloud() : random() % 2 == 0 ? two_rows() : blocks();
    if (random() % 8 == 0) head = depth_image();
    CloudHead& cloud = head.cloud;
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      switch (random() % 9) {
        case 0:
          cloud.height = head.depth.height = number(5);
          break;
        case 1:
          cloud.width = head.depth.width = number(8);
          break;
        case 2:
          cloud.point_step = number(20);
          break;
        case 3:
          cloud.row_step = head.depth.row_step = number(90);
          break;
        case 4:
          cloud.layout = number(3);
          break;
        case 5:
          cloud.codec = head.depth.codec = number(6);
          break;
        case 6:
          cloud.raw_size = head.depth.raw_size = number(200);
          break;
        case 7:
          head.data_bytes = number(200);
          break;
        default:
          cloud.fields.push_back({.name = kNames.at(random() % kNames.size()),
                                  .offset = number(12) * (random() % 2 == 0 ? 8U : 1U),
                                  .type = number(13),
                                  .count = number(4)});
      }
    }
    std::uint32_t warnings = 0;
    accepted += check_payload(head, kLimits, warnings).ok() ? 1 : 0;
    INFO("round " << round);
    REQUIRE(test::judge_accepted_payload(head, kLimits).empty());
  }
  CHECK(accepted > 10000);
}

}  // namespace simbridge::wire
