// What a Quality must not ask for (protocol.md §4, Quality).
#include "simbridge/wire/frame_head.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace simbridge::wire {
namespace {

// The numbers of the protocol's Sampling and Output.
enum Sampling : std::uint32_t {
  kSamplingUnspecified = 0,
  kSamplingVoxelCentroid = 1,
  kSamplingVoxelNearest = 2,
  kSamplingStride = 3,
  kSamplingRandom = 4,
  kSamplingVoxelFirst = 5,
};
enum Output : std::uint32_t { kOutputAsSent = 0, kOutputXyz = 1, kOutputFlat = 2 };

Verdict refuse(std::string detail) {
  return {RejectCode::kQuality, std::move(detail)};
}

// A distance or rate: a finite number from 0.
std::string fault_of_number(std::string_view name, double value) {
  if (!std::isfinite(value)) return fmt::format("{}: {} is not a finite number", name, value);
  if (value < 0) return fmt::format("{}: {} is negative", name, value);
  return {};
}

std::string fault_of_region(const std::array<Vector3, 2>& region) {
  const auto fault = [](char axis, double low, double high) -> std::string {
    if (!std::isfinite(low) || !std::isfinite(high))
      return fmt::format("region: {} from {} to {} is not finite", axis, low, high);
    if (low > high) return fmt::format("region: {} from {} to {} holds nothing", axis, low, high);
    return {};
  };
  const auto& [min, max] = region;
  if (std::string x = fault('x', min.x, max.x); !x.empty()) return x;
  if (std::string y = fault('y', min.y, max.y); !y.empty()) return y;
  return fault('z', min.z, max.z);
}

std::string fault_of_sampling(const Quality& quality) {
  const bool has_leaf = quality.leaf > 0;
  const bool has_budget = quality.max_points > 0;
  switch (quality.sampling) {
    case kSamplingUnspecified:
      break;
    case kSamplingVoxelCentroid:
    case kSamplingVoxelNearest:
    case kSamplingVoxelFirst:
      if (!has_leaf && !has_budget) return "sampling: a voxel sampling needs leaf or max_points";
      break;
    case kSamplingStride:
    case kSamplingRandom:
      if (!has_budget) return "sampling: STRIDE and RANDOM need max_points";
      if (has_leaf) return "leaf: STRIDE and RANDOM have no use for it";
      break;
    default:
      return fmt::format("sampling: {} is not known", quality.sampling);
  }
  const bool samples = quality.sampling != kSamplingUnspecified || has_leaf || has_budget;
  if (quality.keep_invalid && samples) return "keep_invalid: not together with a sampling";
  return {};
}

}  // namespace

Verdict check_quality(const Quality& quality) {
  struct Number {
    std::string_view name;
    double value;
  };
  const std::array numbers{Number{"max_hz", quality.max_hz},
                           Number{"leaf", quality.leaf},
                           Number{"min_range", quality.min_range},
                           Number{"max_range", quality.max_range}};
  for (const Number& number : numbers)
    if (std::string fault = fault_of_number(number.name, number.value); !fault.empty())
      return refuse(std::move(fault));
  if (quality.max_range > 0 && quality.max_range < quality.min_range)
    return refuse(
        fmt::format("max_range: {} is below min_range, {}", quality.max_range, quality.min_range));
  if (quality.region)
    if (std::string fault = fault_of_region(*quality.region); !fault.empty())
      return refuse(std::move(fault));
  if (std::string fault = fault_of_sampling(quality); !fault.empty())
    return refuse(std::move(fault));
  if (quality.output > kOutputFlat)
    return refuse(fmt::format("output: {} is not known", quality.output));
  if (!quality.fields.empty() && quality.output != kOutputFlat)
    return refuse("fields: only OUTPUT_FLAT can choose them");
  return {};
}

}  // namespace simbridge::wire
