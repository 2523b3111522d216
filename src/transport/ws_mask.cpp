#include "transport/ws_mask.h"

#include <cstring>

namespace simbridge::transport::ws {

void MaskKey::apply(std::span<std::byte> bytes) {
  std::uint32_t key32 = 0;
  std::memcpy(&key32, key_.data(), sizeof key32);
  const std::uint64_t key64 = (static_cast<std::uint64_t>(key32) << 32U) | key32;

  std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  // memcpy of a constant size is a plain unaligned load or store; the loop becomes vector code.
  for (; left >= sizeof key64; left -= sizeof key64, at += sizeof key64) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    word ^= key64;
    std::memcpy(at, &word, sizeof word);
  }
  for (std::size_t i = 0; i < left; ++i) at[i] ^= key_[i % key_.size()];

  const std::size_t turn = left % key_.size();
  const auto before = key_;
  for (std::size_t i = 0; i < key_.size(); ++i) key_[i] = before[(i + turn) % key_.size()];
}

bool Utf8Checker::step(std::uint8_t byte) {
  if (pending_ != 0) {
    if (byte < low_ || byte > high_) return false;
    low_ = 0x80;
    high_ = 0xBF;
    --pending_;
    return true;
  }
  if (byte < 0x80) return true;
  if (byte < 0xC2 || byte > 0xF4) return false;  // C0, C1: overlong; above F4: beyond U+10FFFF
  if (byte < 0xE0) {
    pending_ = 1;
  } else if (byte < 0xF0) {
    pending_ = 2;
    if (byte == 0xE0) low_ = 0xA0;   // below: overlong
    if (byte == 0xED) high_ = 0x9F;  // above: surrogates
  } else {
    pending_ = 3;
    if (byte == 0xF0) low_ = 0x90;   // below: overlong
    if (byte == 0xF4) high_ = 0x8F;  // above: beyond U+10FFFF
  }
  return true;
}

bool Utf8Checker::feed(std::span<const std::byte> text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t i = 0;
  while (i < text.size()) {
    if (pending_ == 0) {  // ASCII, eight bytes a step
      std::uint64_t word = 0;
      while (text.size() - i >= sizeof word) {
        std::memcpy(&word, text.data() + i, sizeof word);
        if ((word & kHighBits) != 0) break;
        i += sizeof word;
      }
      if (i == text.size()) return true;
    }
    if (!step(std::to_integer<std::uint8_t>(text[i]))) return false;
    ++i;
  }
  return true;
}

bool valid_utf8(std::span<const std::byte> text) {
  Utf8Checker checker;
  return checker.feed(text) && checker.complete();
}

}  // namespace simbridge::transport::ws
