// Any bytes as a flat message: parse_flat(), peek_flat() at each prefix, read_flat_tail(), storing
// and sending on, against a second reader of the page.
#include "simbridge/base/check.h"
#include "wire/flat_judge.h"
#include "wire/quiet_protobuf.h"

#include <iostream>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const simbridge::wire::test::QuietProtobuf kQuiet;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string fault = simbridge::wire::test::judge_flat(bytes, 512);
  if (!fault.empty()) std::cerr << fault << '\n';
  SB_CHECK(fault.empty(), "the flat message is read and sent on as the page says");
  return 0;
}
