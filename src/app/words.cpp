#include "app/words.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace simbridge::app {
namespace {

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// EPOCH:SEQUENCE or NAME=EPOCH:SEQUENCE. A channel could be named like that, and would be so at
/// its peril.
bool is_position(std::string_view word) {
  const auto equals = word.rfind('=');
  const std::string_view numbers =
      equals == std::string_view::npos ? word : word.substr(equals + 1);
  const auto colon = numbers.find(':');
  return colon != std::string_view::npos && is_digits(numbers.substr(0, colon)) &&
         is_digits(numbers.substr(colon + 1));
}

}  // namespace

void split_history(std::vector<std::string>& words, std::vector<std::string>& globs) {
  if (words.empty()) return;
  auto end = words.begin() + 1;
  if (words.front() == "from") end = std::find_if_not(end, words.end(), is_position);
  globs.insert(globs.begin(), std::make_move_iterator(end), std::make_move_iterator(words.end()));
  words.erase(end, words.end());
}

}  // namespace simbridge::app
