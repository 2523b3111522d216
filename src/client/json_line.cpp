#include "client/json_line.h"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>

namespace simbridge::client {
namespace {

/// The length of the well-formed UTF-8 character at the front; 0 = there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : (first >= 0xE0 ? 3 : 2);
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80) return 0;
  }
  const auto second = byte(1);
  // Longer than needed, a surrogate half, or above U+10FFFF.
  if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
      (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
    return 0;
  return length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const auto length = character_length(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (length == 0) {
      out += "\\ufffd";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
  return out;
}

JsonLine& JsonLine::add_raw(std::string_view name, std::string_view json) {
  text_ += text_.empty() ? "{" : ",";
  text_ += json_string(name);
  text_ += ':';
  text_ += json;
  return *this;
}

JsonLine& JsonLine::add(std::string_view name, std::string_view text) {
  return add_raw(name, json_string(text));
}

JsonLine& JsonLine::add(std::string_view name, bool value) {
  return add_raw(name, value ? "true" : "false");
}

JsonLine& JsonLine::add(std::string_view name, double number) {
  return add_raw(name, std::isfinite(number) ? fmt::format("{}", number) : "null");
}

JsonLine& JsonLine::add_as_string(std::string_view name, std::uint64_t number) {
  return add_raw(name, fmt::format("\"{}\"", number));
}

}  // namespace simbridge::client
