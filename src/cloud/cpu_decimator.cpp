// The road of a cloud on the CPU: layout, then the points block by block through filters and grid,
// then the output. A cloud that meets one of the rare limits (a lying tag, very many points in a
// cell, keys made to collide) runs again on the road for it, with the same bytes at its end.
#include "cloud/cpu_decimator.h"

#include "cloud/as_sent.h"
#include "cloud/flat_plan.h"
#include "cloud/flat_values.h"
#include "cloud/unpack.h"
#include "kernels/sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace simbridge::cloud {

bool is_voxel(Sampling sampling) {
  return sampling == Sampling::kVoxelCentroid || sampling == Sampling::kVoxelNearest ||
         sampling == Sampling::kVoxelFirst;
}

std::string unsupported(const Request& request) {
  if (is_voxel(request.sampling) && request.max_points != 0)
    return "max_points: this build finds no leaf for a budget; ask for a leaf";
  kernels::Grid grid;
  if (is_voxel(request.sampling) && !kernels::make_grid(request.leaf, grid))
    return fmt::format("leaf: no grid can be made of {}", request.leaf);
  return {};
}

Result<void> check_request(const Request& request) {
  if (std::string sentence = unsupported(request); !sentence.empty())
    return fail(ErrorCode::kInvalid, std::move(sentence));
  if ((request.sampling == Sampling::kStride || request.sampling == Sampling::kRandom) &&
      request.max_points == 0)
    return fail(ErrorCode::kInvalid, "max_points: 0, but STRIDE and RANDOM need it");
  if (request.keep_invalid && request.sampling != Sampling::kNone)
    return fail(ErrorCode::kInvalid, "keep_invalid: not together with a sampling");
  return {};
}

Filter filter_of(const Request& request) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Filter filter{.min = {-kInfinity, -kInfinity, -kInfinity},
                .max = {kInfinity, kInfinity, kInfinity},
                .min_square = request.min_range * request.min_range,
                .max_square = kInfinity};
  if (request.region) {
    filter.min = request.region->min;
    filter.max = request.region->max;
  }
  if (request.max_range > 0) filter.max_square = request.max_range * request.max_range;
  filter.bounded = request.region || request.min_range > 0 || request.max_range > 0;
  const bool asks =
      filter.bounded || request.sampling != Sampling::kNone || request.output != Output::kAsSent;
  filter.drop_invalid = asks && !request.keep_invalid;
  return filter;
}

namespace {

// Scratch above this goes back once frames have been so small for a while that they could not use
// an eighth of it.
constexpr std::uint64_t kScratchKept = 16ULL << 20U;
constexpr std::uint64_t kScratchPerPoint = 128;
constexpr std::uint32_t kSmallFrames = 64;

/// The bounding box and density of what is sent.
class Extent {
 public:
  void add(float x, float y, float z) {
    if (!(std::isfinite(x) && std::isfinite(y) && std::isfinite(z))) {
      dense_ = false;
      return;
    }
    any_ = true;
    const std::array point{x, y, z};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      min_[axis] = point[axis] < min_[axis] ? point[axis] : min_[axis];
      max_[axis] = point[axis] > max_[axis] ? point[axis] : max_[axis];
    }
  }
  void tell(DecimatedCloud& out) const {
    out.is_dense = dense_;
    out.box.reset();
    if (!any_) return;
    out.box.emplace();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      out.box->min[axis] = min_[axis] + 0.0F;  // never -0: its place among zeros would tell
      out.box->max[axis] = max_[axis] + 0.0F;
    }
  }

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<float, 3> min_{kInfinity, kInfinity, kInfinity};
  std::array<float, 3> max_{-kInfinity, -kInfinity, -kInfinity};
  bool any_ = false, dense_ = true;
};

class Cpu final : public CpuDecimator {
 public:
  explicit Cpu(const CpuTuning& tuning) : tuning_(tuning), map_(tuning.voxel) {}

