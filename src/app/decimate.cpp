#include "app/decimate.h"

#include "app/serve.h"
#include "simbridge/client/pcd.h"
#include "simbridge/client/raw_cloud.h"
#include "simbridge/cloud/decimator.h"

#include <fmt/format.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace simbridge::app {
namespace {

int say(int exit, std::string_view text) {
  fmt::print(stderr, "simbridge decimate: {}\n", text);
  return exit;
}

cloud::Request request_of(const client::Quality& quality) {
  cloud::Request request{.sampling = static_cast<cloud::Sampling>(quality.sampling),
                         .leaf = quality.leaf,
                         .max_points = quality.max_points,
                         .min_range = quality.min_range,
                         .max_range = quality.max_range,
                         .output = static_cast<cloud::Output>(quality.output)};
  if (quality.sampling == client::Sampling::kUnspecified &&
      (quality.leaf > 0 || quality.max_points > 0))
    request.sampling = cloud::Sampling::kVoxelCentroid;
  if (quality.region)
    request.region = cloud::Request::Box{.min = quality.region->min, .max = quality.region->max};
  return request;
}

/// "pcl" is there where CMake's SIMBRIDGE_PCL put it into this program.
std::unique_ptr<cloud::Decimator> make_decimator(const std::string& implementation) {
#ifdef SIMBRIDGE_PCL
  if (implementation == "pcl") return cloud::make_pcl_decimator();
#endif
  return implementation == "cpu" ? cloud::make_cpu_decimator() : nullptr;
}

cloud::CloudView view_of(const client::PointCloudData& pcd, std::vector<cloud::Field>& fields) {
  for (const auto& field : pcd.fields)
    fields.push_back({.name = field.name,
                      .offset = field.offset,
                      .type = static_cast<cloud::Type>(field.type),
                      .count = field.count});
  return {.width = pcd.width,
          .height = pcd.height,
          .fields = fields,
          .point_step = pcd.point_step,
          .row_step = pcd.point_step * pcd.width,
          .data = std::as_bytes(std::span(pcd.data))};
}

Result<client::PointCloudData> records_of(const cloud::DecimatedCloud& cloud,
                                          const client::Viewpoint& viewpoint) {
  client::RawCloud raw{
      .width = cloud.width,
      .height = cloud.height,
      .point_step = cloud.point_step,
      .row_step = cloud.row_step,
      .big_endian = cloud.big_endian,
      .soa = cloud.soa,
      .viewpoint = viewpoint,
      .data = {reinterpret_cast<const char*>(cloud.data.data()), cloud.data.size()}};
  for (const auto& field : cloud.fields)
    raw.fields.push_back({.name = field.name,
                          .offset = field.offset,
                          .type = static_cast<client::FieldType>(field.type),
                          .count = field.count});
  return client::to_records(raw);
}

// Whole or not at all: a file that was there stays until the new one is.
Result<void> write_file(const std::filesystem::path& path, std::string_view bytes) {
  auto unfinished = path;
  unfinished += fmt::format(".{}.part", ::getpid());
  std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code error;
  if (out) {
    std::filesystem::rename(unfinished, path, error);
    if (!error) return {};
  }
  const std::string why = error ? error.message() : errno_text();
  std::filesystem::remove(unfinished, error);
  return fail(ErrorCode::kSystem, fmt::format("cannot write {}: {}", path.string(), why));
}

std::string told(const cloud::DecimatedCloud& cloud, std::string_view name, double ms) {
  std::string text = fmt::format("{} points in, {} out", cloud.points_in, cloud.points_out);
  if (cloud.leaf > 0) text += fmt::format(", leaf {} m", cloud.leaf);
  for (const auto& [reason, count] : {std::pair{"not finite", cloud.dropped_nonfinite},
                                      std::pair{"zero", cloud.dropped_zero},
                                      std::pair{"outside", cloud.dropped_region},
                                      std::pair{"beyond the grid", cloud.dropped_extent}})
    if (count > 0) text += fmt::format(", {} {}", count, reason);
  return text + fmt::format("; {}, {:.2f} ms", name, ms);
}

}  // namespace

int decimate(const DecimateOptions& options) {
  const auto quality = client::parse_quality(options.quality);
  if (!quality) return say(kExitConfiguration, quality.error().detail);
  const auto request = request_of(*quality);
  if (const std::string cannot = cloud::unsupported(request); !cannot.empty())
    return say(kExitConfiguration, cannot);
  const auto decimator = make_decimator(options.implementation);
  if (!decimator)
    return say(kExitConfiguration,
               fmt::format("--implementation {}: not in this program; configure it with "
                           "-DSIMBRIDGE_PCL=ON, with libpcl-dev installed",
                           options.implementation));
  const auto pcd = client::read_pcd(options.in);
  if (!pcd) return say(kExitFailed, pcd.error().detail);

  std::vector<cloud::Field> fields;
  const auto view = view_of(*pcd, fields);
  cloud::DecimatedCloud result;
  const auto begin = std::chrono::steady_clock::now();
  if (const auto done = decimator->decimate(view, request, result); !done)
    return say(kExitFailed, fmt::format("{}: {}", options.in, done.error().detail));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;

  const auto records = records_of(result, pcd->viewpoint);
  if (!records) return say(kExitFailed, fmt::format("{}: {}", options.out, records.error().detail));
  const auto file = client::format_pcd(*records, client::PcdForm::kBinary);
  if (!file) return say(kExitFailed, fmt::format("{}: {}", options.out, file.error().detail));
  if (const auto written = write_file(options.out, *file); !written)
    return say(kExitFailed, written.error().detail);
  fmt::print("{}\n", told(result, decimator->name(), took.count()));
  return kExitDone;
}

}  // namespace simbridge::app
