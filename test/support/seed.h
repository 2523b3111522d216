#pragma once
// What: the seed of a randomised test: from SIMBRIDGE_TEST_SEED, or new. Show it with INFO.
#include <cstdint>
#include <cstdlib>
#include <random>

namespace simbridge::test {

inline std::uint64_t seed() {
  if (const char* given = std::getenv("SIMBRIDGE_TEST_SEED"))
    return std::strtoull(given, nullptr, 10);
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace simbridge::test