  [[nodiscard]] std::string_view name() const override { return "cpu"; }
  Result<void> decimate(const CloudView& cloud,
                        const Request& request,
                        DecimatedCloud& out) override {
    try {
      return run(cloud, request, out);
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::kNoMemory,
                  fmt::format("no memory to decimate {} points", cloud.points()));
    }
  }
  [[nodiscard]] std::uint64_t scratch_bytes() const override {
    return map_.bytes() + wide_sums_.bytes() + attributes_.bytes() + all_keys_.bytes() +
           all_ids_.bytes() + picked_.capacity() * sizeof(std::uint32_t);
  }
  [[nodiscard]] const CpuRoads& roads() const override { return roads_; }

 private:
  enum class Road { kTags, kExact, kSorted };
  struct Attempt {
    Road road = Road::kTags;
    bool wide = false;
  };
  enum class Outcome { kDone, kLied, kHostile, kOverflow };

  Result<void> run(const CloudView& cloud, const Request& request, DecimatedCloud& out);
  template <typename T>
  void select_all();
  void sample();
  void fill_grid();
  template <typename T>
  Outcome try_grid(const Attempt& attempt);
  template <typename T>
  void number_sorted();
  bool find_cells(const Attempt& attempt, std::uint32_t first, std::uint32_t points);
  bool add_to_cells(const Attempt& attempt, std::uint32_t first, std::uint32_t points);
  void pick_from_cells();
  [[nodiscard]] std::uint64_t points_of_cell(std::uint32_t id) const {
    return wide_ ? wide_sums_[id][3] : map_.cells()[id - 1].sums[3];
  }
  [[nodiscard]] bool averages() const { return request_->sampling == Sampling::kVoxelCentroid; }
  [[nodiscard]] std::uint32_t results() const {
    return is_voxel(request_->sampling) ? map_.size() : static_cast<std::uint32_t>(picked_.size());
  }
  void coordinates(std::uint32_t first, std::uint32_t count, CoordinateBlock<float>& block) const {
    unpack(layout_, std::span(picked_).subspan(first, count), block);
  }
  void coordinates(std::uint32_t first, std::uint32_t count, CoordinateBlock<double>& block) const;
  template <typename T, typename Use>
  void each_block_of_results(Use use) const;
  template <typename T>
  void write_points(std::byte* to, Extent& extent) const;
  void write_xyz(std::byte* to, Extent& extent) const;
  void write_xyz_only(DecimatedCloud& out) const;
  void write_flat(DecimatedCloud& out) const;
  void write_records(DecimatedCloud& out) const;
  void tidy(std::uint64_t points);

  CpuTuning tuning_;
  CpuRoads roads_;
  // Of the frame at hand.
  const CloudView* cloud_ = nullptr;
  const Request* request_ = nullptr;
  Layout layout_;
  Filter filter_;
  kernels::Grid grid_;
  Dropped dropped_;
  bool wide_ = false;
  std::vector<FlatBlock> blocks_;
  // Scratch that stays.
  VoxelMap map_;
  KeyBlock keys_{};
  CellIds ids_{};
  Buffer<std::array<std::uint64_t, 4>> wide_sums_;
  std::size_t wide_used_ = 0;
  AttributeSums attributes_;
  Buffer<std::uint64_t> all_keys_;  // of the sorted road
  Buffer<std::uint32_t> all_ids_;
  std::vector<std::uint32_t> picked_;  // the points that remain, in their order
  std::uint32_t small_frames_ = 0;
};

// ---- which points remain ----

template <typename T>
void Cpu::select_all() {
  CoordinateBlock<T> block{};
  std::array<std::uint8_t, kBlockPoints> keep{};
  picked_.resize(layout_.points);
  std::size_t count = 0;
  for (std::uint32_t first = 0; first < layout_.points; first += kBlockPoints) {
    const std::uint32_t points = std::min(kBlockPoints, layout_.points - first);
    unpack(layout_, first, points, block);
    select_points(tuning_.level, block, points, filter_, keep, dropped_);
    for (std::uint32_t i = 0; i < points; ++i) {
      picked_[count] = first + i;
      count += keep[i];
    }
  }
  picked_.resize(count);
}

void Cpu::sample() {
  const std::uint64_t n = picked_.size();
  if (n == 0) return;
  if (request_->sampling == Sampling::kStride) {
    const std::uint64_t step = kernels::stride_for(n, request_->max_points);
    std::size_t count = 0;
    for (std::uint64_t i = 0; i < n; i += step) picked_[count++] = picked_[i];
    picked_.resize(count);
  } else if (request_->sampling == Sampling::kRandom) {
    const std::uint64_t wanted = std::min(n, request_->max_points);
    for (std::uint64_t j = 0; j < wanted; ++j)  // the j-th is never before j
      picked_[j] = picked_[kernels::jittered(cloud_->sequence, j, n, wanted)];
    picked_.resize(wanted);
  }
}

