// The protocol's cases that say which points a consumer must see.
#include "cloud/cpu_decimator.h"
#include "cloud/made.h"
#include "support/source_dir.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "simbridge/v1/bridge.pb.h"

#include <fstream>
#include <iterator>

namespace simbridge::cloud {
namespace {

CloudView view_of(const v1::Frame& frame, std::vector<Field>& fields) {
  const v1::PointCloud& cloud = frame.cloud();
  for (const auto& field : cloud.fields())
    fields.push_back({.name = field.name(),
                      .offset = field.offset(),
                      .type = static_cast<Type>(field.type()),
                      .count = field.count() == 0 ? 1 : field.count()});
  const auto& data = cloud.data();
  const std::uint64_t tight = std::uint64_t{cloud.width()} * cloud.point_step();
  const bool read_as_tight = cloud.row_step() == 0 || cloud.height() == 1 ||
                             (std::uint64_t{cloud.row_step()} * cloud.height() > data.size() &&
                              cloud.height() * tight == data.size());
  return {.width = cloud.width(),
          .height = cloud.height(),
          .fields = fields,
          .point_step = cloud.point_step(),
          .row_step = read_as_tight ? static_cast<std::uint32_t>(tight) : cloud.row_step(),
          .big_endian = cloud.is_bigendian(),
          .soa = cloud.layout() == v1::LAYOUT_SOA,
          .data = std::as_bytes(std::span(data))};
}

}  // namespace

TEST_CASE("the points of the protocol's cases come out as the cases say", "[cloud][protocol]") {
  const auto folder = test::source_dir() / "test/protocol/cases";
  const auto cases = nlohmann::json::parse(std::ifstream(folder / "cases.json"));
  std::size_t compared = 0;
  for (const auto& each : cases) {
    const auto file = each.at("file").get<std::string>();
    if (!each.contains("xyz") || !each.at("xyz").is_array() || file.ends_with(".flat.bin"))
      continue;
    std::ifstream in(folder / file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    v1::ClientMessage message;
    REQUIRE(message.ParseFromString(bytes));
    if (!message.frame().has_cloud()) continue;
    INFO(file);
    std::vector<Field> fields;
    const CloudView view = view_of(message.frame(), fields);
    std::vector<float> wanted;
    for (const auto& point : each.at("xyz"))
      for (const auto& value : point) wanted.push_back(value.get<float>());
    for (const Output output : {Output::kXyz, Output::kFlat}) {
      DecimatedCloud out;
      REQUIRE(make_cpu_decimator()->decimate(view, {.output = output}, out).has_value());
      CHECK(test::values_of<float>(out, "xyz") == wanted);
      CHECK(out.points_out * 3 == wanted.size());
    }
    ++compared;
  }
  CHECK(compared >= 35);
}

}  // namespace simbridge::cloud
