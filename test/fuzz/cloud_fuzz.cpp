// Any layout, any bytes, any request: the CPU's decimator beside the definition. Every road is
// forced on the same cloud; the decimators live on, so that one cloud's remains meet the next.
#include "cloud/cpu_decimator.h"
#include "cloud/naive.h"
#include "cloud/random_cloud.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace simbridge;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  /// Of an input at its end: zeros.
  std::uint64_t below(std::uint64_t n) {
    std::uint64_t value = 0;
    for (std::uint64_t reach = 1; reach < n && reach <= 1ULL << 32U; reach <<= 8U)
      value = value << 8U | (at_ < size_ ? data_[at_++] : 0);
    return value % n;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

void compare(cloud::CpuDecimator& decimator,
             const test::RandomCloud& cloud,
             const cloud::Request& request,
             const cloud::DecimatedCloud& naive) {
  static cloud::DecimatedCloud out;
  const auto done = decimator.decimate(cloud.view, request, out);
  const std::string fault = done ? test::difference(out, naive) : done.error().detail;
  if (fault.empty()) return;
  static_cast<void>(
      std::fprintf(stderr, "%s\n%s\n", test::describe(cloud.view, request).c_str(), fault.c_str()));
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto kPlain = cloud::make_cpu_decimator(cloud::CpuTuning{});
  static const auto kBaseline = cloud::make_cpu_decimator({.level = cloud::Level::kBaseline});
  static const auto kLying =
      cloud::make_cpu_decimator({.voxel = {.tag_mask = 1, .narrow_points = 2, .slots_first = 2}});
  static const auto kSorting =
      cloud::make_cpu_decimator({.voxel = {.probes_max = 0, .slots_first = 2}});
  Input input(data, size);
  const test::Draw draw = [&](std::uint64_t n) {
    return input.below(n);
  };
  const cloud::Request request = test::random_request(draw);
  const test::RandomCloud cloud(draw, 80);
  const auto naive = test::decimate_naively(cloud.view, request);
  for (const auto* decimator : {&kPlain, &kBaseline, &kLying, &kSorting})
    compare(**decimator, cloud, request, naive);
  return 0;
}