void Cpu::fill_grid() {
  Attempt attempt;
  for (;;) {
    dropped_ = {};
    wide_ = attempt.wide;
    const Outcome outcome =
        has_float_coordinates(layout_) ? try_grid<float>(attempt) : try_grid<double>(attempt);
    switch (outcome) {
      case Outcome::kDone:
        return;
      case Outcome::kLied:
        attempt.road = Road::kExact;
        ++roads_.exact;
        break;
      case Outcome::kHostile:
        attempt.road = Road::kSorted;
        ++roads_.sorted;
        break;
      case Outcome::kOverflow:
        attempt.wide = true;
        ++roads_.wide;
        break;
    }
  }
}

template <typename T>
Cpu::Outcome Cpu::try_grid(const Attempt& attempt) {
  CoordinateBlock<T> block{};
  map_.clear();
  wide_used_ = 0;
  attributes_.begin(
      *cloud_, layout_, averages() ? std::span(blocks_) : std::span<FlatBlock>{}, attempt.wide);
  if (attempt.road == Road::kSorted) number_sorted<T>();
  for (std::uint32_t first = 0; first < layout_.points; first += kBlockPoints) {
    const std::uint32_t points = std::min(kBlockPoints, layout_.points - first);
    unpack(layout_, first, points, block);
    find_keys(tuning_.level, block, points, filter_, grid_, keys_, dropped_);
    if (!find_cells(attempt, first, points)) return Outcome::kHostile;
    if (!add_to_cells(attempt, first, points)) return Outcome::kLied;
  }
  if (!averages() || attempt.wide) return Outcome::kDone;
  const bool overflow = std::ranges::any_of(map_.cells(), [this](const Cell& cell) {
    return cell.sums[3] >= tuning_.voxel.narrow_points;
  });
  return overflow ? Outcome::kOverflow : Outcome::kDone;
}

// A bounded cost for keys that were made to collide: order them, and number the groups by their
// first points.
template <typename T>
void Cpu::number_sorted() {
  CoordinateBlock<T> block{};
  Dropped counted_later;
  all_keys_.need(layout_.points);
  all_ids_.need(layout_.points);
  std::vector<std::uint32_t> order;
  order.reserve(layout_.points);
  for (std::uint32_t first = 0; first < layout_.points; first += kBlockPoints) {
    const std::uint32_t points = std::min(kBlockPoints, layout_.points - first);
    unpack(layout_, first, points, block);
    find_keys(tuning_.level, block, points, filter_, grid_, keys_, counted_later);
    std::copy_n(keys_.key.begin(), points, all_keys_.data() + first);
    for (std::uint32_t i = first; i < first + points; ++i)
      if (all_keys_[i] != kernels::kNoKey) order.push_back(i);
  }
  std::ranges::sort(order, [this](std::uint32_t a, std::uint32_t b) {
    return all_keys_[a] != all_keys_[b] ? all_keys_[a] < all_keys_[b] : a < b;
  });
  // First each point's group by the group's first point, then that by its number.
  std::uint32_t leader = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || all_keys_[order[i]] != all_keys_[order[i - 1]]) leader = order[i];
    all_ids_[order[i]] = leader;
  }
  for (std::uint32_t i = 0; i < layout_.points; ++i) {
    if (all_keys_[i] == kernels::kNoKey)
      all_ids_[i] = 0;
    else if (all_ids_[i] == i)
      all_ids_[i] = map_.append(all_keys_[i], i);
    else
      all_ids_[i] = all_ids_[all_ids_[i]];
  }
}

bool Cpu::find_cells(const Attempt& attempt, std::uint32_t first, std::uint32_t points) {
  switch (attempt.road) {
    case Road::kTags:
      return map_.find(keys_, points, first, ids_);
    case Road::kExact:
      return map_.find_exactly(keys_, points, first, ids_);
    case Road::kSorted:
      std::copy_n(all_ids_.data() + first, points, ids_.begin());
      return true;
  }
  return false;
}

