#pragma once
// What: clouds of any layout with any content, and requests, out of a source of numbers: a seeded
// generator in tests, the fuzzer's bytes in cloud_fuzz.   Owner: the test.   Threads: one.
#include "simbridge/cloud/decimator.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace simbridge::test {

/// A number from 0 to n - 1.
using Draw = std::function<std::uint64_t(std::uint64_t n)>;

struct RandomCloud {
  std::deque<std::string> names;
  std::vector<cloud::Field> fields;
  std::vector<std::byte> data;
  cloud::CloudView view;

  RandomCloud(const Draw& draw, std::uint32_t points_max);
  ~RandomCloud() = default;
  RandomCloud(const RandomCloud&) = delete;
  RandomCloud& operator=(const RandomCloud&) = delete;

 private:
  void add_fields(const Draw& draw);
  void place_records(const Draw& draw);
  void place_blocks(const Draw& draw);
  void fill(const Draw& draw);
};

cloud::Request random_request(const Draw& draw);
/// Both, as a text for a failing test.
std::string describe(const cloud::CloudView& view, const cloud::Request& request);

}  // namespace simbridge::test
