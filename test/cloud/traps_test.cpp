// The traps of decimation by voxels, one by one: what other implementations are known to get wrong.
#include "cloud/cpu_decimator.h"
#include "cloud/made.h"
#include "cloud/naive.h"
#include "kernels/sample.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <tuple>

namespace simbridge::cloud {
namespace {

using test::Made;
using test::xyz_fields;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

DecimatedCloud decimated(const CloudView& view, const Request& request) {
  DecimatedCloud out;
  const auto done = make_cpu_decimator()->decimate(view, request, out);
  INFO((done ? "" : done.error().detail));
  REQUIRE(done.has_value());
  REQUIRE(test::difference(out, test::decimate_naively(view, request)) == "");
  return out;
}

Request centroid(double leaf, Output output = Output::kXyz) {
  return {.sampling = Sampling::kVoxelCentroid, .leaf = leaf, .output = output};
}

}  // namespace

TEST_CASE("cells reach to the floor: points on both sides of zero are in different cells",
          "[cloud][traps]") {
  const Made made(xyz_fields(), {{0.05, 0, 1}, {-0.05, 0, 1}, {0.02, -0.0, 1}, {-0.0, 0.0, 1}});
  const auto out = decimated(made.view, centroid(0.1));
  CHECK(out.points_out == 2);
  const auto xyz = test::values_of<float>(out, "xyz");
  CHECK(xyz[0] == Approx(0.07 / 3).margin(1e-6));
  CHECK(xyz[3] == Approx(-0.05).margin(1e-6));
}

TEST_CASE("what is no number, no return, or beyond the grid is dropped and counted by its reason",
          "[cloud][traps]") {
  const double edge = 1048576 * 0.5;  // 2^20 cells
  const Made made(xyz_fields(),
                  {{kNan, 0, 0},
                   {0, kInfinity, 0},
                   {0, 0, -kInfinity},
                   {0, -0.0, 0},
                   {edge, 0, 0},
                   {1e38, 0, 0},
                   {-edge, 0, 0},
                   {std::nextafter(static_cast<float>(-edge), -1e9F), 0, 0},
                   {1, 2, 3}});
  const auto out = decimated(made.view, centroid(0.5));
  CHECK(out.points_in == 9);
  CHECK(out.dropped_nonfinite == 3);
  CHECK(out.dropped_zero == 1);
  CHECK(out.dropped_extent == 3);
  CHECK(out.points_out == 2);
  CHECK(out.is_dense);
}

TEST_CASE("a cloud that loses every point is a valid empty cloud in every output",
          "[cloud][traps]") {
  const Made made(xyz_fields(), {{kNan, 0, 0}, {0, 0, 0}});
  for (const Output output : {Output::kAsSent, Output::kXyz, Output::kFlat}) {
    for (const Sampling sampling : {Sampling::kNone, Sampling::kVoxelCentroid}) {
      const Request request{.sampling = sampling,
                            .leaf = sampling == Sampling::kNone ? 0 : 0.1,
                            .max_range = 100,
                            .output = output};
      const auto out = decimated(made.view, request);
      CHECK(out.points_out == 0);
      CHECK(out.data.empty());
      CHECK(out.width == 0);
      CHECK_FALSE(out.box);
      CHECK_FALSE(out.fields.empty());
    }
  }
}

TEST_CASE("a cloud of no points passes whatever its fields and steps say", "[cloud][traps]") {
  const std::vector<Field> nonsense{{.name = "x", .offset = 4000000000, .type = Type::kBool},
                                    {.name = "ring", .offset = 7, .type = static_cast<Type>(99)}};
  for (const bool soa : {false, true}) {
    const CloudView view{.width = 0, .height = 5, .fields = nonsense, .row_step = 3, .soa = soa};
    for (const Output output : {Output::kAsSent, Output::kXyz, Output::kFlat}) {
      DecimatedCloud out;
      REQUIRE(make_cpu_decimator()->decimate(view, centroid(0.1, output), out).has_value());
      CHECK(out.points_out == 0);
      CHECK(out.data.empty());
    }
  }
}

TEST_CASE("a view that breaks its promises is refused before a byte of it is read",
          "[cloud][traps]") {
  const Made made(xyz_fields(), {{1, 2, 3}, {4, 5, 6}});
  const auto refused = [&](auto change) {
    CloudView view = made.view;
    auto fields = made.fields;
    change(view, fields);
    view.fields = fields;
    DecimatedCloud out;
    const auto done = make_cpu_decimator()->decimate(view, centroid(0.1), out);
    return !done && done.error().code == ErrorCode::kInvalid;
  };
  using Fields = std::vector<Field>;
  CHECK(refused([](CloudView& v, Fields&) { v.data = v.data.first(23); }));
  CHECK(refused([](CloudView& v, Fields&) { v.width = 4000000000; }));
  CHECK(refused([](CloudView& v, Fields&) { v.point_step = 11; }));
  CHECK(refused([](CloudView& v, Fields&) { v.point_step = 0; }));
  CHECK(refused([](CloudView& v, Fields&) {
    v.height = 2;
    v.row_step = 0;
    v.width = 1;
  }));
  CHECK(refused([](CloudView&, Fields& f) { f[1].offset = 0xFFFFFFFF; }));
  CHECK(refused([](CloudView&, Fields& f) { f[1].count = 0x80000000; }));
  CHECK(refused([](CloudView&, Fields& f) { f[1].type = Type::kFloat64; }));
  CHECK(refused([](CloudView&, Fields& f) { f[0].name = "u"; }));
  CHECK(refused([](CloudView& v, Fields& f) {
    v.soa = true;
    f[2].offset = 24;
  }));
}

TEST_CASE("a request that contradicts itself is refused with a sentence", "[cloud][traps]") {
  const Made made(xyz_fields(), {{1, 2, 3}});
  const auto refusal = [&](const Request& request) {
    DecimatedCloud out;
    const auto done = make_cpu_decimator()->decimate(made.view, request, out);
    return done ? std::string() : done.error().detail;
  };
  for (const double leaf : {0.0, -0.1, kNan, kInfinity, 1e-310, 5e-324})
    CHECK(refusal(centroid(leaf)).starts_with("leaf: "));
  CHECK(refusal({.sampling = Sampling::kStride}).starts_with("max_points: "));
  CHECK(refusal({.sampling = Sampling::kRandom, .max_points = 3, .keep_invalid = true})
            .starts_with("keep_invalid: "));
  CHECK(unsupported(centroid(0.1)).empty());
}

TEST_CASE("a million equal points, and more than 2^20, make one exact centroid", "[cloud][traps]") {
  for (const std::uint32_t points : {65535U, 65536U, 65537U, 1000000U, 1048577U}) {
    std::vector<float> xyz;
    for (std::uint32_t i = 0; i < points; ++i) xyz.insert(xyz.end(), {1.5F, -2.25F, 0.125F});
    const auto fields = std::vector<Field>{{.name = "xyz", .type = Type::kFloat32, .count = 3}};
    const CloudView view{.width = points,
                         .height = 1,
                         .fields = fields,
                         .point_step = 12,
                         .row_step = 12 * points,
                         .data = std::as_bytes(std::span(xyz))};
    auto decimator = make_cpu_decimator(CpuTuning{});
    DecimatedCloud out;
    REQUIRE(decimator->decimate(view, centroid(4), out).has_value());
    CHECK(out.points_out == 1);
    CHECK(decimator->roads().wide == (points < 65536 ? 0 : 1));
    // Each offset is exact here; the half quantum of 4 m / 65536 is all that is added.
    const double half = 4.0 / 131072;
    CHECK(test::values_of<float>(out, "xyz") ==
          std::vector<float>{static_cast<float>(1.5 + half),
                             static_cast<float>(-2.25 + half),
                             static_cast<float>(0.125 + half)});
  }
}

TEST_CASE("a wall and a column of cells need few probes", "[cloud][traps]") {
  std::vector<std::vector<double>> rows;
  for (int i = 0; i < 20000; ++i) rows.push_back({0.05, 0.05, 0.1 * i + 0.05});
  for (int i = 0; i < 150; ++i)
    for (int j = 0; j < 150; ++j) rows.push_back({0.1 * i + 0.05, 7.05, 0.1 * j + 0.05});
  const Made made(xyz_fields(), rows);
  auto decimator = make_cpu_decimator(CpuTuning{.voxel = {.probes_max = 24}});
  DecimatedCloud out;
  REQUIRE(decimator->decimate(made.view, centroid(0.1), out).has_value());
  CHECK(decimator->roads().sorted == 0);
  CHECK(out.points_out == 42500);
}

TEST_CASE("a cloud made to collide in the table costs a sort, and comes out the same",
          "[cloud][traps]") {
  // Numbers whose product with the table's factor begins alike: the factor's inverse finds them.
  std::uint64_t inverse = kernels::kGolden;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kernels::kGolden * inverse;
  REQUIRE(inverse * kernels::kGolden == 1);
  std::mt19937_64 random(7);
  std::vector<std::vector<double>> rows;
  while (rows.size() < 4000) {
    const std::uint64_t key = ((std::uint64_t{0x5A5A5} << 44U) | random() >> 20U) * inverse;
    if (key >> 63U != 0) continue;
    const auto cell = [&](int axis) {
      return static_cast<double>(key >> (21 * axis) & 0x1FFFFFU) - 1048576 + 0.5;
    };
    rows.push_back({cell(0), cell(1), cell(2)});
    if (rows.size() % 3 == 0) rows.push_back(rows[rows.size() / 2]);
  }
  const Made made(xyz_fields(Type::kFloat64), rows);
  auto decimator = make_cpu_decimator(CpuTuning{});
  for (const Sampling sampling :
       {Sampling::kVoxelCentroid, Sampling::kVoxelNearest, Sampling::kVoxelFirst}) {
    const Request request{.sampling = sampling, .leaf = 1, .output = Output::kXyz};
    DecimatedCloud out;
    REQUIRE(decimator->decimate(made.view, request, out).has_value());
    CHECK(test::difference(out, test::decimate_naively(made.view, request)) == "");
  }
  CHECK(decimator->roads().sorted == 3);
}

TEST_CASE(
    "a decimator that has seen a large cloud gives a small one the same bytes, and lets go "
    "of what it no longer needs",
    "[cloud][traps]") {
  std::mt19937_64 random(3);
  const auto cloud_of = [&](std::size_t points) {
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < points; ++i)
      rows.push_back({static_cast<double>(random() % 100000) / 100,
                      static_cast<double>(random() % 100000) / 100,
                      static_cast<double>(random() % 100) / 100});
    return rows;
  };
  const Made large(xyz_fields(), cloud_of(300000));
  const Made small(xyz_fields(), cloud_of(500));
  auto kept = make_cpu_decimator();
  DecimatedCloud out;
  DecimatedCloud fresh;
  const auto same_as_fresh = [&](const Made& made) {
    REQUIRE(kept->decimate(made.view, centroid(0.5), out).has_value());
    REQUIRE(make_cpu_decimator()->decimate(made.view, centroid(0.5), fresh).has_value());
    CHECK(test::difference(out, fresh) == "");
  };
  same_as_fresh(small);
  same_as_fresh(large);
  const std::uint64_t at_most = kept->scratch_bytes();
  CHECK(at_most < 300000 * 200);
  for (int frame = 0; frame < 70; ++frame) same_as_fresh(small);
  CHECK(kept->scratch_bytes() < at_most / 8);
  same_as_fresh(large);
}

