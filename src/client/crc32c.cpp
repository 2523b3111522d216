#include "client/crc32c.h"

#include <array>
#include <cstddef>

namespace simbridge::client {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // reflected
constexpr std::size_t kSlices = 8;

/// table[0] steps one byte; table[k] the same byte followed by k zero bytes ("slicing by 8").
constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, kSlices> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto below = table[slice - 1][byte];
      table[slice][byte] = (below >> 8U) ^ table[0][below & 0xFFU];
    }
  }
  return table;
}();

std::uint32_t byte_at(std::string_view data, std::size_t at) {
  return static_cast<unsigned char>(data[at]);
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  std::size_t at = 0;
  for (; at + kSlices <= data.size(); at += kSlices) {
    crc ^= byte_at(data, at) | byte_at(data, at + 1) << 8U | byte_at(data, at + 2) << 16U |
           byte_at(data, at + 3) << 24U;
    crc = kTables[7][crc & 0xFFU] ^ kTables[6][(crc >> 8U) & 0xFFU] ^
          kTables[5][(crc >> 16U) & 0xFFU] ^ kTables[4][crc >> 24U] ^
          kTables[3][byte_at(data, at + 4)] ^ kTables[2][byte_at(data, at + 5)] ^
          kTables[1][byte_at(data, at + 6)] ^ kTables[0][byte_at(data, at + 7)];
  }
  for (; at < data.size(); ++at) crc = (crc >> 8U) ^ kTables[0][(crc ^ byte_at(data, at)) & 0xFFU];
  return ~crc;
}

}  // namespace simbridge::client
