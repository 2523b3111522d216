#include "wire/utf8.h"

#include <cstdint>
#include <cstring>

namespace simbridge::wire {
namespace {

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0U) == 0x80U;
}

/// Bytes of text that are ASCII, from its start.
std::size_t ascii_run(std::string_view text) {
  std::size_t at = 0;
  while (text.size() - at >= 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & 0x8080808080808080ULL) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80U) ++at;
  return at;
}

}  // namespace

std::size_t utf8_character(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  if (text.empty()) return 0;
  const unsigned char lead = byte(0);
  if (lead < 0x80U) return 1;
  if (lead < 0xC2U || lead > 0xF4U) return 0;
  const std::size_t length = lead < 0xE0U ? 2 : lead < 0xF0U ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte's range closes out overlong forms, surrogates and what lies past U+10FFFF.
  const unsigned char low = lead == 0xE0U ? 0xA0U : lead == 0xF0U ? 0x90U : 0x80U;
  const unsigned char high = lead == 0xEDU ? 0x9FU : lead == 0xF4U ? 0x8FU : 0xBFU;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (!is_continuation(byte(i))) return 0;
  return length;
}

bool is_utf8(std::string_view text) {
  while (true) {
    text.remove_prefix(ascii_run(text));
    if (text.empty()) return true;
    const std::size_t length = utf8_character(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
}

void append_utf8(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const std::size_t ascii = ascii_run(text);
    out.append(text.substr(0, ascii));
    text.remove_prefix(ascii);
    if (text.empty()) return;
    const std::size_t length = utf8_character(text);
    if (length == 0)
      out.push_back('?');
    else
      out.append(text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace simbridge::wire
