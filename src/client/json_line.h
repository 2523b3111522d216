#pragma once
// What: one JSON object on one line, its members in the order in which they are added.
// Owner: who makes it.   Threads: one at a time.
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace simbridge::client {

/// In quotes, escaped; what is no UTF-8 becomes U+FFFD, so that every line parses.
[[nodiscard]] std::string json_string(std::string_view text);

class JsonLine {
 public:
  explicit JsonLine(std::string_view type) { add("type", type); }
  JsonLine() = default;

  JsonLine& add(std::string_view name, std::string_view text);
  JsonLine& add(std::string_view name, const char* text) {
    return add(name, std::string_view(text));
  }
  JsonLine& add(std::string_view name, bool value);
  JsonLine& add(std::string_view name, double number);  // null where it is not finite
  template <std::integral Number>
    requires(!std::same_as<Number, bool>)
  JsonLine& add(std::string_view name, Number number) {
    return add_raw(name, std::to_string(number));
  }
  /// JSON as it is.
  JsonLine& add_raw(std::string_view name, std::string_view json);
  /// 64-bit numbers that must survive readers with doubles.
  JsonLine& add_as_string(std::string_view name, std::uint64_t number);

  [[nodiscard]] std::string str() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

}  // namespace simbridge::client
