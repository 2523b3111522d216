#pragma once
// What: the two loops of RFC 6455 that touch every byte: masking (5.3) and UTF-8 (8.1).
// Private to transport; the source is always built with -O3. Owner: values.   Threads: any, one per
// object.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace simbridge::transport::ws {

/// A masking key together with how far into it the payload has come: the phase lives through
/// partial reads because the key is kept turned so that its first byte belongs to the next payload
/// byte.
class MaskKey {
 public:
  constexpr MaskKey() = default;
  constexpr explicit MaskKey(std::array<std::byte, 4> key) : key_(key) {}

  /// Masks or unmasks in place (the same operation), and turns the key on.
  void apply(std::span<std::byte> bytes);

 private:
  std::array<std::byte, 4> key_{};
};

/// Judges text that comes in pieces and fails at the first byte that no valid text can go on from.
class Utf8Checker {
 public:
  /// False: the text can no longer become valid. Then only reset() makes the object useful again.
  [[nodiscard]] bool feed(std::span<const std::byte> text);
  /// True at a boundary between characters: the text may end here.
  [[nodiscard]] bool complete() const { return pending_ == 0; }
  void reset() { *this = Utf8Checker(); }

 private:
  [[nodiscard]] bool step(std::uint8_t byte);

  std::uint8_t pending_ = 0;  // continuation bytes that must still come
  std::uint8_t low_ = 0x80;   // what the next of them may be: E0, ED, F0 and F4 narrow it
  std::uint8_t high_ = 0xBF;
};

/// Whole texts, such as the reason of a close.
[[nodiscard]] bool valid_utf8(std::span<const std::byte> text);

}  // namespace simbridge::transport::ws
