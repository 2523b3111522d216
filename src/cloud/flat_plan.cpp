#include "cloud/flat_plan.h"

#include "simbridge/base/crc32c.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace simbridge::cloud {
namespace {

constexpr std::size_t kNameMax = 16;
constexpr std::size_t kNameKept = 12;
constexpr std::uint32_t kComponentsMax = 255;
// Names that mean something in a flat message, or could.
constexpr std::array<std::string_view, 7> kTaken{
    "xyz", "intensity", "rgba", "ring", "time", "payload", "depth"};

class Planner {
 public:
  Planner(const CloudView& cloud, const Layout& layout) : cloud_(cloud), layout_(layout) {}

  std::vector<FlatBlock> run(std::uint32_t& warnings);

 private:
  static constexpr std::size_t kNone = Layout::kNoField;

  [[nodiscard]] std::size_t first_named(std::string_view name) const {
    const auto found = std::ranges::find(cloud_.fields, name, &Field::name);
    return found == cloud_.fields.end() ? kNone
                                        : static_cast<std::size_t>(found - cloud_.fields.begin());
  }
  [[nodiscard]] const Field& field(std::size_t index) const { return cloud_.fields[index]; }
  [[nodiscard]] bool is_single_number(std::size_t index) const {
    return index != kNone && field(index).count == 1 && is_number(field(index).type);
  }
  [[nodiscard]] bool is_colour(std::size_t index) const {
    if (index == kNone) return false;
    const Field& f = field(index);
    if (f.type == Type::kUint8) return f.count == 4;
    return f.count == 1 &&
           (f.type == Type::kFloat32 || f.type == Type::kInt32 || f.type == Type::kUint32);
  }
  [[nodiscard]] bool is_duplicate(std::size_t index) const {
    return first_named(field(index).name) != index;
  }
  void add(
      FlatKind kind, std::size_t source, std::string name, Type type, std::uint32_t components);
  void add_special();
  void add_other(std::size_t index, std::uint32_t& warnings);

  const CloudView& cloud_;
  const Layout& layout_;
  std::vector<FlatBlock> blocks_;
  std::vector<std::size_t> used_;  // fields that stand under a name of the protocol
};

void Planner::add(
    FlatKind kind, std::size_t source, std::string name, Type type, std::uint32_t components) {
  blocks_.push_back({.kind = kind,
                     .field = source,
                     .name = std::move(name),
                     .type = type,
                     .components = components});
  if (source != kNone) used_.push_back(source);
}

void Planner::add_special() {
  add(FlatKind::kXyz, kNone, "xyz", Type::kFloat32, 3);
  if (const auto intensity = first_named("intensity"); is_single_number(intensity))
    add(FlatKind::kIntensity, intensity, "intensity", Type::kFloat32, 1);
  // The one that bears the name, before the one without alpha.
  for (const std::string_view name : {"rgba", "rgb"}) {
    if (const auto colour = first_named(name); is_colour(colour)) {
      add(FlatKind::kRgba, colour, "rgba", Type::kUint8, 4);
      break;
    }
  }
  if (const auto ring = first_named("ring");
      ring != kNone && field(ring).count == 1 && is_integer(field(ring).type))
    add(FlatKind::kRing, ring, "ring", Type::kUint16, 1);
  if (cloud_.time_field.empty() || is_padding(cloud_.time_field)) return;
  if (const auto time = first_named(cloud_.time_field); is_single_number(time))
    add(FlatKind::kTime, time, "time", Type::kInt32, 1);
}

void Planner::add_other(std::size_t index, std::uint32_t& warnings) {
  const Field& f = field(index);
  if (is_padding(f.name) || layout_.is_coordinate(index) || is_duplicate(index) ||
      std::ranges::find(used_, index) != used_.end())
    return;
  const bool false_friend =
      std::ranges::find(kTaken, f.name) != kTaken.end() || f.name.starts_with('#');
  std::string name = short_name((false_friend ? "_" : "") + std::string(f.name));
  if (size_of(f.type) == 0 || f.count > kComponentsMax ||
      std::ranges::find(blocks_, name, &FlatBlock::name) != blocks_.end()) {
    warnings |= DecimatedCloud::kFieldLeftOut;
    return;
  }
  blocks_.push_back({.kind = FlatKind::kOther,
                     .field = index,
                     .name = std::move(name),
                     .type = f.type,
                     .components = f.count});
}

std::vector<FlatBlock> Planner::run(std::uint32_t& warnings) {
  add_special();
  const bool has_time = blocks_.back().kind == FlatKind::kTime;
  if (!cloud_.time_field.empty() && !has_time) warnings |= DecimatedCloud::kTimeFieldUnusable;
  for (std::size_t i = 0; i < cloud_.fields.size(); ++i) add_other(i, warnings);
  return std::move(blocks_);
}

}  // namespace

std::string short_name(std::string_view name) {
  if (name.size() <= kNameMax) return std::string(name);
  std::size_t kept = kNameKept;
  // A byte 10xxxxxx goes on with a character that began before it.
  while (kept > 0 && (static_cast<unsigned char>(name[kept]) & 0xC0U) == 0x80U) --kept;
  return fmt::format(
      "{}~{:03x}", name.substr(0, kept), crc32c(std::as_bytes(std::span(name))) & 0xFFFU);
}

std::vector<FlatBlock> plan_flat(const CloudView& cloud,
                                 const Layout& layout,
                                 std::span<const std::string> wanted,
                                 std::uint32_t& warnings) {
  auto blocks = Planner(cloud, layout).run(warnings);
  if (wanted.empty()) return blocks;
  std::erase_if(blocks, [&](const FlatBlock& block) {
    return block.kind != FlatKind::kXyz && std::ranges::none_of(wanted, [&](const auto& name) {
             return name == block.name || name == cloud.fields[block.field].name;
           });
  });
  return blocks;
}

std::uint64_t place(std::vector<FlatBlock>& blocks, std::uint64_t points) {
  std::uint64_t end = 0;
  for (FlatBlock& block : blocks) {
    block.offset = (end + 7) / 8 * 8;
    end = block.offset + block.bytes(points);
  }
  return end;
}

}  // namespace simbridge::cloud