TEST_CASE("integer coordinates come out as integers, rounded half to even", "[cloud][traps]") {
  for (const auto& [value, rounded] : std::vector<std::pair<double, int>>{
           {0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {127.6, 127}, {-300, -128}})
    CHECK(rounded_to<std::int8_t>(value) == rounded);
  CHECK(rounded_to<std::uint32_t>(-1) == 0);
  CHECK(rounded_to<std::uint32_t>(1e300) == 0xFFFFFFFFU);
  CHECK(rounded_to<std::uint16_t>(65534.5) == 65534);
  const Made made(xyz_fields(Type::kInt16), {{100, -3, 5}, {101, -4, 5}, {103, -3, 7}});
  const auto out = decimated(made.view, centroid(1000, Output::kAsSent));
  CHECK(out.points_out == 1);
  CHECK(test::values_of<std::int16_t>(out, "x") == std::vector<std::int16_t>{101});
  CHECK(test::values_of<std::int16_t>(out, "y") == std::vector<std::int16_t>{-3});
}

TEST_CASE(
    "invalid points are kept in their rows where a consumer asks for that, whatever the "
    "region",
    "[cloud][filters]") {
  const Made made(xyz_fields(), {{1, 2, 3}, {kNan, 0, 0}, {0, 0, 0}, {50, 0, 0}});
  CloudView view = made.view;
  view.width = 2;
  view.height = 2;
  view.row_step = 24;
  auto out = decimated(view, {.keep_invalid = true, .output = Output::kXyz});
  CHECK(std::tuple(out.width, out.height, out.is_dense) == std::tuple(2U, 2U, false));
  CHECK(out.dropped_nonfinite + out.dropped_zero == 0);
  out = decimated(view, {.max_range = 10, .keep_invalid = true, .output = Output::kXyz});
  CHECK(std::tuple(out.width, out.height, out.dropped_region) == std::tuple(3U, 1U, 1U));
  out = decimated(view, {.max_range = 10, .output = Output::kXyz});
  CHECK(std::tuple(out.width, out.dropped_nonfinite, out.dropped_zero, out.dropped_region) ==
        std::tuple(1U, 1U, 1U, 1U));
}

TEST_CASE("region and ranges take their borders in", "[cloud][filters]") {
  const Made made(
      xyz_fields(),
      {{1, 0, 0}, {2, 0, 0}, {std::nextafter(2.0F, 3.0F), 0, 0}, {0.5, 0, 0}, {0, -2, 0}});
  const auto ranged = decimated(made.view, {.min_range = 1, .max_range = 2});
  CHECK(ranged.points_out == 3);
  CHECK(ranged.dropped_region == 2);
  const auto boxed =
      decimated(made.view, {.region = Request::Box{.min = {0.5, 0, 0}, .max = {2, 0, 0}}});
  CHECK(boxed.points_out == 3);
  REQUIRE(boxed.box.has_value());
  CHECK(boxed.box->min == std::array{0.5F, 0.0F, 0.0F});
  CHECK(boxed.box->max == std::array{2.0F, 0.0F, 0.0F});
}

TEST_CASE("a float64 record gets the mean as it is before float32", "[cloud][traps]") {
  const Made made(xyz_fields(Type::kFloat64), {{1000.1, 5, 5}, {1000.2, 5, 5}, {1000.2, 5, 5}});
  const auto out = decimated(made.view, centroid(1, Output::kAsSent));
  const auto x = test::values_of<double>(out, "x");
  REQUIRE(x.size() == 1);
  CHECK(x[0] == Approx(1000.5 / 3 + 1000 * 2.0 / 3).margin(1e-4));
  CHECK(static_cast<double>(static_cast<float>(x[0])) != x[0]);
}

}  // namespace simbridge::cloud
