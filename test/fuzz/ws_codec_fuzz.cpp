// The WebSocket codec on any bytes: cutting the stream anywhere, or reading payload directly,
// changes nothing.
#include "transport/ws_peer.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace simbridge::test;  // NOLINT(google-build-using-namespace): one function
  if (size < 3) return 0;
  const std::size_t piece = data[0] + 1U;
  const std::size_t direct_from = data[1] == 0 ? SIZE_MAX : data[1];
  const auto role = (data[2] & 1U) != 0 ? Role::kClient : Role::kServer;
  const std::uint64_t limit = (data[2] & 2U) != 0 ? 300 : UINT64_MAX;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 3, size - 3);

  const Transcript whole = read_whole(stream, limit, role);
  Reader reader(role, limit);
  const Transcript cut = read_all(
      reader, stream, {.piece = [&](std::size_t) { return piece; }, .direct_from = direct_from});
  if (!(whole == cut)) std::abort();
  return 0;
}
