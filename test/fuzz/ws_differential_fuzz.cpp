// The WebSocket codec beside Boost.Beast's stream: same messages, same verdict on every stream.
#include "transport/beast_reader.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool raw = data[0] == 0;
  const std::string stream = raw ? std::string(rest) : simbridge::test::stream_from(rest);
  const std::uint64_t limit = data[0] == 1 ? 300 : 1U << 20U;
  if (const auto told = simbridge::test::difference(stream, limit)) {
    static_cast<void>(std::fprintf(stderr, "%s\n", told->c_str()));
    std::abort();
  }
  return 0;
}
