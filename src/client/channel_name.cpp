#include "client/channel_name.h"

#include "client/json_line.h"
#include "client/utf8.h"

#include <fmt/core.h>

namespace simbridge::client {
namespace {

constexpr std::size_t kBytesMax = 256;
constexpr std::size_t kShownBytes = 64;
constexpr std::string_view kNameRule =
    "a channel's name is 1 to 256 bytes of UTF-8 without control characters, * and ?";
constexpr std::string_view kPatternRule =
    "a pattern is 1 to 256 bytes of UTF-8 without control characters: a channel's name, or with * "
    "(any bytes but /), ** (any bytes) and ? (one character but /)";

/// C0, DEL and C1 (U+0080 to U+009F).
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x20 || first == 0x7F) return true;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

std::string fault_of(std::string_view text, bool wildcards) {
  if (text.empty()) return "it is empty";
  if (text.size() > kBytesMax) return fmt::format("it has {} bytes", text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto length = utf8_length(text.substr(at));
    if (length == 0) return fmt::format("byte {} is no UTF-8", at + 1);
    if (is_control(text.substr(at, length)))
      return fmt::format("byte {} is a control character", at + 1);
    if (!wildcards && (text[at] == '*' || text[at] == '?'))
      return fmt::format("it has a {} like a pattern", text[at]);
    at += length;
  }
  return {};
}

/// The beginning of it, so that the sentence stays one.
std::string quoted(std::string_view text) {
  if (text.size() <= kShownBytes) return json_string(text);
  std::size_t end = 0;
  while (end < kShownBytes) {
    const auto length = utf8_length(text.substr(end));
    end += length == 0 ? 1 : length;
  }
  return json_string(text.substr(0, end)) + "…";
}

std::string sentence(std::string_view text, bool wildcards, std::string_view rule) {
  const auto fault = fault_of(text, wildcards);
  return fault.empty() ? fault : fmt::format("{}: {}; {}", quoted(text), fault, rule);
}

}  // namespace

std::string fault_of_name(std::string_view name) {
  return sentence(name, false, kNameRule);
}

std::string fault_of_pattern(std::string_view pattern) {
  return sentence(pattern, true, kPatternRule);
}

}  // namespace simbridge::client
