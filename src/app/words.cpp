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

constexpr char kMark = '\x01';

}  // namespace

std::vector<std::string> with_hidden_brackets(std::vector<std::string> words) {
  for (std::string& word : words) {
    const bool taken_apart = word.starts_with('[') && word.ends_with(']');
    // A word that has a mark of its own gets a second one, and so keeps the first.
    if (taken_apart || word.starts_with(kMark)) word.insert(word.begin(), kMark);
  }
  return words;
}

std::string show_brackets(std::string& word) {
  if (word.starts_with(kMark)) word.erase(0, 1);
  return {};
}

void split_history(std::vector<std::string>& words, std::vector<std::string>& globs) {
  if (words.empty()) return;
  auto end = words.begin() + 1;
  if (words.front() == "from") end = std::find_if_not(end, words.end(), is_position);
  globs.insert(globs.begin(), std::make_move_iterator(end), std::make_move_iterator(words.end()));
  words.erase(end, words.end());
}

}  // namespace simbridge::app
