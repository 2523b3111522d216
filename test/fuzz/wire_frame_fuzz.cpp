// Any bytes as a Frame: parse_frame() and peek_frame() against protobuf's own parser; what is
// accepted must pass through storing, loading and writing unchanged.
#include "simbridge/base/check.h"
#include "wire/judge.h"
#include "wire/quiet_protobuf.h"

#include <iostream>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const simbridge::wire::test::QuietProtobuf kQuiet;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string fault = simbridge::wire::test::judge_frame(bytes, 96);
  if (!fault.empty()) std::cerr << fault << '\n';
  SB_CHECK(fault.empty(), "the frame is read and sent on as protobuf would");
  return 0;
}