bool Cpu::add_to_cells(const Attempt& attempt, std::uint32_t first, std::uint32_t points) {
  bool true_tags = true;
  if (request_->sampling == Sampling::kVoxelNearest) {
    true_tags = map_.keep_nearest(keys_, points, first, ids_);
  } else if (request_->sampling == Sampling::kVoxelFirst || attempt.wide) {
    true_tags = map_.check(keys_, points, ids_);
  } else {
    true_tags = map_.add(keys_, points, ids_);
  }
  if (!true_tags) return false;
  if (attempt.wide) {
    wide_sums_.grow(std::size_t{map_.size()} + 1, wide_used_);
    for (; wide_used_ <= map_.size(); ++wide_used_) wide_sums_[wide_used_] = {};
    for (std::uint32_t i = 0; i < points; ++i)
      for (int axis = 0; axis < 4; ++axis)
        wide_sums_[ids_[i]][static_cast<std::size_t>(axis)] +=
            kernels::offset(keys_.offsets[i], axis);
  }
  if (attributes_.wanted()) attributes_.add(layout_, map_.size(), first, points, ids_);
  return true;
}

void Cpu::pick_from_cells() {
  picked_.clear();
  picked_.reserve(map_.size());
  const bool nearest = request_->sampling == Sampling::kVoxelNearest;
  for (const Cell& cell : map_.cells())
    picked_.push_back(nearest ? static_cast<std::uint32_t>(cell.nearest()) : cell.first);
}

// ---- what is sent of them ----

void Cpu::coordinates(std::uint32_t first,
                      std::uint32_t count,
                      CoordinateBlock<double>& block) const {
  if (!averages()) return unpack(layout_, std::span(picked_).subspan(first, count), block);
  constexpr std::uint64_t kExactPoints = 1U << 20U;
  const std::array axes{&block.x, &block.y, &block.z};
  const auto cells = map_.cells();
  for (std::uint32_t i = 0; i < count; ++i) {
    const Cell& cell = cells[first + i];
    for (int axis = 0; axis < 3; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t place = kernels::cell_of(cell.key, axis, grid_);
      if (!wide_) {
        (*axes[a])[i] = kernels::centroid(place, cell.sums[a], cell.sums[3], grid_.leaf);
        continue;
      }
      const auto& sums = wide_sums_[first + i + 1];
      (*axes[a])[i] = sums[3] <= kExactPoints
                          ? kernels::centroid(place, sums[a], sums[3], grid_.leaf)
                          : kernels::centroid_wide(place, sums[a], sums[3], grid_.leaf);
    }
  }
}

template <typename T, typename Use>
void Cpu::each_block_of_results(Use use) const {
  CoordinateBlock<T> block{};
  const std::uint32_t all = results();
  for (std::uint32_t first = 0; first < all; first += kBlockPoints) {
    const std::uint32_t count = std::min(kBlockPoints, all - first);
    coordinates(first, count, block);
    use(first, count, block);
  }
}

template <typename T>
void Cpu::write_points(std::byte* to, Extent& extent) const {
  each_block_of_results<T>(
      [&](std::uint32_t, std::uint32_t count, const CoordinateBlock<T>& block) {
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::array point{static_cast<float>(block.x[i]),
                                 static_cast<float>(block.y[i]),
                                 static_cast<float>(block.z[i])};
          extent.add(point[0], point[1], point[2]);
          std::memcpy(to, point.data(), sizeof point);
          to += sizeof point;
        }
      });
}

void Cpu::write_xyz(std::byte* to, Extent& extent) const {
  if (!averages() && has_float_coordinates(layout_))
    write_points<float>(to, extent);
  else
    write_points<double>(to, extent);
}

void Cpu::write_xyz_only(DecimatedCloud& out) const {
  out.soa = true;
  out.fields.resize(1);
  out.fields[0] = {.name = "xyz", .type = Type::kFloat32, .count = 3};
  out.data.resize(std::size_t{results()} * 3 * sizeof(float));
  Extent extent;
  write_xyz(out.data.data(), extent);
  extent.tell(out);
}

