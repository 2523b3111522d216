#include "client/json_line.h"

#include "client/utf8.h"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>

namespace simbridge::client {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const auto length = utf8_length(text);
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
