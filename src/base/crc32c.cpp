// CRC-32C (Castagnoli): by the processor's instruction where it has one, else by tables.
#include "simbridge/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace simbridge {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78U;  // reflected: bit 31 is the power 0

constexpr auto kTables = [] {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[t][byte] = (tables[t - 1][byte] >> 8U) ^ tables[0][tables[t - 1][byte] & 0xFFU];
  return tables;
}();

std::uint64_t load64(const std::byte* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Eight bytes a step, one table for each.
std::uint32_t by_tables(std::uint32_t crc, const std::byte* at, std::size_t size) {
  for (; size >= 8; at += 8, size -= 8) {
    const std::uint64_t eight = load64(at) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(eight >> (8 * i)) & 0xFFU];
  }
  for (; size > 0; ++at, --size)
    crc = (crc >> 8U) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*at)) & 0xFFU];
  return crc;
}

#if defined(__x86_64__)

// The product of two polynomials modulo ours.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1U) ^ ((b & 1U) != 0 ? kPolynomial : 0);
  }
  return product;
}

// The power 8 x bytes: what a register is multiplied by when so many zero bytes follow.
constexpr std::uint32_t zeros(std::size_t bytes) {
  std::uint32_t result = 0x80000000U;
  std::uint32_t square = 0x40000000U;
  for (std::size_t bits = bytes * 8; bits != 0; bits >>= 1U) {
    if ((bits & 1U) != 0) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

// The instruction takes three cycles and one can begin each cycle: three blocks are summed side by
// side and joined afterwards.
constexpr std::size_t kBlock = 8192;
constexpr std::uint32_t kOverBlock = zeros(kBlock);

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc,
                                                               const std::byte* at,
                                                               std::size_t size) {
  std::uint64_t first = crc;
  for (; size >= 3 * kBlock; at += 3 * kBlock, size -= 3 * kBlock) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < kBlock; i += 8) {
      first = _mm_crc32_u64(first, load64(at + i));
      second = _mm_crc32_u64(second, load64(at + kBlock + i));
      third = _mm_crc32_u64(third, load64(at + 2 * kBlock + i));
    }
    first = multiply(kOverBlock, static_cast<std::uint32_t>(first)) ^ second;
    first = multiply(kOverBlock, static_cast<std::uint32_t>(first)) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8) first = _mm_crc32_u64(first, load64(at));
  auto last = static_cast<std::uint32_t>(first);
  for (; size > 0; ++at, --size) last = _mm_crc32_u8(last, static_cast<unsigned char>(*at));
  return last;
}

#endif

using Step = std::uint32_t (*)(std::uint32_t, const std::byte*, std::size_t);

Step choose_step() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return by_instruction;
#endif
  return by_tables;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data) {
  static const Step kStep = choose_step();
  return ~kStep(~0U, data.data(), data.size());
}

std::uint32_t crc32c_by_tables(std::span<const std::byte> data) {
  return ~by_tables(~0U, data.data(), data.size());
}

}  // namespace simbridge
