// Any bytes as a PCD file: refused with line or byte, or accepted and then the same again from
// every form.
#include "client/pcd_roundtrip.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace simbridge;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto cloud = client::parse_pcd(file, {.data = Bytes{1U << 20U}});
  if (!cloud) {
    const auto& detail = cloud.error().detail;
    if (!detail.starts_with("line ") && !detail.starts_with("byte ")) std::abort();
    return 0;
  }
  if (const auto fault = test::roundtrip_fault(*cloud); !fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    std::abort();
  }
  return 0;
}
