#include "simbridge/client/quality.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace simbridge::client {
namespace {

template <typename T, std::size_t Count>
using Words = std::array<std::pair<std::string_view, T>, Count>;

constexpr Words<Sampling, 5> kSamplings{{{"centroid", Sampling::kVoxelCentroid},
                                         {"nearest", Sampling::kVoxelNearest},
                                         {"first", Sampling::kVoxelFirst},
                                         {"stride", Sampling::kStride},
                                         {"random", Sampling::kRandom}}};
constexpr Words<Output, 3> kOutputs{
    {{"as-sent", Output::kAsSent}, {"xyz", Output::kXyz}, {"flat", Output::kFlat}}};

std::unexpected<Error> wrong(std::string text) {
  return fail(ErrorCode::kInvalid, std::move(text));
}

template <typename T, std::size_t Count>
Result<T> one_of(std::string_view flag, const std::string& word, const Words<T, Count>& words) {
  if (word.empty()) return T{};
  std::string known;
  for (const auto& [name, meaning] : words) {
    if (name == word) return meaning;
    known += known.empty() ? "" : ", ";
    known += name;
  }
  return wrong(fmt::format("{} is one of {}, not \"{}\"", flag, known, word));
}

Result<Region> parse_region(std::string_view word) {
  const auto fault =
      wrong(fmt::format("--region is XMIN,YMIN,ZMIN:XMAX,YMAX,ZMAX in metres, not \"{}\"", word));
  std::array<double, 6> numbers{};
  const char* at = word.data();
  const char* const end = at + word.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) {
      if (at == end || *at != (i == 3 ? ':' : ',')) return fault;
      ++at;
    }
    const auto [stopped, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc{} || !std::isfinite(numbers[i])) return fault;
    at = stopped;
  }
  if (at != end) return fault;
  Region region;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    region.min[axis] = numbers[axis];
    region.max[axis] = numbers[axis + 3];
    if (region.min[axis] > region.max[axis])
      return wrong(fmt::format("--region: {} from {} to {} holds nothing",
                               "xyz"[axis],
                               numbers[axis],
                               numbers[axis + 3]));
  }
  return region;
}

std::string fault_of_distance(std::string_view flag, double metres) {
  if (std::isfinite(metres) && metres >= 0) return {};
  return fmt::format("{} is a number of metres, 0 or more", flag);
}

std::string fault_of_sampling(const Quality& quality) {
  switch (quality.sampling) {
    case Sampling::kUnspecified:
      return {};
    case Sampling::kStride:
    case Sampling::kRandom:
      if (quality.max_points == 0) return "--sampling stride and random need --max-points";
      if (quality.leaf > 0) return "--sampling stride and random have no use for --leaf";
      return {};
    default:
      if (quality.leaf > 0 || quality.max_points > 0) return {};
      return "--sampling centroid, nearest and first need --leaf or --max-points";
  }
}

}  // namespace

Result<Quality> parse_quality(const QualityWords& words) {
  Quality quality{.leaf = words.leaf,
                  .max_points = words.max_points,
                  .min_range = words.min_range,
                  .max_range = words.max_range};
  for (const auto& [flag, metres] : {std::pair{"--leaf", words.leaf},
                                     {"--min-range", words.min_range},
                                     {"--max-range", words.max_range}})
    if (std::string fault = fault_of_distance(flag, metres); !fault.empty())
      return wrong(std::move(fault));
  if (words.max_range > 0 && words.max_range < words.min_range)
    return wrong("--max-range is below --min-range");
  const auto sampling = one_of("--sampling", words.sampling, kSamplings);
  if (!sampling) return std::unexpected(sampling.error());
  quality.sampling = *sampling;
  const auto output = one_of("--output", words.output, kOutputs);
  if (!output) return std::unexpected(output.error());
  quality.output = *output;
  if (!words.region.empty()) {
    const auto region = parse_region(words.region);
    if (!region) return std::unexpected(region.error());
    quality.region = *region;
  }
  if (std::string fault = fault_of_sampling(quality); !fault.empty())
    return wrong(std::move(fault));
  return quality;
}

}  // namespace simbridge::client
