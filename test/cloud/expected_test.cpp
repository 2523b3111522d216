#include "client/sha256.h"
#include "cloud/clouds.h"
#include "cloud/cpu_decimator.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

namespace simbridge::cloud {
namespace {

TEST_CASE(
    "the centroids of every recording and leaf have the published bytes at every level of "
    "instructions",
    "[cloud][expected]") {
  const auto expected_file = test::data("pointclouds/EXPECTED.json");
  if (!expected_file) return;
  const auto expected = nlohmann::json::parse(std::ifstream(*expected_file));
  std::size_t compared = 0;
  for (const auto& entry : expected) {
    const auto path = expected_file->parent_path() / entry.at("file").get<std::string>();
    auto read = client::read_pcd(path);
    INFO(path.string());
    REQUIRE(read.has_value());
    const test::Recording recording(std::move(*read));
    REQUIRE(recording.view.points() == entry.at("points").get<std::uint64_t>());
    for (const Level level : levels_here()) {
      INFO("level " << name_of(level));
      auto decimator = make_cpu_decimator({.level = level});
      DecimatedCloud out;
      for (const auto& [leaf, answer] : entry.at("voxel_centroid").items()) {
        INFO("leaf " << leaf);
        const Request request{
            .sampling = Sampling::kVoxelCentroid, .leaf = std::stod(leaf), .output = Output::kXyz};
        REQUIRE(decimator->decimate(recording.view, request, out).has_value());
        CHECK(out.points_out == answer.at("points").get<std::uint64_t>());
        CHECK(client::sha256_hex(test::text_of(out.data)) ==
              answer.at("sha256").get<std::string>());
        ++compared;
      }
    }
  }
  CHECK(compared >= 60);
}

}  // namespace
}  // namespace simbridge::cloud
