// Names of channels, and the globs that match them.
#include "simbridge/wire/frame_head.h"
#include "wire/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace simbridge::wire {
namespace {

// C0, DEL, and C1 (U+0080 to U+009F: the bytes C2 80 to C2 9F).
bool is_control(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (lead < 0x20U || lead == 0x7FU) return true;
  return lead == 0xC2U && static_cast<unsigned char>(character[1]) < 0xA0U;
}

// Why text cannot be a name or pattern, or empty.
std::string fault_of(std::string_view text, bool wildcards) {
  if (text.empty()) return "is empty";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text.substr(at));
    if (length == 0) return fmt::format("is not UTF-8 at byte {}", at);
    if (is_control(text.substr(at, length)))
      return fmt::format("has a control character at byte {}", at);
    if (!wildcards && (text[at] == '*' || text[at] == '?'))
      return fmt::format("has '{}' at byte {}, which only patterns may", text[at], at);
    at += length;
  }
  return {};
}

// One step of a pattern.
struct Step {
  enum class Kind : std::uint8_t { kCharacter, kAnyCharacter, kAnyInLevel, kAny };
  Kind kind = Kind::kCharacter;
  std::string_view character;  // kCharacter
};

// The next character, or a byte that is none.
std::string_view next_character(std::string_view text) {
  return text.substr(0, std::max<std::size_t>(utf8_character(text), 1));
}

std::vector<Step> steps_of(std::string_view pattern) {
  std::vector<Step> steps;
  steps.reserve(pattern.size());
  while (!pattern.empty()) {
    std::string_view taken = next_character(pattern);
    if (taken == "*") {
      // Of three stars in a row, two match anything, and so do all.
      const std::size_t stars = std::min(pattern.find_first_not_of('*'), pattern.size());
      steps.push_back({stars > 1 ? Step::Kind::kAny : Step::Kind::kAnyInLevel, {}});
      taken = pattern.substr(0, stars);
    } else if (taken == "?") {
      steps.push_back({Step::Kind::kAnyCharacter, {}});
    } else {
      steps.push_back({Step::Kind::kCharacter, taken});
    }
    pattern.remove_prefix(taken.size());
  }
  return steps;
}

bool is_star(const Step& step) {
  return step.kind == Step::Kind::kAnyInLevel || step.kind == Step::Kind::kAny;
}

// Whether the step may take this character (a star takes it and stays).
bool takes(const Step& step, std::string_view character) {
  switch (step.kind) {
    case Step::Kind::kCharacter:
      return step.character == character;
    case Step::Kind::kAnyCharacter:
    case Step::Kind::kAnyInLevel:
      return character != "/";
    case Step::Kind::kAny:
      return true;
  }
  return false;
}

}  // namespace

Verdict check_channel_name(std::string_view name, std::uint32_t max_bytes) {
  if (name.size() > max_bytes)
    return {RejectCode::kLimit,
            fmt::format("name: {} bytes, the limit is {}", name.size(), max_bytes)};
  const std::string fault = fault_of(name, false);
  return fault.empty() ? Verdict{} : Verdict{RejectCode::kLimit, "name: it " + fault};
}

Verdict check_pattern(std::string_view pattern, std::uint32_t max_bytes) {
  if (pattern.size() > max_bytes)
    return {RejectCode::kLimit,
            fmt::format("pattern: {} bytes, the limit is {}", pattern.size(), max_bytes)};
  const std::string fault = fault_of(pattern, true);
  return fault.empty() ? Verdict{} : Verdict{RejectCode::kPattern, "pattern: it " + fault};
}

bool has_wildcards(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t literal = std::min(pattern.find_first_of("*?"), pattern.size());
  if (literal == pattern.size()) return pattern == name;
  if (!name.starts_with(pattern.substr(0, literal))) return false;
  name.remove_prefix(literal);
  const std::vector<Step> steps = steps_of(pattern.substr(literal));

  // reached[i]: the steps before i can have taken all of the name so far. All ways at once, so the
  // time is the product of the two lengths whatever they hold.
  std::vector<char> reached(steps.size() + 1, 0);
  std::vector<char> next(steps.size() + 1, 0);
  const auto pass_stars = [&steps](std::vector<char>& at) {
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (at[i] != 0 && is_star(steps[i])) at[i + 1] = 1;
  };
  reached[0] = 1;
  pass_stars(reached);
  while (!name.empty()) {
    const std::string_view character = next_character(name);
    name.remove_prefix(character.size());
    std::ranges::fill(next, 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (reached[i] == 0 || !takes(steps[i], character)) continue;
      next[is_star(steps[i]) ? i : i + 1] = 1;
    }
    pass_stars(next);
    std::swap(reached, next);
  }
  return reached.back() != 0;
}

}  // namespace simbridge::wire
