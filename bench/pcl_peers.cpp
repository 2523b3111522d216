#include "pcl_peers.h"

#include <pcl/console/print.h>
#include <pcl/filters/voxel_grid.h>
#include <pcl/pcl_config.h>
#include <pcl/point_cloud.h>
#include <pcl/point_types.h>

#include <cmath>
#include <cstring>

namespace simbridge::bench {
namespace {

std::uint32_t offset_of(const cloud::CloudView& view, std::string_view name) {
  for (const auto& field : view.fields)
    if (field.name == name) return field.offset;
  return 0;
}

// What every user of PCL writes: valid points into PCL's own type.
pcl::PointCloud<pcl::PointXYZ>::Ptr converted(const cloud::CloudView& view) {
  auto points = std::make_shared<pcl::PointCloud<pcl::PointXYZ>>();
  points->resize(view.points());
  const std::uint32_t x = offset_of(view, "x");
  const std::uint32_t y = offset_of(view, "y");
  const std::uint32_t z = offset_of(view, "z");
  std::size_t count = 0;
  const std::byte* record = view.data.data();
  for (std::uint64_t i = 0; i < view.points(); ++i, record += view.point_step) {
    pcl::PointXYZ& point = (*points)[count];
    std::memcpy(&point.x, record + x, sizeof(float));
    std::memcpy(&point.y, record + y, sizeof(float));
    std::memcpy(&point.z, record + z, sizeof(float));
    const bool zero = point.x == 0 && point.y == 0 && point.z == 0;
    if (!zero && std::isfinite(point.x) && std::isfinite(point.y) && std::isfinite(point.z))
      ++count;
  }
  points->resize(count);
  points->is_dense = true;
  return points;
}

}  // namespace

std::uint64_t pcl_voxel_grid(const cloud::CloudView& view, double leaf) {
  pcl::console::setVerbosityLevel(pcl::console::L_ALWAYS);
  const auto points = converted(view);
  const auto edge = static_cast<float>(leaf);
  pcl::VoxelGrid<pcl::PointXYZ> grid;
  grid.setLeafSize(edge, edge, edge);
  grid.setInputCloud(points);
  pcl::PointCloud<pcl::PointXYZ> out;
  grid.filter(out);
  return out.size() == points->size() ? 0 : out.size();
}

std::uint64_t pcl_voxel_grid_blob(const cloud::CloudView& view, double leaf) {
  auto blob = std::make_shared<pcl::PCLPointCloud2>();
  blob->width = view.width;
  blob->height = view.height;
  blob->point_step = view.point_step;
  blob->row_step = view.point_step * view.width;
  blob->is_dense = false;
  for (const char* axis : {"x", "y", "z"}) {
    pcl::PCLPointField field;
    field.name = axis;
    field.offset = offset_of(view, axis);
    field.datatype = pcl::PCLPointField::FLOAT32;
    field.count = 1;
    blob->fields.push_back(field);
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(view.data.data());
  blob->data.assign(bytes, bytes + view.data.size());
  const auto edge = static_cast<float>(leaf);
  pcl::VoxelGrid<pcl::PCLPointCloud2> grid;
  grid.setDownsampleAllData(false);
  grid.setLeafSize(edge, edge, edge);
  grid.setInputCloud(blob);
  pcl::PCLPointCloud2 out;
  grid.filter(out);
  const std::uint64_t left = std::uint64_t{out.width} * out.height;
  return left == view.points() ? 0 : left;
}

const char* pcl_build() {
  return "PCL " PCL_VERSION_PRETTY " as distributed";
}

}  // namespace simbridge::bench
