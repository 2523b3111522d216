// PCL's VoxelGrid as PCL's users call it. What stands before the grid (layout, filters) is ours, so
// that both are asked about the same points.
#include "cloud/cpu_decimator.h"

#include <fmt/format.h>
#include <pcl/filters/voxel_grid.h>
#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <limits>

namespace simbridge::cloud {
namespace {

class Pcl final : public Decimator {
 public:
  [[nodiscard]] std::string_view name() const override { return "pcl"; }
  Result<void> decimate(const CloudView& cloud,
                        const Request& request,
                        DecimatedCloud& out) override {
    if (request.sampling != Sampling::kVoxelCentroid || request.output != Output::kXyz)
      return fail(ErrorCode::kInvalid, "pcl: it gives centroids as xyz, and nothing else");
    if (auto fine = check_request(request); !fine) return fine;
    Request kept = request;
    kept.sampling = Sampling::kNone;
    kept.leaf = 0;
    if (auto done = filters_->decimate(cloud, kept, out); !done) return done;
    try {
      return thin(request.leaf, out);
    } catch (const std::exception& error) {
      return fail(ErrorCode::kInvalid, fmt::format("pcl: {}", error.what()));
    }
  }
  [[nodiscard]] std::uint64_t scratch_bytes() const override { return filters_->scratch_bytes(); }

 private:
  static Result<void> thin(double leaf, DecimatedCloud& out);

  std::unique_ptr<Decimator> filters_ = make_cpu_decimator();
};

// Beyond 2^31 cells PCL warns and returns what it was given.
bool fits(double leaf, const DecimatedCloud& cloud) {
  if (!cloud.box) return true;
  double cells = 1;
  for (std::size_t axis = 0; axis < 3; ++axis)
    cells *= std::floor(cloud.box->max[axis] / leaf) - std::floor(cloud.box->min[axis] / leaf) + 1;
  return cells < std::numeric_limits<std::int32_t>::max();
}

Result<void> Pcl::thin(double leaf, DecimatedCloud& out) {
  if (!fits(leaf, out))
    return fail(ErrorCode::kInvalid,
                fmt::format("pcl: its grid has no numbers for a leaf of {}", leaf));
  auto points = std::make_shared<pcl::PointCloud<pcl::PointXYZ>>();
  points->resize(out.points_out);
  const std::byte* from = out.data.data();
  for (pcl::PointXYZ& point : *points) {
    std::memcpy(point.data, from, 3 * sizeof(float));
    from += 3 * sizeof(float);
  }
  pcl::PointCloud<pcl::PointXYZ> thinned;
  if (!points->empty()) {
    pcl::VoxelGrid<pcl::PointXYZ> grid;
    const auto edge = static_cast<float>(leaf);
    grid.setLeafSize(edge, edge, edge);
    grid.setInputCloud(points);
    grid.filter(thinned);
  }
  out.leaf = leaf;
  out.points_out = thinned.size();
  out.width = static_cast<std::uint32_t>(thinned.size());
  out.data.resize(thinned.size() * 3 * sizeof(float));
  std::byte* to = out.data.data();
  out.box.reset();
  for (const pcl::PointXYZ& point : thinned) {
    std::memcpy(to, point.data, 3 * sizeof(float));
    to += 3 * sizeof(float);
    if (!out.box)
      out.box = DecimatedCloud::Box{.min = {point.x, point.y, point.z},
                                    .max = {point.x, point.y, point.z}};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      out.box->min[axis] = std::min(out.box->min[axis], point.data[axis]);
      out.box->max[axis] = std::max(out.box->max[axis], point.data[axis]);
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<Decimator> make_pcl_decimator() {
  return std::make_unique<Pcl>();
}

}  // namespace simbridge::cloud
