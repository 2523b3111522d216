// Any bytes as a PCD file: refused with line or byte, or accepted and then the same again from
// every form.
#include "client/pcd_roundtrip.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto cloud = simbridge::client::parse_pcd(file, {.data = simbridge::Bytes{1U << 20U}});
  if (!cloud) {
    const auto& detail = cloud.error().detail;
    if (!detail.starts_with("line ") && !detail.starts_with("byte ")) std::abort();
    return 0;
  }
  if (const auto fault = simbridge::test::roundtrip_fault(*cloud); !fault.empty()) {
    static_cast<void>(std::fprintf(stderr, "%s\n", fault.c_str()));
    std::abort();
  }
  return 0;
}
