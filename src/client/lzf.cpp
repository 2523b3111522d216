#include "client/lzf.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace simbridge::client {
namespace {

// A control byte below 32 says: that many + 1 literal bytes follow. Otherwise its upper three bits
// are the length - 2 of a copy (7: a byte more of length follows), its lower five and the next byte
// the distance - 1.
constexpr std::size_t kLiteralsMax = 32;
constexpr std::size_t kDistanceMax = 8192;
constexpr std::size_t kCopyMax = 264;  // 7 + 255 + 2
constexpr std::size_t kCopyMin = 3;
constexpr std::size_t kExpansionMax = 88;  // a copy of 264 bytes takes 3
constexpr unsigned kHashBits = 14;

unsigned byte(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

unsigned hash(std::string_view raw, std::size_t at) {
  const std::uint32_t three = byte(raw, at) | byte(raw, at + 1) << 8U | byte(raw, at + 2) << 16U;
  return (three * 2654435761U) >> (32U - kHashBits);
}

void put_literals(std::string& out, std::string_view literals) {
  while (!literals.empty()) {
    const auto run = std::min(literals.size(), kLiteralsMax);
    out.push_back(static_cast<char>(run - 1));
    out.append(literals.substr(0, run));
    literals.remove_prefix(run);
  }
}

void put_copy(std::string& out, std::size_t distance, std::size_t length) {
  const auto back = distance - 1;
  const auto stored = length - 2;
  out.push_back(static_cast<char>(std::min<std::size_t>(stored, 7) << 5U | back >> 8U));
  if (stored >= 7) out.push_back(static_cast<char>(stored - 7));
  out.push_back(static_cast<char>(back & 0xFFU));
}

}  // namespace

std::expected<std::string, LzfFault> lzf_decompress(std::string_view compressed,
                                                    std::size_t raw_size) {
  if (raw_size / kExpansionMax > compressed.size())
    return std::unexpected(LzfFault{0, "so few bytes cannot hold so many"});
  std::string out(raw_size, '\0');
  std::size_t at = 0;
  std::size_t made = 0;
  while (at < compressed.size()) {
    const auto start = at;
    const auto bad = [start](std::string_view why) {
      return std::unexpected(LzfFault{start, why});
    };
    const auto control = byte(compressed, at++);
    if (control < kLiteralsMax) {
      const std::size_t run = control + 1;
      if (run > compressed.size() - at) return bad("literals past the end of the compressed bytes");
      if (run > raw_size - made) return bad("literals past the raw size");
      std::memcpy(out.data() + made, compressed.data() + at, run);
      at += run;
      made += run;
      continue;
    }
    std::size_t length = (control >> 5U) + 2;
    if (at + (length == 9 ? 2 : 1) > compressed.size()) return bad("a copy cut off by the end");
    if (length == 9) length += byte(compressed, at++);
    const std::size_t distance = ((control & 0x1FU) << 8U | byte(compressed, at++)) + 1;
    if (distance > made) return bad("a copy from before the beginning");
    if (length > raw_size - made) return bad("a copy past the raw size");
    // Byte by byte, as a copy may reach into what it is writing.
    for (std::size_t i = 0; i < length; ++i, ++made) out[made] = out[made - distance];
  }
  if (made != raw_size) return std::unexpected(LzfFault{at, "ends before the raw size"});
  return out;
}

std::string lzf_compress(std::string_view raw) {
  std::string out;
  std::vector<std::size_t> seen(std::size_t{1} << kHashBits, SIZE_MAX);
  std::size_t at = 0;
  std::size_t literals = 0;  // start of those not written yet
  while (at + kCopyMin <= raw.size()) {
    auto& candidate = seen[hash(raw, at)];
    const auto found = candidate;
    candidate = at;
    std::size_t length = 0;
    if (found != SIZE_MAX && at - found <= kDistanceMax) {
      const auto most = std::min(kCopyMax, raw.size() - at);
      while (length < most && raw[found + length] == raw[at + length]) ++length;
    }
    if (length < kCopyMin) {
      ++at;
      continue;
    }
    put_literals(out, raw.substr(literals, at - literals));
    put_copy(out, at - found, length);
    at += length;
    literals = at;
  }
  put_literals(out, raw.substr(literals));
  return out;
}

}  // namespace simbridge::client
