#include "simbridge/base/crc32c.h"

#include "support/seed.h"
#include "wire/judge.h"

#include <catch2/catch.hpp>

#include <random>
#include <vector>

namespace simbridge::wire {
namespace {

// One bit at a time, from the definition.
std::uint32_t by_definition(std::span<const std::byte> data) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720", "[wire][crc32c]") {
  CHECK(crc32c({}) == 0);
  CHECK(crc32c(test::as_bytes("123456789")) == 0xE3069283U);
  std::vector<std::byte> block(32);
  CHECK(crc32c(block) == 0x8A9136AAU);
  std::ranges::fill(block, std::byte{0xFF});
  CHECK(crc32c(block) == 0x62A8AB43U);
}

TEST_CASE("CRC-32C is the same by instruction, by tables and by definition", "[wire][crc32c]") {
  const auto seed = simbridge::test::seed();
  INFO("SIMBRIDGE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(200'000);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random());
  // Around the places where the instruction's three blocks begin and end, at odd addresses too.
  for (const std::size_t size : {0UL,
                                 1UL,
                                 7UL,
                                 8UL,
                                 9UL,
                                 4095UL,
                                 24575UL,
                                 24576UL,
                                 24577UL,
                                 49151UL,
                                 49152UL,
                                 73733UL,
                                 199'990UL}) {
    for (const std::size_t offset : {0UL, 1UL, 3UL}) {
      const auto part = std::span<const std::byte>(data).subspan(offset, size);
      CHECK(crc32c(part) == by_definition(part));
      CHECK(crc32c_by_tables(part) == by_definition(part));
    }
  }
}

TEST_CASE("a wrong checksum is refused, a right one and an absent one are not", "[wire][crc32c]") {
  FrameHead head;
  const auto data = test::as_bytes("123456789");
  CHECK(check_crc(head, data).ok());
  head.crc32c = 0xE3069283U;
  CHECK(check_crc(head, data).ok());
  head.crc32c = 0;
  const Verdict refused = check_crc(head, data);
  CHECK(refused.code == RejectCode::kChecksum);
  CHECK(refused.detail.find("0xe3069283") != std::string::npos);
}

}  // namespace simbridge::wire
