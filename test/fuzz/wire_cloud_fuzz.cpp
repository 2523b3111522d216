// Any head of a cloud or depth image: what the validator accepts can be read without leaving the
// data, by the judge's own arithmetic. Numbers come raw or small, so that both extremes and near
// misses occur.
#include "simbridge/base/check.h"
#include "wire/judge.h"

#include <array>
#include <bit>
#include <cstring>
#include <iostream>

namespace {

using simbridge::wire::FrameHead;
using simbridge::wire::FrameLimits;
using simbridge::wire::PayloadKind;

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : left_(data, size) {}
  [[nodiscard]] bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  // A byte says how many bytes follow: none for itself, else a whole number.
  std::uint64_t number() {
    const std::uint8_t first = byte();
    if (first < 0xF0U) return first;
    std::uint64_t value = 0;
    for (unsigned i = 0; i <= (first & 7U); ++i) value = (value << 8U) | byte();
    return value;
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }

 private:
  std::span<const std::uint8_t> left_;
};

constexpr std::array<std::string_view, 8> kNames{"x", "y", "z", "xyz", "", "_", "ring", "rgb"};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  FrameHead head;
  const std::uint8_t choice = in.byte();
  head.kind = (choice & 1U) == 0 ? PayloadKind::kCloud : PayloadKind::kDepth;
  FrameLimits limits{.max_frame_bytes = (choice & 2U) == 0 ? 1 << 20U : ~0ULL};
  if ((choice & 4U) != 0) limits.max_points = ~0ULL;
  head.data_bytes = in.number();
  simbridge::wire::CloudHead& cloud = head.cloud;
  simbridge::wire::DepthHead& depth = head.depth;
  cloud.height = depth.height = in.number32();
  cloud.width = depth.width = in.number32();
  cloud.row_step = depth.row_step = in.number32();
  cloud.point_step = in.number32();
  cloud.layout = in.number32();
  cloud.codec = depth.codec = in.number32();
  cloud.raw_size = depth.raw_size = in.number();
  depth.encoding = (choice & 8U) == 0 ? "16UC1" : "32FC1";
  depth.fx = depth.fy = std::bit_cast<double>(~in.number());
  if ((choice & 16U) != 0) depth.fx = depth.fy = 1;
  if ((choice & 32U) != 0) cloud.fields = {{"x", 0, 7, 1}, {"y", 4, 7, 1}, {"z", 8, 7, 1}};
  while (!in.empty() && cloud.fields.size() < limits.max_fields) {
    const std::uint8_t field = in.byte();
    const std::uint32_t unit = (field & 8U) == 0 ? 1 : 8;
    cloud.fields.push_back({.name = kNames.at(field & 7U),
                            .offset = in.number32() * unit,
                            .type = in.number32(),
                            .count = in.number32()});
  }
  const std::string fault = simbridge::wire::test::judge_accepted_payload(head, limits);
  if (!fault.empty()) std::cerr << fault << '\n';
  SB_CHECK(fault.empty(), "what is accepted can be read without leaving the data");
  return 0;
}
