#include "pipeline/quality.h"

namespace simbridge::pipeline {

wire::Quality canonical(wire::Quality quality) {
  quality.max_hz = 0;
  const bool sampled = quality.leaf > 0 || quality.max_points > 0;
  if (quality.sampling == static_cast<std::uint32_t>(cloud::Sampling::kNone) && sampled)
    quality.sampling = static_cast<std::uint32_t>(cloud::Sampling::kVoxelCentroid);
  return quality;
}

cloud::Request request_of(const wire::Quality& quality) {
  const wire::Quality asked = canonical(quality);
  cloud::Request request{.sampling = static_cast<cloud::Sampling>(asked.sampling),
                         .leaf = asked.leaf,
                         .max_points = asked.max_points,
                         .min_range = asked.min_range,
                         .max_range = asked.max_range,
                         .keep_invalid = asked.keep_invalid,
                         .fields = asked.fields,
                         .output = static_cast<cloud::Output>(asked.output)};
  if (asked.region) {
    const auto& [min, max] = *asked.region;
    request.region =
        cloud::Request::Box{.min = {min.x, min.y, min.z}, .max = {max.x, max.y, max.z}};
  }
  return request;
}

}  // namespace simbridge::pipeline
