// Any bytes as a ClientMessage: parse() and peek() against protobuf's own parser; what of it is
// text also as a name, a pattern and a detail.
#include "simbridge/base/check.h"
#include "wire/judge.h"
#include "wire/quiet_protobuf.h"

#include <iostream>

namespace simbridge::wire {
namespace {

void use_as_text(std::string_view text) {
  const bool name = check_channel_name(text).ok();
  const bool pattern = check_pattern(text).ok();
  if (name) SB_CHECK(pattern && matches(text, text), "a name is a pattern that matches itself");
  const std::string_view half = text.substr(0, text.size() / 2);
  matches(half, text.substr(half.size()));
  std::string bytes;
  encode(Reject{.detail = std::string(text)}, bytes);
  v1::ServerMessage typed;
  SB_CHECK(typed.ParseFromString(bytes), "what the bridge says always parses");
}

}  // namespace
}  // namespace simbridge::wire

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const simbridge::wire::test::QuietProtobuf kQuiet;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::string fault = simbridge::wire::test::judge_message(bytes, 96);
  if (!fault.empty()) std::cerr << fault << '\n';
  SB_CHECK(fault.empty(), "the message is read as protobuf reads it");
  if (size <= 600) simbridge::wire::use_as_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
