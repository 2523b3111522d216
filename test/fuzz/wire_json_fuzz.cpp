// Any text as a control message in JSON against protobuf's own parser; and as the #meta of a flat
// image.
#include "simbridge/base/check.h"
#include "wire/flat_judge.h"
#include "wire/quiet_protobuf.h"

#include <iostream>

namespace {

void require(const std::string& fault) {
  if (!fault.empty()) std::cerr << fault << '\n';
  SB_CHECK(fault.empty(), "the text is read as protobuf reads it, or more strictly");
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace test = simbridge::wire::test;
  static const test::QuietProtobuf kQuiet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  require(test::judge_json(text));
  for (const std::uint32_t kind : {0U, 1U}) {
    const test::FlatMessage message{
        .flags = kind << 24U,
        .blocks = {{kind == 0 ? "xyz" : "depth", 7, std::uint8_t(kind == 0 ? 3 : 1), {}},
                   {"#meta", 2, 1, std::string(text)}}};
    require(test::judge_flat(test::as_bytes(message.encode()), 0));
  }
  return 0;
}