void Cpu::write_flat(DecimatedCloud& out) const {
  out.soa = true;
  auto blocks = blocks_;
  out.data.assign(place(blocks, results()), std::byte{0});
  out.fields.resize(blocks.size());
  Extent extent;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const FlatBlock& block = blocks[i];
    std::byte* to = out.data.data() + block.offset;
    out.fields[i].name = block.name;
    out.fields[i].offset = static_cast<std::uint32_t>(block.offset);
    out.fields[i].type = block.type;
    out.fields[i].count = block.components;
    const auto points_of = [this](std::uint32_t id) {
      return points_of_cell(id);
    };
    if (block.kind == FlatKind::kXyz)
      write_xyz(to, extent);
    else if (averages() && block.kind == FlatKind::kIntensity)
      attributes_.write_intensity(map_.size(), points_of, to);
    else if (averages() && block.kind == FlatKind::kRgba)
      attributes_.write_colour(map_.size(), points_of, to);
    else
      write_block(*cloud_, layout_, block, picked_, to);
  }
  extent.tell(out);
}

void Cpu::write_records(DecimatedCloud& out) const {
  write_as_sent(*cloud_, layout_, picked_, out);
  Extent extent;
  each_block_of_results<double>(
      [&](std::uint32_t first, std::uint32_t count, const CoordinateBlock<double>& block) {
        for (std::uint32_t i = 0; i < count; ++i)
          extent.add(static_cast<float>(block.x[i]),
                     static_cast<float>(block.y[i]),
                     static_cast<float>(block.z[i]));
        if (averages()) put_coordinates(layout_, block, first, count, out);
      });
  extent.tell(out);
}

void Cpu::tidy(std::uint64_t points) {
  const std::uint64_t held = scratch_bytes();
  if (held <= kScratchKept || points * kScratchPerPoint * 8 > held) {
    small_frames_ = 0;
    return;
  }
  if (++small_frames_ < kSmallFrames) return;
  small_frames_ = 0;
  map_.release();
  wide_sums_.release();
  attributes_.release();
  all_keys_.release();
  all_ids_.release();
  picked_ = {};
}

Result<void> Cpu::run(const CloudView& cloud, const Request& request, DecimatedCloud& out) {
  if (auto fine = check_request(request); !fine) return fine;
  if (auto resolved = resolve(cloud, layout_); !resolved) return resolved;
  cloud_ = &cloud;
  request_ = &request;
  filter_ = filter_of(request);
  dropped_ = {};
  wide_ = false;
  out.warnings = 0;
  blocks_.clear();
  if (request.output == Output::kFlat)
    blocks_ = plan_flat(cloud, layout_, request.fields, out.warnings);
  if (is_voxel(request.sampling)) {
    kernels::make_grid(request.leaf, grid_);
    fill_grid();
    if (request.output == Output::kXyz && averages())
      picked_.clear();  // nobody asks which points they were
    else
      pick_from_cells();
  } else {
    if (has_float_coordinates(layout_))
      select_all<float>();
    else
      select_all<double>();
    sample();
  }
  out.big_endian = false;
  out.point_step = 0;
  if (request.output == Output::kXyz)
    write_xyz_only(out);
  else if (request.output == Output::kFlat)
    write_flat(out);
  else
    write_records(out);

  // Rows stay where the request itself can take no point out of them.
  const bool keeps_rows =
      request.sampling == Sampling::kNone && !filter_.bounded && !filter_.drop_invalid;
  out.points_in = cloud.points();
  out.points_out = results();
  out.width = keeps_rows ? cloud.width : static_cast<std::uint32_t>(out.points_out);
  out.height = keeps_rows ? cloud.height : 1;
  out.row_step = out.soa ? 0 : out.width * out.point_step;
  out.dropped_nonfinite = dropped_.nonfinite;
  out.dropped_zero = dropped_.zero;
  out.dropped_region = dropped_.region;
  out.dropped_extent = dropped_.extent;
  out.leaf = is_voxel(request.sampling) ? request.leaf : 0;
  tidy(layout_.points);
  return {};
}

}  // namespace

std::unique_ptr<CpuDecimator> make_cpu_decimator(const CpuTuning& tuning) {
  return std::make_unique<Cpu>(tuning);
}

std::unique_ptr<Decimator> make_cpu_decimator() {
  return make_cpu_decimator(CpuTuning{});
}

}  // namespace simbridge::cloud
