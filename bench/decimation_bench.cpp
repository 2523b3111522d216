// One centroid per voxel, from raw records to packed xyz, one thread, beside PCL's two voxel grids
// on every recording. Interleaved in one process, the best of many rounds: a round finds the caches
// as the other programs left them.
#include "report.h"
#include "simbridge/client/pcd.h"
#include "simbridge/cloud/decimator.h"

#include <fmt/core.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>

#ifdef SIMBRIDGE_BENCH_PCL
#include "pcl_peers.h"
#endif

namespace simbridge::bench {
namespace {

constexpr int kRoundsMin = 20;
constexpr std::array kLeafs{0.05, 0.1, 0.2, 0.5};

struct Recording {
  std::string name;
  client::PointCloudData pcd;
  std::vector<cloud::Field> fields;
  cloud::CloudView view;
};

std::filesystem::path data_folder() {
  const char* given = std::getenv("SIMBRIDGE_TEST_DATA");
  return given != nullptr && *given != 0
             ? std::filesystem::path(given)
             : std::filesystem::path(SIMBRIDGE_SOURCE_DIR) / ".." / "shared";
}

std::vector<std::unique_ptr<Recording>> recordings() {
  struct Known {
    const char *name, *folder, *beginning;
  };
  std::vector<std::unique_ptr<Recording>> all;
  for (const auto& [name, folder, beginning] : {Known{"vlp16", "velodyne", "vlp16_scan0"},
                                                Known{"vls128", "velodyne", "vls128"},
                                                Known{"pandar64", "hesai", "pandar64"},
                                                Known{"os1-128", "ouster", "os1_128_dense_frame0"},
                                                Known{"os1-32", "ouster", "os1_32"},
                                                Known{"rgbd", "rgbd", "table_scene"}}) {
    const auto path = data_folder() / "pointclouds" / folder;
    std::error_code missing;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path, missing)) {
      if (!entry.path().filename().string().starts_with(beginning)) continue;
      auto read = client::read_pcd(entry.path());
      if (!read) continue;
      auto one = std::make_unique<Recording>();
      one->name = name;
      one->pcd = std::move(*read);
      for (const auto& field : one->pcd.fields)
        one->fields.push_back({.name = field.name,
                               .offset = field.offset,
                               .type = static_cast<cloud::Type>(field.type),
                               .count = field.count});
      one->view = {.width = one->pcd.width,
                   .height = one->pcd.height,
                   .fields = one->fields,
                   .point_step = one->pcd.point_step,
                   .row_step = one->pcd.point_step * one->pcd.width,
                   .data = std::as_bytes(std::span(one->pcd.data))};
      all.push_back(std::move(one));
      break;
    }
    if (all.empty() || all.back()->name != name)
      fmt::print(stderr, "*** {}: no recording below {}; left out ***\n", name, path.string());
  }
  return all;
}

struct Competitor {
  std::string name;
  std::function<std::uint64_t()> run;  // points that come out; 0 = it cannot
  double best_ns = std::numeric_limits<double>::infinity();
  bool can = true;
};

void race(std::vector<Competitor>& all, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Competitor& one : all) {
      if (!one.can) continue;
      const auto begin = std::chrono::steady_clock::now();
      one.can = one.run() != 0;
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      one.best_ns = std::min(one.best_ns, took.count());
    }
  }
}

struct Peer {
  const char* name;
  double every, median;  // goals, as ours / theirs
  const char *every_text, *median_text;
  std::vector<double> ratios;
};

}  // namespace

void decimation(const Settings& settings, Report& report) {
  const auto clouds = recordings();
  std::vector<Peer> peers{
      {"PCL VoxelGrid", 1 / 3.5, 1 / 4.3, "1/3.5 or less", "1/4.3 or less", {}},
      {"PCL VoxelGrid blob", 1 / 4.5, 1 / 5.5, "1/4.5 or less", "1/5.5 or less", {}}};
  auto decimator = cloud::make_cpu_decimator();
  cloud::DecimatedCloud out;
  for (const auto& recording : clouds) {
    const cloud::CloudView& view = recording->view;
    for (const double leaf : kLeafs) {
      const cloud::Request request{
          .sampling = cloud::Sampling::kVoxelCentroid, .leaf = leaf, .output = cloud::Output::kXyz};
      std::vector<Competitor> all;
      all.push_back({.name = "simbridge", .run = [&] {
                       const auto done = decimator->decimate(view, request, out);
                       return done ? out.points_out : 0;
                     }});
#ifdef SIMBRIDGE_BENCH_PCL
      all.push_back({.name = peers[0].name, .run = [&] {
                       return pcl_voxel_grid(view, leaf);
                     }});
      all.push_back({.name = peers[1].name, .run = [&] {
                       return pcl_voxel_grid_blob(view, leaf);
                     }});
#endif
      race(all, std::max(kRoundsMin, settings.repetitions));
      const auto points = static_cast<double>(view.points());
      const double ours = all[0].best_ns / points;
      for (std::size_t i = 1; i < all.size(); ++i) {
        Peer& peer = peers[i - 1];
        const double theirs = all[i].can ? all[i].best_ns / points : 0;
        if (all[i].can) peer.ratios.push_back(ours / theirs);
        report.add({.name = fmt::format("centroid {} {} m", recording->name, leaf),
                    .value = ours,
                    .unit = "ns/point",
                    .peer = all[i].can ? peer.name : "",
                    .peer_value = theirs,
                    .goal = all[i].can ? peer.every_text : "",
                    .goal_high = all[i].can ? peer.every : 0,
                    .note = all[i].can ? fmt::format("{} cells", out.points_out)
                                       : fmt::format("{} cannot number its cells", peer.name)});
      }
      if (all.size() == 1)
        report.add({.name = fmt::format("centroid {} {} m", recording->name, leaf),
                    .value = ours,
                    .unit = "ns/point",
                    .note = "libpcl-dev is not here, so no peer"});
    }
  }
  for (const Peer& peer : peers) {
    if (peer.ratios.empty()) continue;
    report.add({.name = fmt::format("centroid, median of {} cases", peer.ratios.size()),
                .value = median(peer.ratios),
                .unit = fmt::format("of {}'s time", peer.name),
                .goal = peer.median_text,
                .goal_high = peer.median,
#ifdef SIMBRIDGE_BENCH_PCL
                .note = pcl_build()
#endif
    });
  }
}

}  // namespace simbridge::bench
